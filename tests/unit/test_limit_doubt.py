"""Configured limits that refusals prove too high."""

from __future__ import annotations

import pytest
from tests.unit.drive import Run, failed, lane_spec, ok, play, units

from headway.core.commands import Notice, Start
from headway.core.events import Finished
from headway.core.lanes.lane_memory import export_lane, import_lane
from headway.core.lanes.learning.limit_doubt import FEWEST, LONGEST_S, LimitDoubt, RefusedAttempt
from headway.core.model import Dimension, Kind, LaneLimits
from headway.core.reasons import LimitDisproved
from headway.reason_text import disproved_text
from headway.sim.virtual_bucket import VirtualBucket


def attempt(at: float, accepted: int, refused: int) -> RefusedAttempt:
    """The latest attempt of a lane was refused, after so many that were accepted."""
    sent = accepted + refused
    return RefusedAttempt(sent, at, sent, refused, after=0)


def doubted(found: float, allowed: float, every_s: float = 1.0, times: int = 20) -> float:
    """What refusals prove that come at regular times, of a provider that takes so many a second."""
    doubt = LimitDoubt()
    for count in range(times):
        at = count * every_s
        if proven := doubt.refused(attempt(at, int(found * at), count + 1), allowed):
            return proven
    return 0.0


@pytest.mark.parametrize("share", [0.2, 0.33, 0.5, 0.8])
def test_what_is_accepted_between_refusals_proves_a_limit_too_high(share: float) -> None:
    assert doubted(share * 100.0, 100.0) == pytest.approx(share * 100.0, rel=0.1)


def test_a_right_limit_is_not_doubted() -> None:
    assert doubted(100.0, 100.0, times=200) == 0.0


def test_a_level_that_was_misjudged_by_a_second_proves_nothing() -> None:
    doubt = LimitDoubt()
    accepted = [0, 10, 110, 210, 310]  # A second's worth less than a hundred a second.
    attempts = [attempt(float(at), count, at + 1) for at, count in enumerate(accepted)]
    assert [doubt.refused(one, 100.0) for one in attempts] == [0.0] * 5


def test_what_is_refused_later_of_the_burst_that_emptied_the_bucket_does_not_count_as_accepted() -> None:
    doubt = LimitDoubt()
    for refused in range(1, 31):  # 40 were sent at once, and ten of them were accepted.
        assert doubt.refused(RefusedAttempt(refused, 0.0, 40, refused, after=0), 30.0) == 0.0
    assert doubt.refused(RefusedAttempt(61, 2.0, 61, 31, after=0), 30.0) == 0.0, "ten a second: not clear yet"
    assert doubt.refused(RefusedAttempt(82, 4.0, 82, 32, after=0), 30.0) == pytest.approx(10.0)


def test_a_few_refusals_are_no_measurement() -> None:
    assert doubted(10.0, 100.0, every_s=10.0, times=FEWEST - 1) == 0.0


def test_refusals_far_apart_say_nothing_of_the_time_between() -> None:
    assert doubted(1.0, 100.0, every_s=LONGEST_S + 1.0) == 0.0


def overstated(limits: LaneLimits, rate: float, until: float) -> tuple[Run, list[float], list[Notice]]:
    """A lane with these limits, at a provider that takes so many requests a second; when it refused, and what was said."""
    run = Run(units(30_000), lane_spec(limits=limits))
    bucket, refused = VirtualBucket(rate, 2.0), list[float]()

    def answer(start: Start, now: float) -> tuple[float, Finished]:
        if bucket.short_by(1.0, now) > 0.0:
            refused.append(now)
            return 0.05, failed(start.unit.index, Kind.RATE)
        bucket.charge(1.0, now)
        return 0.3, ok(start.unit.index)

    steps = play(run, answer, until=until)
    return run, refused, [notice for _, step in steps for notice in step.notices]


def test_a_lane_with_a_limit_too_high_paces_itself_by_what_the_provider_takes() -> None:
    run, refused, _ = overstated(LaneLimits(rpm=1800.0), 10.0, until=120.0)
    lane = run.lane()
    assert lane.limits.finder is not None
    assert lane.limits.finder.rates[0] == pytest.approx(10.0, rel=0.1)
    assert len([at for at in refused if at > 60.0]) < 10


def test_the_lane_says_once_what_is_configured_and_what_is_taken() -> None:
    _, _, said = overstated(LaneLimits(rpm=1800.0), 10.0, until=120.0)
    notices = [notice.reason for notice in said if isinstance(notice.reason, LimitDisproved)]
    assert [(notice.dimension, notice.configured) for notice in notices] == [(Dimension.REQUESTS, 1800.0)]
    assert notices[0].found == pytest.approx(600.0, rel=0.2)


def test_a_right_limit_stays_in_force() -> None:
    run, _, _ = overstated(LaneLimits(rpm=600.0), 10.0, until=120.0)
    assert run.lane().limits.finder is None
    assert run.lane().limits.disproved is None


def test_what_was_proven_is_recorded_and_starts_the_next_run() -> None:
    run, _, _ = overstated(LaneLimits(rpm=1800.0), 10.0, until=120.0)
    record = export_lane(run.lane(), 120.0, 120.0)
    assert record.disproved is not None
    again = Run(units(10), lane_spec(limits=LaneLimits(rpm=1800.0))).lane()
    import_lane(again, record, 0.0, 120.0)
    assert again.limits.finder is not None
    assert again.limits.finder.rates[0] == pytest.approx(10.0, rel=0.1)


def test_a_limit_that_was_configured_anew_is_believed_again() -> None:
    run, _, _ = overstated(LaneLimits(rpm=1800.0), 10.0, until=120.0)
    record = export_lane(run.lane(), 120.0, 120.0)
    again = Run(units(10), lane_spec(limits=LaneLimits(rpm=600.0))).lane()
    import_lane(again, record, 0.0, 120.0)
    assert again.limits.finder is None


@pytest.mark.parametrize(
    ("configured", "found", "text"),
    [
        (1500.0, 502.4, "configured 1,500 requests per minute, refused above about 500"),
        (0.0, 87.0, "requests per minute: none configured, refused above about 87"),
    ],
)
def test_the_text_names_both_numbers(configured: float, found: float, text: str) -> None:
    assert disproved_text("requests", configured, found) == text
