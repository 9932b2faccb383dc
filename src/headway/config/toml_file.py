"""A `headway.toml` → settings. An error is one line: the file, the key's full path, what was expected."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from headway.config import checks, toml_schema
from headway.config.kinds import KINDS, TableError, why_not
from headway.config.settings import (
    NOTIFY_HOLD_S,
    Config,
    NotifyConfig,
    OtelConfig,
    ProviderConfig,
    RayConfig,
    RetryConfig,
    ReviewConfig,
    ReviewInstruction,
    RunConfig,
)
from headway.core.model import LaneLimits, Price
from headway.errors import ConfigError

DEFAULT_DB: Final = ".headway/headway.db"

#: A provider's name is written before a slash in a model's name, so it has no slash itself.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
#: The longest key that a message shows in full.
_LONGEST_SHOWN: Final = 60


def read_config(path: Path) -> Config:
    """Read and check a file. A relative `db` is relative to the file."""
    return _File(path).config(_parse(path))


def provider_from(name: str, table: dict[str, Any], root: Path) -> ProviderConfig:
    """The settings of one provider, from a table that is in no file."""
    return _File(root / "headway.toml")._provider(name, table)


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", hint="'headway init' writes a headway.toml") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file", hint="headway.toml is written in UTF-8") from None
    except OSError as error:
        hint = "name a file in it" if isinstance(error, IsADirectoryError) else "check its permissions"
        raise ConfigError(
            f"{path}: cannot be read: {(error.strerror or str(error)).lower()}", hint=hint
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not TOML: nested too deeply") from None


def dotted(place: str, key: str) -> str:
    """A key's full path, quoted where TOML needs it."""
    shown = key if len(key) <= _LONGEST_SHOWN else key[:_LONGEST_SHOWN] + "…"
    shown = shown if _BARE_KEY.fullmatch(shown) else f'"{shown}"'
    return f"{place}.{shown}" if place else shown


