"""The body of an action: a small JSON object with known fields."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from headway.dashboard.answers.query import BadRequest

#: A body may be this long: the answer to a human step may be a text.
MOST_BYTES: Final = 65_536
#: A body arrives within so many seconds.
_LONGEST_S: Final = 15.0
#: Units that one action may name.
MOST_UNITS: Final = 1_000

Body = TypeVar("Body", bound="ActionBody")


class TooLarge(Exception):
    """The body of a request is larger than any action needs."""


class ActionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No fields: `pause`, `resume`, `reopen`."""


class CancelBody(ActionBody, frozen=True):
    """Units to cancel, by their index; none: the whole job."""

    units: list[int] = []


class RetryBody(ActionBody, frozen=True):
    """All failed units, or some units by their index."""

    failed: bool = False
    units: list[int] = []


class BudgetBody(ActionBody, frozen=True):
    """The most that the job may cost; 0: no cap."""

    max_cost_usd: float


class ApproveBody(ActionBody, frozen=True):
    """The answer to a human step; true if there is none."""

    node: str
    answer: Any = msgspec.UNSET
    reject: bool = False
    note: str = ""


class LimitsBody(ActionBody, frozen=True, omit_defaults=True):
    """New limits of a lane; 0 is unlimited."""

    rpm: float | None = None
    tpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    max_concurrency: int | None = None


async def read_body(request: Request) -> bytes:
    """The body, as far as it is not too large. Raises `TooLarge`, and `BadRequest` if it does not arrive."""
    data = b""
    try:
        async with asyncio.timeout(_LONGEST_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise TooLarge
    except (TimeoutError, ClientDisconnect):
        raise BadRequest("the body has not arrived") from None
    return data


def body_as(kind: type[Body], data: bytes) -> Body:
    """The fields of a body. Raises `BadRequest`."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"the body is not what this action takes: {error}") from None
