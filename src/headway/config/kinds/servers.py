"""Servers: APIs of models over HTTP, one record for each. `providers.dialects` has the dialect under the same name."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from headway.config import checks
from headway.config.checks import Check
from headway.config.kinds.provider_kind import ProviderKind, TableError
from headway.config.known_vendors import BY_NAME, GENERIC, REGION, Vendor, is_own_host, vendor_at
from headway.config.settings import ProviderConfig, is_loopback

_KEYS: Final[dict[str, Check]] = {
    "profile": checks.profile,
    "base_url": checks.base_url,
    "stream": checks.flag,
    "insecure_http": checks.flag,
}
_USUAL_PORTS: Final = {"http": 80, "https": 443}


class ServerKind(ProviderKind):
    """An API with an address and a key."""

    builder = "http"
    is_server = True
    cacheable = True

    def __init__(self, name: str, **own_keys: Check) -> None:
        super().__init__(name, {**_KEYS, **own_keys})

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """The vendor's address, variable of the key and limits, where the table sets none."""
        vendor = self._vendor(values)
        values["base_url"] = self._address(vendor, values)
        if "api_key_env" not in values:
            values["api_key_env"] = vendor.variable
            values["key_optional"] = is_loopback(values["base_url"])
            values["key_withheld"] = not (values["key_optional"] or is_own_host(vendor, values["base_url"]))
        return dict(vendor.limits)

    def host(self, provider: ProviderConfig) -> str:
        """Host, and port if it is not the default of the scheme."""
        url = urlsplit(provider.base_url)
        name = (url.hostname or "").rstrip(".")
        name = f"[{name}]" if ":" in name else name
        return name if url.port in (None, _USUAL_PORTS[url.scheme]) else f"{name}:{url.port}"

    def _vendor(self, values: dict[str, Any]) -> Vendor:
        """The vendor of a table: by its profile, its address or its kind."""
        profile = values.get("profile")
        if profile is None or profile == GENERIC:
            return vendor_at(values.get("base_url", ""), self.name) or BY_NAME[self.name]
        vendor = BY_NAME[profile]
        if vendor.kind != self.name:
            raise TableError("profile", f'{vendor.title} needs kind = "{vendor.kind}"')
        return vendor

    def _address(self, vendor: Vendor, values: dict[str, Any]) -> str:
        """The address in the table, or the vendor's."""
        usual = vendor.base_url.replace(REGION, values.get("region", ""))
        return str(values.get("base_url", usual))


class AzureKind(ServerKind):
    """Azure OpenAI: every resource has an address of its own."""

    def _address(self, vendor: Vendor, values: dict[str, Any]) -> str:
        if "base_url" not in values:
            raise TableError(
                "base_url", "missing; the endpoint of your resource: https://NAME.openai.azure.com"
            )
        return super()._address(vendor, values)


SERVERS: Final = (
    ServerKind("openai"),
    ServerKind("anthropic"),
    AzureKind("azure", api_version=checks.api_version),
    ServerKind("gemini"),
)
