"""Makes the URL of a request from the configured address and the path of a row. Pure; errors about an address are one line."""

from __future__ import annotations

import re
from typing import Final

from yarl import URL

from headway.errors import ConfigError

_VERSION: Final = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?(?=/|$)")


def address_of(base_url: str) -> str:
    """The checked address, without a trailing slash."""
    try:
        url = URL(base_url.strip())
    except ValueError:
        raise ConfigError("base_url is not an address", hint="write https://host/v1") from None
    if url.user or url.password:
        raise ConfigError("base_url has a user or password in it", hint="put the key into api_key_env")
    if url.scheme not in ("http", "https") or not url.host or url.query_string or url.fragment:
        raise ConfigError(f"base_url {base_url!r} is not of the form https://host/v1")
    return str(url).rstrip("/")


def root_of(base_url: str) -> str:
    """The base URL of paths: with its version, configured or not, and without a trailing slash.

    A version anywhere in the path means that the address is whole: `…/v1beta/openai`, `…/api/paas/v4`.
    """
    address = address_of(base_url)
    return address if _VERSION.search(URL(address).path) else f"{address}/v1"


class VersionedPaths:
    """An API whose paths are below `/v1`, streamed or not."""

    def address(self, base_url: str) -> str:
        """The base URL of its paths."""
        return root_of(base_url)

    def url(self, root: str, path: str) -> URL:
        """The URL of a row's path."""
        below = path if path.startswith("/") else f"/{path}"
        return URL(root + (below.removeprefix("/v1") if below.startswith("/v1/") else below))

    def stream_url(self, root: str, path: str) -> URL:
        """The URL that answers the same with a stream."""
        return self.url(root, path)

    def named_in(self, body: bytes) -> str:
        """The id in an answer, if no header has one."""
        return ""
