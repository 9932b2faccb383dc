"""What is known of a route before its first request: attributes that all of its spans share."""

from __future__ import annotations

import msgspec


class RouteFacts(msgspec.Struct, frozen=True):
    """A route. `lane` is the lane's name for people, `host` and `port` are those of the provider's address ("" and 0: it has none).

    `is_agent`: an agent CLI. `is_remote`: requests leave this process over HTTP, so a `traceparent` goes to the provider.
    """

    lane: str
    kind: str
    profile: str
    model: str
    host: str = ""
    port: int = 0
    is_agent: bool = False
    is_remote: bool = True
