"""Where settings come from: flags win over the environment, the environment over the file.

Without a file, or with a file that has no providers, the providers are those whose usual variables are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import checks, toml_schema
from headway.config.env_file import read_env_file
from headway.config.kinds import KINDS
from headway.config.kinds.programs import AGENT_NAMES
from headway.config.known_vendors import BY_NAME
from headway.config.settings import Config, ProviderConfig
from headway.config.toml_file import DEFAULT_DB, read_config
from headway.config.trust import check_env_file, find
from headway.errors import ConfigError, HeadwayError, UsageError

BASE_URL_VARIABLES: Final = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}


def load(path: Path | None, start: Path, environ: Mapping[str, str]) -> Config:
    """The settings without flags. `path` is `--config`, `start` the working directory."""
    config = _from_file(path, start, environ) or _without_file(start)
    if not config.providers:
        guessed = _from_environment(environ, dotenv_of(config))
        config = msgspec.structs.replace(config, providers=guessed, providers_are_guessed=True)
    _check_provider(config, f"{config.path}: run.provider", ConfigError)
    if db := environ.get("HEADWAY_DB"):
        place = _database("HEADWAY_DB", db, start.absolute(), ConfigError)
        config = msgspec.structs.replace(config, db=place, db_is_named=True)
    return config


def dotenv_of(config: Config) -> dict[str, str]:
    """The variables of the `.env` beside the file."""
    return read_env_file(config.root / ".env")


def with_overrides(config: Config, **flags: object) -> Config:
    """The settings with flags: `db` and the keys of `[run]`. None is a flag that was not given.

    A relative `db` is relative to the working directory, as paths in a shell are.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if unknown := given.keys() - toml_schema.RUN.keys() - {"db"}:
        raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
    if "db" in given:
        db = _database("--db", given.pop("db"), Path(), UsageError)
        config = msgspec.structs.replace(config, db=db, db_is_named=True)
    fields = {toml_schema.FIELDS.get(name, name): _flag(name, value) for name, value in given.items()}
    config = msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, **fields))
    if "provider" in given:
        config = with_agents(config, (str(given["provider"]),))
        _check_provider(config, "--provider", UsageError)
    return config


def with_agents(config: Config, names: Iterable[str]) -> Config:
    """The settings with a provider for each of these names that is an agent CLI and has no table: all its keys have defaults."""
    missing = [name for name in names if name in AGENT_NAMES and name not in config.providers]
    if not missing:
        return config
    providers = {**config.providers, **{name: _agent(name) for name in missing}}
    return msgspec.structs.replace(config, providers=providers)


def _agent(name: str) -> ProviderConfig:
    values: dict[str, Any] = {"kind": name}
    KINDS[name].complete(values)
    return ProviderConfig(name=name, **values)


def with_insecure_http(config: Config) -> Config:
    """The settings with --insecure-http: every provider's key may go to another machine over plain http."""
    providers = {
        name: msgspec.structs.replace(provider, insecure_http=True)
        for name, provider in config.providers.items()
    }
    return msgspec.structs.replace(config, providers=providers)


def _from_file(path: Path | None, start: Path, environ: Mapping[str, str]) -> Config | None:
    if path is not None:
        return read_config(start / path)
    named = environ.get("HEADWAY_CONFIG")
    if named:
        try:
            return read_config(start / named)
        except ConfigError as error:
            raise ConfigError(f"HEADWAY_CONFIG: {error.message}", hint=error.hint) from None
    path = find(start)
    if path is None:
        return None
    check_env_file(path.parent / ".env", start)
    return read_config(path)


def _without_file(start: Path) -> Config:
    root = start.absolute()
    check_env_file(root / ".env", start)
    return Config(path=None, root=root, db=str(root / DEFAULT_DB))


def _from_environment(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> dict[str, ProviderConfig]:
    """A provider for each usual key that is set, named after its kind.

    An address counts only if it is in the same place as the key, or in the environment: a `.env` of another origin must
    not redirect the user's own key.
    """
    providers = {}
    for kind in BASE_URL_VARIABLES:
        variable = BY_NAME[kind].variable
        source = environ if environ.get(variable) else dotenv
        if not source.get(variable):
            continue
        where = BASE_URL_VARIABLES[kind]
        address = environ.get(where) or source.get(where) or BY_NAME[kind].base_url
        try:
            fields: dict[str, Any] = {"kind": kind, "base_url": checks.base_url(address)}
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
        providers[kind] = ProviderConfig(name=kind, api_key_env=variable, **fields)
    return providers


def _check_provider(config: Config, where: str, error: type[HeadwayError]) -> None:
    """Raise if `[run] provider` is not a configured provider."""
    name = config.run.provider
    if name is None or name in config.providers:
        return
    import difflib  # imported only for an error

    known = list(dict.fromkeys((*config.providers, *sorted(AGENT_NAMES))))  # Agent CLIs need no table.
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(known)}"
    raise error(f"{where}: there is no provider of that name{advice}")


def _flag(name: str, value: object) -> Any:
    check = toml_schema.RUN[name]
    assert check is not None
    try:
        return check(value)
    except ValueError as error:
        raise UsageError(f"--{name.replace('_', '-')}: {error}") from None


def _database(where: str, value: object, root: Path, error: type[HeadwayError]) -> str:
    try:
        return checks.database(value, root)
    except ValueError as wrong:
        raise error(f"{where}: {wrong}") from None
