"""HTTP statuses that no chat API answers a request with: in words that say what to check. Pure.

They come from web servers, proxies and other services that stand at a wrong address. What a usual status means is in `codes`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

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


def unusual_status(status: int) -> str:
    """What is said about it, with its usual name. The server's own name for it is not quoted."""
    try:
        name = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        name = str(status)
    return f"the server answered {name}, which no chat API sends; check base_url"
