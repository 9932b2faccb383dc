"""Units that failed: by kind, and what to do about each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headway.core.model import Kind
from headway.dashboard.troubles.trouble import PageAction, Trouble, command_line, job_path
from headway.display.status_text import failure_line, retry_lines
from headway.reports.jobs import Failure
from headway.reports.status import FailureExample
from headway.unit_advice import advice_of

#: What to do about units that ended with a code that is no error of theirs.
_OTHERS: Final = {
    "cancelled": "They were cancelled. Run them again if they are wanted.",
    "": "The attempts of a unit say what happened.",
}
#: Codes whose units fail again if nothing is changed.
_NO_RETRY: Final = frozenset({Kind.INVALID, Kind.TOO_LARGE, "upstream_failed"})
#: Codes of units that nobody needs to be warned of.
_QUIET: Final = frozenset({"cancelled", "interrupted", "deadline"})
#: Refusals of an account: its lane says what is wrong, once for all of its units.
_SAID_BY_LANES: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.AUTH, Kind.QUOTA, Kind.HOLD})
#: Units that ended with the same code, and the first of them.
CountedFailure = tuple[Failure, FailureExample]


def advice_for(code: str) -> str:
    """What to do about units that ended with a code: a sentence."""
    advice = advice_of(code)
    return f"{advice[0].upper()}{advice[1:]}." if advice else _OTHERS.get(code, _OTHERS[""])


def failure_troubles(job: str, failures: Sequence[CountedFailure], flags: Sequence[str]) -> Iterator[Trouble]:
    """The failures of a job, each with its first unit."""
    for failure, example in failures:
        code = "cancelled" if failure.message == "cancelled" else failure.code
        again = code not in _NO_RETRY and code not in _QUIET
        yield Trouble(
            level="info" if code in _QUIET else "error",
            what=failure_line(failure, example),
            do="Correct the function, then run them again." if example.raised else advice_for(code),
            command=command_line(flags, "retry", job, "--failed") if again else "",
            action=PageAction(job_path(job, "retry"), {"failed": True}) if again else None,
        )


def retry_troubles(waiting: Sequence[Failure], *, is_live: bool) -> Iterator[Trouble]:
    """Units that wait for another attempt, by the reason why the last one failed."""
    do = "They are tried again by themselves." if is_live else "They are tried again when the job is resumed."
    for text in retry_lines([one for one in waiting if one.code not in _SAID_BY_LANES]):
        yield Trouble(level="info", what=text, do=do)
