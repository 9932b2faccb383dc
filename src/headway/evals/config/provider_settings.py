"""Address, key variable, limits and prices of a provider of models: `config` of a provider → `ProviderConfig`.

The provider is made by the code that reads headway.toml, from a table in the same words. So its rules hold: a vendor's usual key goes to
another host only if `apiKeyEnvar` names the variable. An address in the user's own environment counts as the user's word, one in
the file does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headway.config import Config, ProviderConfig
from headway.config.known_vendors import BY_NAME
from headway.config.toml_file import provider_from
from headway.config.yaml_file import Marked
from headway.core.model import LaneLimits, Price
from headway.errors import ConfigError
from headway.evals.config.env_templates import is_secret_name
from headway.evals.config.key_sections import Fields
from headway.evals.config.key_tables import RATE_LIMIT
from headway.evals.config.provider_ids import ProviderId, VendorIds
from headway.evals.config.source_file import SourceFile
from headway.evals.spec import EvalProvider

_REGIONS: Final = ("AWS_BEDROCK_REGION", "AWS_REGION", "AWS_DEFAULT_REGION")
_USUAL_REGION: Final = "us-east-1"
_ADDRESSES: Final = ("apiBaseUrl", "baseURL", "endpoint", "apiHost")
#: Keys of a table, in the words of a configuration.
_WORDS: Final = {"base_url": "apiBaseUrl", "api_key_env": "apiKeyEnvar", "api_version": "apiVersion"}
_TOKENS: Final = 1_000_000


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says about a provider of models. "" and None: it says nothing."""

    address: str = ""
    key_variable: str = ""
    api_version: str = ""
    region: str = ""
    rpm: float | None = None
    tpm: float | None = None
    max_concurrency: int | None = None
    min_gap_s: float = 0.0
    price: Price | None = None
    #: Variables of this provider alone.
    env: dict[str, str] = {}
    #: Parameters of its requests.
    options: dict[str, Any] = {}

    @property
    def names_place(self) -> bool:
        """Whether it names an address or an account of its own."""
        return bool(self.address or self.key_variable or self.api_version or self.region)


