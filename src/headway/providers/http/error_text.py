"""Network errors and unusual statuses, in words that say what to do."""

from __future__ import annotations

import errno
import os
from http import HTTPStatus
from typing import Final

from headway.providers.error_messages import short_message
from headway.providers.http.client_library import HttpProcessingError, aiohttp
from headway.providers.http.connections import CONNECT_S

#: The exceptions of a network or of a server's responses.
NETWORK_ERRORS: Final = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, UnicodeError)


def duration_text(seconds: float) -> str:
    """For messages."""
    return f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"


#: What an error means, and what to do about it; the first that fits.
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
    (HttpProcessingError, "{host} does not answer in HTTP ({text})"),
    (UnicodeError, "the host {host} cannot be resolved: check base_url"),
    (ConnectionError, "the connection to {host} was lost ({text})"),
)


def network_error_text(fault: BaseException, host: str) -> str:
    """What happened, and what to check."""
    text = short_message(_reason(fault))
    for kind, words in _MEANINGS:
        if isinstance(fault, kind):
            return words.format(host=host, text=text)
    return f"the connection to {host} failed: {text}"


def _reason(fault: BaseException) -> str:
    """The informative part of an error's text."""
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

#: Redirects. Other 3xx statuses mean something else.
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
#: Successful statuses without an answer. A retry would bring none either.
WITHOUT_ANSWER: Final = frozenset({202, 204, 205})
#: About methods, proxies and protocols, not about the request.
_ABOUT_HTTP: Final = frozenset({405, 406, 407, 411, 415, 417, 418, 426, 501, 505})


def is_unusual(status: int) -> bool:
    """Whether no chat API sends this status."""
    return (
        status < 200
        or 300 <= status < 400
        or status >= 600
        or status in WITHOUT_ANSWER
        or status in _ABOUT_HTTP
    )


def unusual_status_text(status: int) -> str:
    """The message for it, with the standard name of the status. The server's own reason phrase is not quoted."""
    try:
        name = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        name = str(status)
    return f"the server answered {name}, which no chat API sends; check base_url"
