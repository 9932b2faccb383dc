"""The parts of aiohttp that are used here, imported without certificates that are not needed.

aiohttp makes two TLS contexts when it is imported, and each reads all certificates of the system: 16 ms of CPU, a fifteenth of the start of
`headway run`. One of the two checks no certificate. It is made without them.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

_LOAD = "set_default_verify_paths"


@contextmanager
def _certificates_where_checked() -> Iterator[None]:
    """Meanwhile, a context that checks no certificate loads none."""
    if _LOAD in vars(ssl.SSLContext):  # Another library has replaced it.
        yield
        return
    load = ssl.SSLContext.set_default_verify_paths

    def load_if_checked(context: ssl.SSLContext) -> None:
        if context.verify_mode != ssl.CERT_NONE:
            load(context)

    setattr(ssl.SSLContext, _LOAD, load_if_checked)
    try:
        yield
    finally:
        delattr(ssl.SSLContext, _LOAD)


with _certificates_where_checked():
    import aiohttp
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.http_exceptions import HttpProcessingError

__all__ = ["Connection", "HttpProcessingError", "ResponseHandler", "aiohttp"]
