"""One thing that is wrong, or that someone should know."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from headway.command_flags import with_flags

Level = Literal["info", "warning", "error"]
#: The worst first.
_ORDER: Final[tuple[Level, ...]] = ("error", "warning", "info")


class PageAction(msgspec.Struct, frozen=True):
    """What a button of the page sends: a POST to this path. `asks` names fields of the body that the user fills in."""

    path: str
    body: Mapping[str, Any] = {}
    asks: Sequence[str] = ()


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, what to do, and how: the line of the command, and the action of the page. Either may be missing."""

    level: Level
    what: str
    do: str = ""
    command: str = ""
    action: PageAction | None = None
    #: When it ends by itself.
    until_utc: float | None = None
    #: The lane or the node that it is about.
    lane: str = ""
    node: str = ""


def worst_first(troubles: Sequence[Trouble], flags: Sequence[str]) -> list[Trouble]:
    """Errors before warnings, otherwise in their order. `flags` are those that commands in sentences need."""
    placed = [
        replace(one, what=with_flags(one.what, flags), do=with_flags(one.do, flags)) for one in troubles
    ]
    return sorted(placed, key=lambda one: _ORDER.index(one.level))


def command_line(flags: Sequence[str], *words: str) -> str:
    """A command of the CLI, as it is typed. `flags` lead to the records."""
    return shlex.join(["headway", *words, *flags])


def job_path(job: str, action: str) -> str:
    """The path of an action on a job."""
    return f"/api/jobs/{quote(job, safe='')}/{action}"


def lane_path(lane: str, action: str) -> str:
    """The path of an action on a lane, whose name may have slashes."""
    return f"/api/lanes/{quote(lane, safe='')}/{action}"
