"""What a network can throw, in words that tell what to do about it."""

from __future__ import annotations

import errno
import os
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from headway.providers.error_messages import short_message
from headway.providers.http.connections import CONNECT_S

#: Everything that a network, or what answers at its other end, can throw.
NETWORK_ERRORS: Final = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, UnicodeError)


def duration_text(seconds: float) -> str:
    """As people say it."""
    return f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"


#: What a fault means for whoever has to do something about it; the first that fits.
_MEANINGS: Final[tuple[tuple[type[BaseException], str], ...]] = (
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
    (aiohttp.ConnectionTimeoutError, f"no connection to {{host}} within {duration_text(CONNECT_S)}"),
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


def network_error_text(fault: BaseException, host: str) -> str:
    """What happened, and what to look at."""
    text = short_message(_reason(fault))
    for kind, words in _MEANINGS:
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


# -- statuses that no chat API sends -------------------------------------------------------------------------------

#: Where to go instead; the others of 3xx say something else, or nothing.
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
#: Good ones that bring no answer. Asked again, they would bring none either.
WITHOUT_ANSWER: Final = frozenset({202, 204, 205})
#: About methods, proxies and protocols, not about what was asked.
_ABOUT_HTTP: Final = frozenset({405, 406, 407, 411, 415, 417, 418, 426, 501, 505})


def is_unusual(status: int) -> bool:
    """Whether no chat API sends it."""
    return (
        status < 200
        or 300 <= status < 400
        or status >= 600
        or status in WITHOUT_ANSWER
        or status in _ABOUT_HTTP
    )


def unusual_status_text(status: int) -> str:
    """What is said about it, with its usual name. The server's own name for it is not quoted."""
    try:
        name = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        name = str(status)
    return f"the server answered {name}, which no chat API sends; check base_url"
