"""Units that failed: by kind, and what to do about each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headway.core.model import Kind
from headway.dashboard.troubles.trouble import PageAction, Trouble, command_line, job_path
from headway.display.status_text import failure_line, retry_lines
from headway.reports.jobs import Failure
from headway.reports.status import FailureExample

#: What to do about units that ended with each code.
ADVICE: Final = {
    Kind.RATE: "The provider refused too often. Run them again later, or with a lower --concurrency.",
    Kind.CONCURRENCY: "The provider takes fewer at once. Run them again with a lower --concurrency.",
    Kind.OVERLOAD: "The provider was overloaded. Run them again later.",
    Kind.HOLD: "The lane was held for longer than the run waits. Resume the job when the hold is over.",
    Kind.QUOTA: "Credit or a spending limit of the account is used up. Add credit, then run them again.",
    Kind.AUTH: "The provider refuses the key or the model. 'headway doctor' checks both; then run them again.",
    Kind.TOO_LARGE: "They are larger than the model or its limit takes. Shorten them, or choose another model.",
    Kind.INVALID: "They fail each time as they are: correct the input or the settings, then start a new run.",
    Kind.TRANSIENT: "The connection or the server failed. Run them again.",
    Kind.CRASH: "Their worker died. The attempts of a unit show its output; run them again when it is repaired.",
    Kind.TIMEOUT: "They took longer than --timeout. Give them more time, or make them smaller.",
    "interrupted": "They have not finished. Resume the job.",
    "deadline": "The time of the run was over. Resume the job.",
    "budget": "The budget was used up. Raise it, then resume the job.",
    "upstream_failed": "A unit that they wait for did not succeed. Run that one again: they follow.",
    "cancelled": "They were cancelled. Run them again if they are wanted.",
}
#: Codes whose units fail again if nothing is changed.
_NO_RETRY: Final = frozenset({Kind.INVALID, Kind.TOO_LARGE, "upstream_failed"})
#: Codes of units that nobody needs to be warned of.
_QUIET: Final = frozenset({"cancelled", "interrupted", "deadline"})
#: Without a code of its own.
_OTHER: Final = "The attempts of a unit say what happened."


#: Units that ended with the same code, and the first of them.
CountedFailure = tuple[Failure, FailureExample]


def advice_for(code: str) -> str:
    """What to do about units that ended with a code."""
    return ADVICE.get(code, _OTHER)


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
    for text in retry_lines(waiting):
        yield Trouble(level="info", what=text, do=do)
