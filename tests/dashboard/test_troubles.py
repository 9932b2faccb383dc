"""What a job's page says is wrong, and what to do: the right cause, and a step that works."""

from __future__ import annotations

from headway.core.model import Kind
from headway.core.reasons import AccountRefused, Wait, WaitCode
from headway.dashboard.troubles.failure_troubles import retry_troubles
from headway.dashboard.troubles.lane_troubles import held_trouble, stopped_trouble
from headway.dashboard.troubles.pace_troubles import pace_troubles
from headway.reports.flows.node_progress import NodeProgress
from headway.reports.jobs import Failure
from headway.reports.run_progress import LaneProgress, Progress, ProgressTotals, WaitReason

TOTALS = ProgressTotals(100, 10, 0, 0, 0, 0, 0, 1, 89, 11, 0, 0, 0, None, 30.0, 240.0, False)


def lane(queued: int, used: float, *, rate: float = 0.5, wait: WaitCode | None = None) -> LaneProgress:
    reason = None if wait is None else WaitReason(wait, "", 0, None)
    text = None if wait is None else "text"
    return LaneProgress(
        1,
        queued,
        queued,
        0,
        0,
        0,
        rate,
        None,
        "requests per minute (our part)",
        used,
        0.0,
        text,
        None,
        reason,
    )


def job_of(
    lanes: dict[str, LaneProgress],
    nodes: dict[str, NodeProgress] | None = None,
    totals: ProgressTotals = TOTALS,
) -> Progress:
    return Progress("j", 0.0, 1.0, totals, lanes, nodes=nodes or {})


def test_a_slow_job_names_the_lane_that_ends_last() -> None:
    lanes = {
        "a/m": lane(10, 1.0),
        "slow/m": lane(80, 1.0),
        "free/m": lane(200, 0.2),
        "held/m": lane(900, 1.0, wait=WaitCode.HOLD),
    }
    [one] = pace_troubles("j", job_of(lanes), ("--db", "x.db"), is_flow=False)
    assert (one.level, one.lane) == ("info", "slow/m")
    assert (
        one.what
        == "slow/m sets the pace: it is at its limit (requests per minute), and 80 units wait for it."
    )
    assert one.command == "headway report j -o report.html --db x.db"


def test_a_job_that_is_soon_done_or_paused_is_not_slow() -> None:
    lanes = {"slow/m": lane(80, 1.0)}
    for change in ({"eta_s": 5.0}, {"paused": True}):
        fields = {name: getattr(TOTALS, name) for name in TOTALS.__struct_fields__} | change
        assert not list(pace_troubles("j", job_of(lanes, totals=ProgressTotals(**fields)), (), is_flow=False))


def test_a_flow_that_holds_itself_back_names_the_node() -> None:
    node = NodeProgress("running", 400, 108, running=1, kind="agent", lane="a/m")
    [one] = pace_troubles("j", job_of({"a/m": lane(0, 0.4)}, {"label": node}), (), is_flow=True)
    assert one.node == "label"
    assert one.what.startswith("label does 1 at a time and has 291 more to do")
    assert "concurrency: auto" in one.do
    assert not list(pace_troubles("j", job_of({"a/m": lane(3, 0.4)}, {"label": node}), (), is_flow=True)), (
        "its lane has work"
    )


def test_a_stopped_lane_of_a_job_that_has_ended_is_not_opened_but_resumed() -> None:
    refused = AccountRefused(Kind.QUOTA, "no credit")
    ended = stopped_trouble("a/m", "quota: no credit", "", refused, (), is_live=False)
    assert (ended.command, ended.action) == ("", None)
    assert (
        ended.do
        == "The account has no credit left, or its spend limit is reached: raise it with the provider; then resume the job."
    )
    live = stopped_trouble("a/m", "quota: no credit", "", refused, (), is_live=True)
    assert live.command == "headway lanes --reopen a/m"
    key = stopped_trouble(
        "a/m", "auth", "check the key in KEY", AccountRefused(Kind.AUTH, "bad"), (), is_live=True
    )
    assert key.do.startswith(
        "Check the key in KEY. A running job keeps its key: with another key, resume the job"
    )


def test_a_hold_says_what_the_provider_said_once() -> None:
    held = held_trouble("a/m", Wait(WaitCode.HOLD, 60.0, "Rate limit reached."), ())
    assert held.what == "a/m is held: Rate limit reached."
    assert held.until_utc == 60.0
    waiting = [Failure("rate", 9, 0, "Rate limit reached."), Failure("transient", 2, 1, "reset")]
    [only] = retry_troubles(waiting, is_live=True)
    assert "transient" in only.what
