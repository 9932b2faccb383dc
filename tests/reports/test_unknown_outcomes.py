"""The first lines of a run after a process was killed."""

from __future__ import annotations

from headway.display.plain import began_lines
from headway.stores.records import Job, UnknownOutcome

COUNTS = dict.fromkeys(("succeeded", "cached", "failed", "timed_out", "cancelled", "skipped"), 0)
JOB = Job(1, "j", "batch", "running", "in", "d", {}, {}, {}, "out", 4, 0, COUNTS, 0, 0, 0, 0, 0.0, 1.0)


def unknown(name: str, *, sent: bool, program: bool) -> UnknownOutcome:
    return UnknownOutcome(0, name, sent, None, None, 112, 0, program=program)


def test_programs_may_have_run_and_their_prompt_is_no_cost() -> None:
    ran = [unknown(name, sent=True, program=True) for name in ("t1", "t2")]
    waited = unknown("t3", sent=False, program=True)
    assert began_lines(JOB, [*ran, waited])[1:] == [
        "2 units were running when the last process ended, and may have done a part of the work: t1, t2",
        "1 unit was about to start when the last process ended: t3",
    ]


def test_requests_may_have_been_sent_and_cost_something() -> None:
    [_, line] = began_lines(JOB, [unknown("u1", sent=False, program=False)])
    assert line.startswith(
        "1 unit may have been sent before the last process ended; the outcome is unknown: u1; sending"
    )
    assert line.endswith("about 28 tokens in")
