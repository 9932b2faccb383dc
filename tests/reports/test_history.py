"""The lines of `headway logs`: what happened to many units at once takes one line."""

from __future__ import annotations

from headway.cli.watching.logs import FOLD_S, GAP_S
from headway.display.history_text import history_line
from headway.reports.history import Happening, concerns, folded


def lines(*happenings: Happening) -> list[str]:
    return [history_line(line).partition("Z  ")[2] for line in folded(happenings, FOLD_S, GAP_S)]


def started(at: float, unit: int, **more: object) -> Happening:
    return Happening(at, "started", f"u{unit}", 1, "lane", **more)  # type: ignore[arg-type]


def test_twenty_agents_that_meet_one_limit_take_a_line_each_time() -> None:
    story = [
        Happening(0.0, "began", text="20 units, 0 of them done"),
        *(started(0.1, n) for n in range(20)),
        *(Happening(1.0, "refused", f"u{n}", 1, "lane", "hold", "limit reached") for n in range(20)),
        Happening(1.0, "held", lane="lane", text="limit reached", until_utc=8.0),
        Happening(8.0, "released", lane="lane", text="limit reached"),
        *(Happening(8.1, "started", f"u{n}", 2, "lane") for n in range(20)),
        *(Happening(9.0, "succeeded", f"u{n}", 2, "lane", took_s=1.0) for n in range(20)),
        Happening(9.1, "ended", text="complete: 20 of 20 succeeded"),
    ]
    assert lines(*story) == [
        "the run began: 20 units, 0 of them done",
        "lane: 20 units started — u0, u1, u2 and 17 more",
        "lane: 20 attempts refused: hold, limit reached — u0, u1, u2 and 17 more",
        "lane: held until 1970-01-01T00:00:08.000Z: limit reached",
        "lane: the hold is over (limit reached)",
        "lane: 20 units started — u0, u1, u2 and 17 more",
        "lane: 20 units succeeded — u0, u1, u2 and 17 more",
        "the run ended: complete: 20 of 20 succeeded",
    ]


def test_a_line_lasts_ten_seconds_at_most_and_ends_with_a_pause() -> None:
    steady = [started(n / 2, n) for n in range(42)]
    assert [line.partition(" — ")[0] for line in lines(*steady)] == [
        "lane: 21 units started within 10.0 s"
    ] * 2


def test_units_that_start_one_after_the_other_have_lines_of_their_own() -> None:
    assert lines(started(0.0, 5), started(2.0, 6)) == ["u5 started on lane", "u6 started on lane"]
    assert lines(started(0.0, 5), started(0.4, 6)) == ["lane: 2 units started within 0.4 s — u5, u6"]


def test_a_line_has_one_message() -> None:
    first = Happening(0.0, "failed", "u1", 1, "lane", "invalid", "no such file: a")
    other = Happening(0.0, "failed", "u2", 1, "lane", "invalid", "no such model")
    assert lines(first, other) == [
        "u1 failed: invalid, no such file: a",
        "u2 failed: invalid, no such model",
    ]
    numbered = [
        Happening(0.0, "refused", f"u{n}", 1, "lane", "hold", f"limit reached (request {n})")
        for n in range(5)
    ]
    assert len(lines(*numbered)) == 1


def test_units_are_lost_with_their_process() -> None:
    lost = [Happening(0.0, "lost", f"u{n}", 1, "lane") for n in range(2)]
    assert lines(*lost) == ["lane: 2 units lost with their process — u0, u1"]
    assert lines(lost[0]) == ["u0 lost with its process"]


def test_one_unit_is_told_in_full() -> None:
    ended = Happening(0.0, "succeeded", "u1", 2, "lane", took_s=61.0, cost_usd=0.5)
    assert lines(ended) == ["u1 (attempt 2) succeeded in 61 s for $0.5000"]
    failed = Happening(0.0, "retried", "u1", 1, "lane", "crash", "exit code 1")
    assert lines(failed) == ["u1 failed and tried again: crash, exit code 1"]


def test_different_kinds_and_lanes_have_lines_of_their_own() -> None:
    one = Happening(0.0, "failed", "u1", 1, "a", "invalid", "no")
    other = Happening(0.0, "failed", "u2", 1, "a", "timeout", "late")
    elsewhere = Happening(0.0, "failed", "u3", 1, "b", "invalid", "no")
    assert len(lines(one, other, elsewhere)) == 3


def test_a_command_about_another_unit_is_not_in_the_history_of_a_unit() -> None:
    assert not concerns("t4 waits or runs already", "t6")
    assert not concerns("retry t10, t11; t12 has ended before", "t1")
    assert concerns("retry t10, t11; t12 waits or runs already", "t12")
    assert concerns("cancel t10, t11", "t10")
    assert concerns("pause", "t1")


def test_events_of_nodes_keep_their_order() -> None:
    story = [
        Happening(0.0, "node.started", node="fetch"),
        Happening(0.1, "started", "fetch", 1, "lane"),
        Happening(0.2, "node.finished", node="fetch"),
        Happening(0.2, "node.started", node="label"),
        Happening(0.3, "started", "label", 1, "lane"),
        *(Happening(0.4, "node.finished", node=f"n{n}") for n in range(3)),
    ]
    texts = [(line.first.event, len(line.happenings)) for line in folded(story, FOLD_S, GAP_S)]
    assert texts == [
        ("node.started", 1), ("started", 1), ("node.finished", 1), ("node.started", 1), ("started", 1), ("node.finished", 3),
    ]  # fmt: skip
    assert len(folded(story, FOLD_S, GAP_S, few_nodes=True)) == len(story)