class _File:
    """Converts one file to settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path.parent.absolute()

    def config(self, data: dict[str, Any]) -> Config:
        top = self._table(data, toml_schema.TOP, "")
        try:
            db = checks.database(top.get("db", DEFAULT_DB), self.root)
        except ValueError as error:
            raise self._wrong("db", str(error)) from None
        providers = self._providers(top.get("providers", {}))
        run = self._table(top.get("run", {}), toml_schema.RUN, "run")
        notify = NotifyConfig(run.pop("notify", ()), run.pop("notify_hold", NOTIFY_HOLD_S))
        review = self._review(top.get("review", {}))
        otel = OtelConfig(**self._table(top.get("otel", {}), toml_schema.OTEL, "otel"))
        return Config(
            self.path,
            self.root,
            db,
            providers,
            RunConfig(**run),
            review,
            notify,
            otel,
            RayConfig(**self._table(top.get("ray", {}), toml_schema.RAY, "ray")),
            db_is_named="db" in top,
        )

    def _review(self, table: object) -> ReviewConfig:
        fields = self._table(table, toml_schema.REVIEW, "review")
        place = dotted("review", "instructions")
        listed = fields.pop("instructions", [])
        if not isinstance(listed, list):
            raise self._wrong(place, "expected tables: [[review.instructions]] with path and text")
        return ReviewConfig(
            **fields,
            instructions=tuple(self._instruction(one, f"{place}[{at}]") for at, one in enumerate(listed)),
        )

    def _instruction(self, table: object, place: str) -> ReviewInstruction:
        fields = self._table(table, toml_schema.INSTRUCTION, place)
        for key in toml_schema.INSTRUCTION:
            if key not in fields:
                raise self._wrong(dotted(place, key), "missing")
        return ReviewInstruction(**fields)

    def _providers(self, tables: object) -> dict[str, ProviderConfig]:
        named = self._named(tables, "providers")
        for name in named:
            if not _NAME.fullmatch(name):
                raise self._wrong(
                    dotted("providers", name),
                    "a provider's name has letters, digits, dots, dashes and underscores",
                )
        return {name: self._provider(name, table) for name, table in named.items()}

    def _provider(self, name: str, table: object) -> ProviderConfig:
        place = dotted("providers", name)
        values = self._table(table, toml_schema.provider_keys(), place)
        if "kind" not in values:
            raise self._wrong(dotted(place, "kind"), f"missing; expected one of {', '.join(KINDS)}")
        kind = KINDS[values["kind"]]
        for key in self._named(table, place):
            if reason := why_not(kind, key):
                raise self._wrong(dotted(place, key), reason)
        try:
            usual = kind.complete(values)
        except TableError as error:
            raise self._wrong(dotted(place, error.key), error.text) from None
        limits = self._table(values.pop("limits", {}), toml_schema.LIMITS, dotted(place, "limits"))
        limits = {**usual, **limits}
        models = values.pop("models", {})
        values["models"] = self._models(models, limits, place)
        values["max_costs"] = self._max_costs(models, place)
        values["prices"], values["likes"] = self._prices(models, values.pop("prices", None), place)
        if (values["models"] or values["max_costs"]) and "pool" in values:
            raise self._wrong(
                dotted(place, "models"),
                "a pool is one lane with one set of limits and one max_cost; its models have none of their own",
            )
        retry = self._retry(values.pop("retry", {}), dotted(place, "retry"))
        return ProviderConfig(name=name, limits=LaneLimits(**limits), retry=retry, **values)

    def _models(self, tables: object, inherited: dict[str, Any], place: str) -> dict[str, LaneLimits]:
        """Each model's limits: those that it sets, and the provider's for the rest."""
        place = dotted(place, "models")
        models = {}
        for model, table in self._named(tables, place).items():
            inner = self._table(table, toml_schema.MODEL, dotted(place, model))
            if "limits" in inner:
                own = self._table(inner["limits"], toml_schema.LIMITS, dotted(dotted(place, model), "limits"))
                models[model] = LaneLimits(**{**inherited, **own})
        return models

    def _max_costs(self, models: object, place: str) -> dict[str, float]:
        """The caps of models that have one of their own."""
        place = dotted(place, "models")
        tables = {
            model: self._table(table, toml_schema.MODEL, dotted(place, model))
            for model, table in self._named(models, place).items()
        }
        return {model: table["max_cost_usd"] for model, table in tables.items() if table.get("max_cost_usd")}

    def _prices(self, models: object, general: object, place: str) -> tuple[dict[str, Price], dict[str, str]]:
        """Each model's prices (key "": those of all other models), and the models that cost as much as one of the price list."""
        tables = {"": (general, dotted(place, "prices"))} if general is not None else {}
        inner_place = dotted(place, "models")
        for model, table in self._named(models, inner_place).items():
            inner = self._table(table, toml_schema.MODEL, dotted(inner_place, model))
            if "prices" in inner:
                tables[model] = (inner["prices"], dotted(dotted(inner_place, model), "prices"))
        prices, likes = {}, {}
        for model, (table, at) in tables.items():
            values = self._table(table, toml_schema.PRICES, at)
            if "like" not in values:
                prices[model] = Price(**values)
            elif len(values) == 1:
                likes[model] = values["like"]
            else:
                raise self._wrong(
                    dotted(at, "like"),
                    "cannot be combined with prices: either set prices, or look them up with like",
                )
        return prices, likes

    def _retry(self, table: object, place: str) -> RetryConfig:
        retry = RetryConfig(**self._table(table, toml_schema.RETRY, place))
        if retry.cap_s < retry.base_s:
            raise self._wrong(
                dotted(place, "cap"), f"{retry.cap_s:g} s is shorter than the base, {retry.base_s:g} s"
            )
        return retry

    def _named(self, tables: object, place: str) -> dict[str, Any]:
        """A table of tables, by names that the user chooses."""
        if not isinstance(tables, dict):
            raise self._wrong(place, str(checks.expected("a table", tables)))
        return tables

    def _table(self, table: object, keys: toml_schema.Keys, place: str) -> dict[str, Any]:
        """The fields that a table sets. An inner table is passed on unchecked."""
        fields = {}
        for key, value in self._named(table, place).items():
            if key not in keys:
                text = toml_schema.unknown_key(key, keys, is_table=isinstance(value, dict))
                raise self._wrong(dotted(place, key), text)
            check = keys[key]
            try:
                fields[toml_schema.FIELDS.get(key, key)] = check(value) if check is not None else value
            except ValueError as error:
                raise self._wrong(dotted(place, key), str(error)) from None
        return fields

    def _wrong(self, place: str, what: str) -> ConfigError:
        return ConfigError(f"{self.path}: {place}: {what}")
