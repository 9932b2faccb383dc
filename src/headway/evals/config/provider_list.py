"""`providers`: ids, objects, maps and files → `EvalProvider`s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headway.config import Config, ProviderConfig
from headway.config.routing import Router
from headway.config.yaml_file import Marked, marked
from headway.errors import ConfigError, UsageError
from headway.evals.config.code_values import language_of, read_code, with_files
from headway.evals.config.env_templates import named_variable
from headway.evals.config.file_trees import file_tree
from headway.evals.config.key_sections import Fields, kind_of_value
from headway.evals.config.key_tables import PROVIDER, PROVIDER_CONFIG
from headway.evals.config.parameters import read_parameters
from headway.evals.config.provider_ids import ProviderId, RefusedId, known_beginnings, parse_id
from headway.evals.config.provider_names import ProviderNames
from headway.evals.config.provider_settings import ModelSettings, SettingsReader, check_env
from headway.evals.config.source_file import SCHEME, SourceFile
from headway.evals.programs.program_providers import program_provider
from headway.evals.spec import EvalProvider

_LISTS: Final = (".yaml", ".yml", ".json")


class ProviderReader:
    """Reads providers. It remembers those that ids describe, so that equal ones are one."""

    def __init__(self, config: Config, settings: SettingsReader) -> None:
        self._config, self._settings = config, settings
        self._router = Router(config)
        self._names = ProviderNames(config)

    def read(self, node: Marked, place: str, source: SourceFile) -> tuple[EvalProvider, ...]:
        """All providers of the configuration, in order. One that is listed twice counts once."""
        if isinstance(node.value, list):
            entries = [(one, f"{place}[{number}]") for number, one in enumerate(node.value)]
        else:
            entries = [(node, place)]
        result: list[EvalProvider] = []
        seen: set[bytes] = set()
        for one, at in entries:
            written = msgspec.json.encode(one.plain())
            if written not in seen:
                seen.add(written)
                result += self.entry(one, at, source)
        return tuple(result)

    def entry(self, node: Marked, place: str, source: SourceFile) -> tuple[EvalProvider, ...]:
        """The providers of an entry: one, or those of a file or a mapping from ids to objects."""
        if isinstance(node.value, str) and _is_list(node.value):
            return tuple(self._of_file(node, place, source))
        if isinstance(node.value, str):
            fields = Fields(node.line)
            fields["id"] = node
            fields.lines["id"] = node.line
            one = self._provider(fields, place, source)
        elif not isinstance(node.value, dict):
            source.error(node.line, f"{place}: expected an id or an object, not {kind_of_value(node.value)}")
            return ()
        elif "id" in node.value or not _is_map(node):
            one = self._object(node, place, source)
        else:
            return tuple(self._of_map(node, place, source))
        return () if one is None else (one,)

    def _of_map(self, node: Marked, place: str, source: SourceFile) -> Iterator[EvalProvider]:
        for name, inner in node.value.items():
            line = node.key_lines.get(name, node.line)
            if not isinstance(inner.value, dict | None):
                what = kind_of_value(inner.value)
                source.error(line, f"{place}.{name}: expected the settings of '{name}', not {what}")
                continue
            own = Marked({"id": Marked(name, line), **(inner.value or {})}, line)
            own.key_lines = {"id": line, **inner.key_lines}
            one = self._object(own, f"{place}.{name}", source)
            if one is not None:
                yield one

    def _of_file(self, node: Marked, place: str, source: SourceFile) -> Iterator[EvalProvider]:
        for path in source.matching(node.value, node.line, place):
            inner = source.inner(path, node.line)
            tree = None if inner is None else file_tree(inner)
            if inner is not None and tree is not None:
                entries = tree.value if isinstance(tree.value, list) else [tree]
                for number, one in enumerate(entries):
                    yield from self.entry(one, f"[{number}]" if len(entries) > 1 else "provider", inner)

    def _object(self, node: Marked, place: str, source: SourceFile) -> EvalProvider | None:
        fields = PROVIDER.read(node, place, source)
        if "id" not in fields:
            source.error(node.line, f"{place}: 'id' is missing", "such as openai:chat:MODEL")
            return None
        config = fields.get("config")
        if config is not None and isinstance(config.value, str):
            loaded = with_files(config.value, config.line, f"{place}.config", source)
            if not isinstance(loaded, dict):
                source.error(config.line, f"{place}.config: expected a mapping, or file://NAME with one")
                del fields["config"]
            else:
                fields["config"] = marked(loaded, config.line)
        return self._provider(fields, place, source)

    def _provider(self, fields: Fields, place: str, source: SourceFile) -> EvalProvider | None:
        """One provider of any sort."""
        identity, line = str(fields["id"].value).strip(), fields.lines["id"]
        label = str(fields.value("label", ""))
        target = self._target(identity, fields, place, source)
        if target is None:
            return None
        prompts = fields.value("prompts", ())
        if prompts == [] or prompts == "":
            hint = "leave the key out for all prompts"
            source.error(fields.lines["prompts"], f"{place}.prompts: it would get no prompt", hint)
        transform = fields.get("transform")
        return msgspec.structs.replace(
            target,
            id=identity,
            label=label,
            prompts=(prompts,) if isinstance(prompts, str) else tuple(str(one) for one in prompts),
            transform=None if transform is None else read_code(transform, f"{place}.transform", source),
            line=line,
        )

    def _target(self, identity: str, fields: Fields, place: str, source: SourceFile) -> EvalProvider | None:
        """What an id names: a table of headway.toml, a model of a vendor, or a program."""
        line = fields.lines["id"]
        if not identity:
            source.error(line, f"{place}: the id is empty", "such as openai:chat:MODEL")
            return None
        if identity.partition("/")[0] in self._config.providers:
            return self._own(identity, fields, place, source)
        if _is_program(identity):
            return self._program(identity, fields, place, source)
        parsed = parse_id(identity)
        if parsed is None and identity.partition(":")[0] in self._config.providers:
            return self._own(identity.replace(":", "/", 1), fields, place, source)
        if isinstance(parsed, RefusedId):
            source.refuse(line, f"{place}: {identity}", parsed.why, parsed.instead)
        elif parsed is None:
            known = (*self._config.providers, *known_beginnings())
            source.unknown(line, f"{place}: '{identity}' is no provider", identity.partition(":")[0], known)
        elif not parsed.model:
            source.error(line, f"{place}: '{identity}' names no model", f"write {identity.rstrip(':')}:MODEL")
        else:
            return self._model(parsed, fields, place, source)
        return None

    def _own(self, identity: str, fields: Fields, place: str, source: SourceFile) -> EvalProvider | None:
        """A provider of headway.toml: `alpha` or `alpha/gpt-x`."""
        name, _, model = identity.partition("/")
        table = self._config.providers[name]
        if not model and not table.model:
            hint = f"write {name}/MODEL, or set model in [providers.{name}]"
            source.error(fields.lines["id"], f"{place}: provider '{name}' has no default model", hint)
            return None
        settings = self._model_settings(fields, place, source)
        if settings.names_place or settings.env:
            hint = f"write them into [providers.{name}] of headway.toml"
            source.error(
                fields.line, f"{place}: '{name}' has its address, key and region in headway.toml", hint
            )
        model = model or table.model or ""
        brings = self._settings.changed(table, model, settings)
        return self._made(brings, table, model, settings)

    def _model(
        self, parsed: ProviderId, fields: Fields, place: str, source: SourceFile
    ) -> EvalProvider | None:
        settings = self._model_settings(fields, place, source)
        self._settings.check_used(parsed, settings, (place, fields.line), source)
        table = self._settings.table_for(parsed, settings)
        try:
            brings = (
                self._settings.described(parsed, settings)
                if table is None
                else self._settings.changed(table, parsed.model, settings)
            )
        except ConfigError as error:
            source.error(fields.line, f"{place}: {error.message}", error.hint or "")
            return None
        is_usual = self._settings.is_usual(parsed, settings)
        made = self._made(brings, table or brings, parsed.model, settings, is_usual=is_usual)
        return msgspec.structs.replace(made, endpoint=parsed.endpoint)

    def _made(
        self,
        brings: ProviderConfig,
        table: ProviderConfig,
        model: str,
        settings: ModelSettings,
        *,
        is_usual: bool = False,
    ) -> EvalProvider:
        """The provider; without `brings` if it is a table of headway.toml, unchanged."""
        known = not self._config.providers_are_guessed
        if known and brings == self._config.providers.get(table.name):
            return EvalProvider(id="", provider=table.name, model=model, options=settings.options)
        named = self._names.named(brings, is_usual=is_usual)
        return EvalProvider(id="", provider=named.name, model=model, brings=named, options=settings.options)

    def _model_settings(self, fields: Fields, place: str, source: SourceFile) -> ModelSettings:
        """The settings of a provider of models, and the parameters of its requests."""
        env = _env_of(fields, place, source)
        delay = float(fields.value("delay", 0.0)) / 1000
        if "config" not in fields:
            return ModelSettings(env=env, min_gap_s=delay)
        at = f"{place}.config"
        config = PROVIDER_CONFIG.read(_with_key_variable(fields["config"]), at, source)
        others = {
            name: one
            for name, one in config.items()
            if name not in PROVIDER_CONFIG.keys or name in ("passthrough", "extra_body")
        }
        parameters = read_parameters(others, config.lines, at, source)
        return self._settings.read(
            config, at, source, ModelSettings(env=env, min_gap_s=delay, options=parameters)
        )

    def _program(self, identity: str, fields: Fields, place: str, source: SourceFile) -> EvalProvider | None:
        config = fields.value("config", {})
        limits = self._settings.limits(fields.get("config"), f"{place}.config", source)
        own = {name: value for name, value in config.items() if name != "rateLimit"}
        env = {**self._settings.env, **_env_of(fields, place, source)}
        try:
            brings = program_provider(identity, own, source.root, env)
        except (ConfigError, UsageError) as error:
            source.error(fields.lines["id"], f"{place}: {error.message}", error.hint or "")
            return None
        if brings is None:
            source.error(fields.lines["id"], f"{place}: '{identity}' is no provider")
            return None
        limits["min_gap_s"] = float(fields.value("delay", 0.0)) / 1000
        limits = {name: value for name, value in limits.items() if value}
        brings = msgspec.structs.replace(brings, limits=msgspec.structs.replace(brings.limits, **limits))
        named = self._names.named(brings, is_usual=True)
        return EvalProvider(id="", provider=named.name, model=named.model or identity, brings=named)


def _env_of(fields: Fields, place: str, source: SourceFile) -> dict[str, str]:
    """The variables of one provider."""
    return check_env(fields["env"], f"{place}.env", source) if "env" in fields else {}


def _is_list(identity: str) -> bool:
    return identity.startswith(SCHEME) and identity.endswith(_LISTS)


def _is_program(identity: str) -> bool:
    if identity.startswith(SCHEME):
        return language_of(identity) is not None
    return identity in ("echo", "http", "https") or identity.startswith(
        ("exec:", "python:", "javascript:", "http://", "https://")
    )


def _is_map(node: Marked) -> bool:
    """Whether a mapping without an id is one from ids to objects."""
    return bool(node.value) and not set(node.value) & set(PROVIDER.keys)


def _with_key_variable(config: Marked) -> Marked:
    """`apiKey: "{{env.NAME}}"` as `apiKeyEnvar: NAME`: the key itself is not in the file."""
    key = config.value.get("apiKey") if isinstance(config.value, dict) else None
    if key is None or not (name := named_variable(key.value)):
        return config
    values: dict[str, Any] = {name: one for name, one in config.value.items() if name != "apiKey"}
    result = Marked({"apiKeyEnvar": Marked(name, key.line), **values}, config.line)
    result.key_lines = {"apiKeyEnvar": key.line, **config.key_lines}
    return result
