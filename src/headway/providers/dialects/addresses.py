"""Where requests go: a configured address and a row's path → a URL. Pure; what is wrong with an address is one line."""

from __future__ import annotations

import re
from typing import Final

from yarl import URL

from headway.errors import ConfigError

_VERSION: Final = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?(?=/|$)")


def address_of(base_url: str) -> str:
    """The address itself, checked, without a slash at its end."""
    try:
        url = URL(base_url.strip())
    except ValueError:
        raise ConfigError("base_url is no address", hint="write https://host/v1") from None
    if url.user or url.password:
        raise ConfigError("base_url has a user or password in it", hint="put the key into api_key_env")
    if url.scheme not in ("http", "https") or not url.host or url.query_string or url.fragment:
        raise ConfigError(f"base_url {base_url!r} is not of the form https://host/v1")
    return str(url).rstrip("/")


def root_of(base_url: str) -> str:
    """The address that paths stand below: with its version, whether or not it was written, and without a slash.

    A version anywhere in the path means that the address is whole: `…/v1beta/openai`, `…/api/paas/v4`.
    """
    address = address_of(base_url)
    return address if _VERSION.search(URL(address).path) else f"{address}/v1"


class VersionedPaths:
    """An API whose paths stand below `/v1`, streamed or not."""

    def address(self, base_url: str) -> str:
        """What its paths stand below."""
        return root_of(base_url)

    def url(self, root: str, path: str) -> URL:
        """Where a row's path is."""
        below = path if path.startswith("/") else f"/{path}"
        return URL(root + (below.removeprefix("/v1") if below.startswith("/v1/") else below))

    def stream_url(self, root: str, path: str) -> URL:
        """Where the same is answered as a stream."""
        return self.url(root, path)

    def named_in(self, body: bytes) -> str:
        """What an answer calls itself, where no header names it."""
        return ""