class SettingsReader:
    """Reads the settings of providers. `environ` is the user's environment, `env` what the file adds to it."""

    def __init__(self, config: Config, environ: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._config, self._environ, self.env = config, environ, env

    def read(self, fields: Fields, place: str, source: SourceFile, given: ModelSettings) -> ModelSettings:
        """The settings in `config`, added to those that are already known."""
        named = [name for name in _ADDRESSES if name in fields]
        for name in named[1:]:
            source.error(fields.lines[name], f"{place}.{name}: {named[0]} is the address already")
        address = str(fields.value(named[0])) if named else ""
        if address and "://" not in address:
            address = f"https://{address}"
        variable = fields.value("apiKeyEnvar", "")
        if "apiKeyEnvar" in fields and not variable.isidentifier():
            hint = "write the name of a variable of the environment, such as OPENAI_API_KEY"
            source.error(
                fields.lines["apiKeyEnvar"], f"{place}.apiKeyEnvar: this is no variable's name", hint
            )
            variable = ""
        return msgspec.structs.replace(
            given,
            address=address,
            key_variable=variable,
            api_version=fields.value("apiVersion", ""),
            region=fields.value("region", ""),
            price=_price(fields),
            **self._limits(fields.get("rateLimit"), f"{place}.rateLimit", source),
        )

    def limits(self, config: Marked | None, place: str, source: SourceFile) -> dict[str, Any]:
        """The limits in the `config` of a program."""
        rates = (
            config.value.get("rateLimit") if config is not None and isinstance(config.value, dict) else None
        )
        return self._limits(rates, f"{place}.rateLimit", source)

    def _limits(self, node: Marked | None, place: str, source: SourceFile) -> dict[str, Any]:
        if node is None:
            return {}
        rates = RATE_LIMIT.read(node, place, source)
        values = {
            name: rates.value(key)
            for name, key in (("rpm", "rpm"), ("tpm", "tpm"), ("max_concurrency", "maxConcurrent"))
        }
        return {name: value for name, value in values.items() if value is not None}

    def table_for(self, parsed: ProviderId, settings: ModelSettings) -> ProviderConfig | None:
        """The table of headway.toml that an id means: it has the vendor's name, and the file names no other place."""
        if settings.names_place or self._address(parsed.vendor, settings)[0] in ("file", "provider"):
            return None
        for name in (parsed.vendor.vendor, parsed.word):
            table = self._config.providers.get(name)
            if table is not None and table.kind == BY_NAME[parsed.vendor.vendor].kind:
                return table
        return None

    def changed(self, table: ProviderConfig, model: str, settings: ModelSettings) -> ProviderConfig:
        """A provider with the limits and prices that a configuration sets for a model."""
        old = table.limits_for(model)
        limits = _with_limits(old, settings)
        if limits != old:
            table = msgspec.structs.replace(table, models={**table.models, model: limits})
        if settings.price is not None:
            table = msgspec.structs.replace(table, prices={**table.prices, model: settings.price})
        return table

    def check_used(
        self, parsed: ProviderId, settings: ModelSettings, place: tuple[str, int], source: SourceFile
    ) -> None:
        """Report settings that a vendor does not have, and variables that none of its settings reads."""
        vendor, (at, line) = parsed.vendor, place
        if settings.region and vendor.vendor != "bedrock":
            source.refuse(
                line, f"{at}.config.region", f"{vendor.title} has no regions here", "write apiBaseUrl"
            )
        if settings.api_version and vendor.vendor != "azure":
            source.refuse(line, f"{at}.config.apiVersion", "only Azure's API has versions")
        known = (
            *vendor.address_variables,
            *vendor.host_variables,
            *(_REGIONS if vendor.vendor == "bedrock" else ()),
        )
        for name in settings.env:
            if name not in known:
                hint = f"it reads {', '.join(known)}" if known else "write it into env of the file"
                source.refuse(line, f"{at}.env.{name}", "no setting of this provider reads it", hint)

    def described(self, parsed: ProviderId, settings: ModelSettings) -> ProviderConfig:
        """A provider that is in no headway.toml. Raises ConfigError in the words of the configuration."""
        vendor = BY_NAME[parsed.vendor.vendor]
        origin, address = self._address(parsed.vendor, settings)
        table: dict[str, Any] = {"kind": vendor.kind}
        if vendor.name != vendor.kind:
            table["profile"] = vendor.name
        if address:
            table["base_url"] = address
        if settings.key_variable:
            table["api_key_env"] = settings.key_variable
        elif origin == "environment":
            table["api_key_env"] = vendor.variable
        if vendor.name == "azure" and settings.api_version:
            table["api_version"] = settings.api_version
        if vendor.name == "bedrock":
            table["region"] = settings.region or self._variable(_REGIONS, settings)[1] or _USUAL_REGION
        try:
            made = provider_from(vendor.name, table, self._config.root)
        except ConfigError as error:
            raise ConfigError(_in_words(error.message, vendor.name), hint=error.hint) from None
        return self.changed(self._with_other_key(made, parsed.vendor), parsed.model, settings)

    def is_usual(self, parsed: ProviderId, settings: ModelSettings) -> bool:
        """Whether nothing names another place than the vendor's own."""
        return not settings.names_place and not self._address(parsed.vendor, settings)[1]

    def _with_other_key(self, provider: ProviderConfig, vendor: VendorIds) -> ProviderConfig:
        """The provider with the variable that promptfoo reads, if only that one is set."""
        usual = BY_NAME[vendor.vendor].variable
        if (
            vendor.other_key
            and provider.api_key_env == usual
            and self._environ.get(vendor.other_key)
            and not self._environ.get(usual)
        ):
            return msgspec.structs.replace(provider, api_key_env=vendor.other_key)
        return provider

    def _address(self, vendor: VendorIds, settings: ModelSettings) -> tuple[str, str]:
        """Who names the address, and the address; both "" for the vendor's own."""
        if settings.address:
            return "provider", settings.address
        origin, address = self._variable(vendor.address_variables, settings)
        if not address:
            origin, address = self._variable(vendor.host_variables, settings)
        if address and "://" not in address:
            address = f"https://{address}"
        return origin, address

    def _variable(self, names: tuple[str, ...], settings: ModelSettings) -> tuple[str, str]:
        """The first variable that is set: for the provider, in the file, or in the environment."""
        for origin, values in (
            ("provider", settings.env),
            ("file", self.env),
            ("environment", self._environ),
        ):
            for name in names:
                if values.get(name):
                    return origin, values[name]
        return "", ""


def check_env(node: Marked, place: str, source: SourceFile) -> dict[str, str]:
    """`env`: variables without keys. A key is an error that says where it belongs."""
    values: dict[str, str] = {}
    for name, one in node.value.items():
        line = node.key_lines.get(name, node.line)
        if isinstance(one.value, dict | list):
            source.error(line, f"{place}.{name}: expected a text")
        elif one.value is not None and is_secret_name(name) and str(one.value).strip():
            hint = "export it, and name the variable with apiKeyEnvar if it is not the vendor's usual one"
            source.error(line, f"{place}.{name}: a key is never written into this file", hint)
        elif one.value is not None:
            values[name] = str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
    return values


def check_lanes(providers: Iterable[EvalProvider], config: Config, source: SourceFile) -> None:
    """Report two providers that share a lane and set different limits for it."""
    lanes: dict[tuple[str, str, str, str], tuple[LaneLimits, EvalProvider]] = {}
    for one in providers:
        table = one.brings or config.providers[one.provider]
        if not table.base_url:
            continue
        lane = (table.kind, table.base_url, table.api_key_env, table.pool or one.model)
        limits = table.limits_for(one.model)
        known, first = lanes.setdefault(lane, (limits, one))
        if known != limits:
            place = f", as '{first.name}' in line {first.line}" if first.line else ""
            message = f"provider '{one.name}': the limits of {one.model} are not the same everywhere"
            source.error(
                one.line, message + place, "write the same rateLimit and delay for both: they share a lane"
            )


def _with_limits(limits: LaneLimits, settings: ModelSettings) -> LaneLimits:
    own = {"rpm": settings.rpm, "tpm": settings.tpm, "max_concurrency": settings.max_concurrency}
    given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    if settings.min_gap_s:
        given["min_gap_s"] = settings.min_gap_s
    return msgspec.structs.replace(limits, **given)


def _price(fields: Fields) -> Price | None:
    """USD for a token → for a million tokens."""
    general = fields.value("cost")
    given = (fields.value("inputCost", general), fields.value("outputCost", general))
    if given == (None, None):
        return None
    return Price(input=(given[0] or 0.0) * _TOKENS, output=(given[1] or 0.0) * _TOKENS)


def _in_words(message: str, name: str) -> str:
    """An error about a table, in the words of a configuration."""
    text = message.partition(f"{os.sep}headway.toml: ")[2].removeprefix(f"providers.{name}.") or message
    key, colon, what = text.partition(": ")
    return f"config.{_WORDS.get(key, key)}: {what}" if colon else text
