"""What a network can throw, in words that tell what to do about it."""

from __future__ import annotations

import errno
import os
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from headway.providers.messages import shown
from headway.providers.wire import CONNECT_S

#: Everything that a network, or what answers at its other end, can throw.
FAULTS: Final = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, UnicodeError)


def duration(seconds: float) -> str:
    """As people say it."""
    return f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"


#: What a fault means for whoever has to do something about it; the first that fits.
_TROUBLES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (
        aiohttp.ClientConnectorCertificateError,
        "the certificate of {host} is not trusted ({text}): check base_url, the system's clock, and its certificates "
        "(SSL_CERT_FILE)",
    ),
    (
        aiohttp.ClientConnectorSSLError,
        "no TLS connection to {host}: check base_url, which may have to begin with http:// instead of https://",
    ),
    (
        aiohttp.ClientConnectorDNSError,
        "the host {host} cannot be resolved: check base_url, the network and its DNS",
    ),
    (aiohttp.ConnectionTimeoutError, f"no connection to {{host}} within {duration(CONNECT_S)}"),
    (
        aiohttp.ClientConnectorError,
        "no connection to {host} ({text}): check that a server runs there, and base_url",
    ),
    (aiohttp.ServerDisconnectedError, "{host} closed the connection before it answered"),
    (aiohttp.ClientPayloadError, "the answer broke off: {text}"),
    (HttpProcessingError, "{host} answers something that is no HTTP ({text})"),
    (UnicodeError, "the host {host} cannot be resolved: check base_url"),
    (ConnectionError, "the connection to {host} was lost ({text})"),
)


def trouble(fault: BaseException, host: str) -> str:
    """What happened, and what to look at."""
    text = shown(_reason(fault))
    for kind, words in _TROUBLES:
        if isinstance(fault, kind):
            return words.format(host=host, text=text)
    return f"the connection to {host} failed: {text}"


def _reason(fault: BaseException) -> str:
    """The part of a fault's text that says something."""
    if isinstance(fault, aiohttp.ClientConnectorCertificateError):
        fault = fault.certificate_error
        return getattr(fault, "verify_message", "") or str(fault)
    if isinstance(fault, HttpProcessingError):
        return fault.message
    if isinstance(fault, OSError) and fault.strerror:
        known = fault.errno is not None and fault.errno in errno.errorcode
        return (
            os.strerror(fault.errno or 0).lower() if known else fault.strerror
        )  # Loops add the address again.
    return str(fault) or type(fault).__name__
