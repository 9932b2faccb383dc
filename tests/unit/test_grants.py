"""A part of a lane is a grant that ends: nothing starts after it, and who comes back begins with an empty bucket."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import Run, lane_spec, ok, units

from headway.core.events import Granted, HoldLane, Share
from headway.core.lanes.job_share import Claim, Grant
from headway.core.lanes.learning.rate_finder import Pace
from headway.core.model import LaneLimits
from headway.core.reasons import WaitCode
from headway.core.scheduler import Scheduler
from headway.engine.flights import LaneHandle
from headway.engine.recording.store_clock import StoreClock
from headway.engine.sharing.grant_term import GRANT_S, SOON_S, GrantTerm
from headway.engine.sharing.lane_sharing import LaneSharing
from headway.engine.sharing.other_claims import FORGET_S, LINGER_S, OtherClaims
from headway.stores.claims import COUNTS_S, ClaimNews, Claims
from headway.stores.records import StoredClaim, StoredLane
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

TEN_A_SECOND = LaneLimits(rpm=600, burst_s=2.0)


def starts(run: Run, at: float, *events: Granted | Share | HoldLane) -> int:
    return len(run.at(at, *events).starts)


# -- the scheduler ---------------------------------------------------------------------------------------------------


def test_nothing_starts_when_the_grant_has_ended_and_all_goes_on_with_the_next() -> None:
    run = Run(units(40), lane_spec(limits=TEN_A_SECOND))
    assert starts(run, 0.0, Granted(3.0)) > 0
    assert starts(run, 2.9) > 0
    late = run.at(9.0)
    assert (late.starts, late.wake_at) == ([], None), "nothing, and no reason to wake"
    wait = run.view(9.0).wait
    assert wait is not None
    assert wait.code is WaitCode.DATABASE
    assert starts(run, 9.1, Granted(12.0)) > 0


def test_one_that_comes_back_begins_with_an_empty_bucket_and_keeps_its_pace() -> None:
    """The bucket would have filled meanwhile; the others have used that."""
    half = Share("a", Grant(0.5), None, True)
    run = Run(units(200), lane_spec(limits=TEN_A_SECOND))
    starts(run, 0.0, Granted(3.0), Share("a", Grant(0.5)))
    assert starts(run, 60.0, half, Granted(70.0)) == 0
    after = [starts(run, 60.0 + tenth / 10.0) for tenth in range(1, 41)]
    assert sum(after) <= 20
    assert sum(after[20:]) == pytest.approx(10, abs=1)


def test_a_lane_is_held_as_another_process_was_told() -> None:
    run = Run(units(4), lane_spec(limits=TEN_A_SECOND))
    assert starts(run, 0.0, HoldLane("a", 90.0, "resets at 4pm")) == 0
    wait = run.view(1.0).wait
    assert wait is not None
    assert (wait.code, wait.until, wait.message) == (WaitCode.HOLD, 90.0, "resets at 4pm")
    assert starts(run, 91.0) > 0


def test_a_limit_that_another_process_has_disproved_is_not_believed_here_either() -> None:
    """It was configured three times too high."""
    found = Pace((10.0 / 3.0, 0.0, 0.0, 0.0), 0, 2.0, 30.0)
    run = Run(units(200), lane_spec(limits=TEN_A_SECOND))
    starts(run, 0.0, Share("a", Grant(0.5, follows=True, pace=found)))
    after = [starts(run, 10.0 + tenth / 10.0) for tenth in range(1, 121)]
    assert sum(after[-60:]) == pytest.approx(10, abs=2)
    disproved = run.lane().limits.disproved
    assert disproved is not None
    assert disproved.configured == 600.0
    assert disproved.found == pytest.approx(200.0)

    right = Run(units(200), lane_spec(limits=TEN_A_SECOND))
    starts(right, 0.0, Share("a", Grant(0.5, follows=True, pace=Pace((9.9, 0.0, 0.0, 0.0), 0, 2.0, 30.0))))
    assert right.lane().limits.disproved is None


# -- the term ----------------------------------------------------------------------------------------------------------


def test_a_grant_ends_before_others_give_it_away_however_slow_the_store_is() -> None:
    """Counted from when the renewal was written: the store has seen it later, and others count from then."""
    term = GrantTerm()
    assert term.is_over(0.0)
    term.asks()
    term.heard()
    assert term.is_over(0.0), "nothing of ours was seen by then"
    term.renewed(10.0)
    term.asks()
    term.renewed(12.0)  # Committed while the look was under way: the look may not have seen it.
    term.heard()
    assert term.until == 10.0 + GRANT_S < 10.0 + COUNTS_S
    assert not term.is_over(12.9)
    assert term.is_over(13.0)


def test_a_grant_that_ends_soon_is_renewed_as_soon_as_a_renewal_is_committed() -> None:
    """Beside a hundred others a commit takes a second: the next look in time may be one too late."""
    term = GrantTerm()
    term.renewed(0.0)
    term.asks()
    term.heard()
    assert not term.is_renewable(2.9), "a look would not renew it"
    term.renewed(0.9)
    assert not term.is_renewable(GRANT_S - SOON_S - 0.1), "there is time"
    assert term.is_renewable(GRANT_S - SOON_S)
    term.asks()
    assert not term.is_renewable(GRANT_S), "the look is under way"


def test_each_look_of_one_a_second_says_that_we_are_here_though_its_answer_came_a_bit_sooner() -> None:
    sharing = LaneSharing(1, 1.0, {}, StoreClock())
    seen = []
    for now in (0.004, 1.003, 2.002, 3.0):
        batch = WriteBatch(1)
        sharing.look(ClaimNews(), batch, Scheduler([], now=0.0), now)
        seen.append(batch.seen_utc is not None)
        for act in batch.after_commit:
            act()
        sharing.read(_Empty())
    assert seen == [True] * 4


def test_on_a_new_connection_all_claims_are_written_again() -> None:
    """The server may have crashed, and lost the last ones."""
    scheduler = Scheduler([lane_spec()], now=0.0)
    handle = LaneHandle("a", "alpha/m", StoredLane(7, "a", "alpha/m", None, None, None))
    sharing = LaneSharing(1, 1.0, {"a": handle}, StoreClock())
    written = []
    for look in (ClaimNews(), ClaimNews(), ClaimNews(), ClaimNews(anew=True)):
        batch = WriteBatch(1)
        sharing.look(look, batch, scheduler, 0.0)
        for act in batch.after_commit:
            act()
        sharing.read(_Empty())
        written.append(list(batch.claims))
    assert written[2:] == [[], [7]]


class _Empty(Store):
    """A store without any claim."""

    def __init__(self) -> None:
        self.claims = _NoClaims()

    def clock_ahead_s(self) -> float:
        return 0.0


class _NoClaims(Claims):
    def __init__(self) -> None:
        """Without a database."""

    def news(self, job: int, known: int, utc: float) -> ClaimNews:
        return ClaimNews()


# -- the claims of others ----------------------------------------------------------------------------------------------


def claimed(claimant: int, lane: int = 1, name: str = "alpha/m", *, of_program: bool = False) -> StoredClaim:
    claim = msgspec.json.encode(Claim(claimant, 1.0, hungry=True, use=0.0))
    return StoredClaim(claimant, lane, f"job-{claimant}", claim, name, of_program)


def news(present: set[int], *changed: StoredClaim, known: int = 0) -> ClaimNews:
    return ClaimNews(frozenset(present), changed, known)


def on_lane(others: OtherClaims, *, of_program: bool = False) -> list[int]:
    return [one.claim.job for one in others.on(1, "alpha/m", of_program=of_program)]


def test_a_claim_counts_while_its_claimant_is_here_and_is_kept_without_being_read_again() -> None:
    others = OtherClaims()
    assert len(others.take(news({2, 3}, claimed(3), claimed(2), claimed(4), known=7), 0.0)) == 3
    assert (on_lane(others), others.known, others.number) == ([2, 3], 7, 2)
    assert others.take(news({2, 4}, known=7), 1.0) == []
    assert on_lane(others) == [2, 4]
    others.take(news({2, 3}, known=7), 2.0)
    assert on_lane(others) == [2, 3]
    others.take(news({2}), 3.0)
    others.take(news({2}), 4.0 + FORGET_S)
    others.take(news({2, 3}), 5.0 + FORGET_S)
    assert on_lane(others) == [2], "one that was away for so long writes its claims again"


@pytest.mark.parametrize(
    "damaged",
    [b"{", b"null", b"\xff", b'{"job":2,"weight":1,"hungry":true,"use":0,"pace":-1}']
    + [
        msgspec.json.encode(Claim(2, weight, hungry=True, use=use, taken=taken))
        for weight, use, taken in (
            (0.0, 0.0, 0),
            (-1.0, 0.0, 0),
            (1e308, 0.0, 0),
            (1.0, 2.0, 0),
            (1.0, 0.0, -1),
        )
    ],
)
def test_a_claim_that_cannot_be_right_is_left_out(damaged: bytes) -> None:
    """Another version or another program wrote it: it must not end this run."""
    others, bad = OtherClaims(), StoredClaim(2, 1, "job-2", damaged, "alpha/m", False)
    assert others.take(news({2, 3}, claimed(2), claimed(3)), 0.0)
    assert others.take(news({2, 3}, bad), 1.0) == []
    assert on_lane(others) == [3]


def test_after_a_gap_those_that_were_here_count_for_a_moment() -> None:
    """The server was away for all of us, and we are the first one back."""
    others = OtherClaims()
    others.take(news({2, 3}, claimed(2), claimed(3)), 0.0)
    others.linger(60.0)
    others.take(news(set()), 60.0)
    assert on_lane(others) == [2, 3]
    others.take(news({3}), 60.0 + LINGER_S)
    assert on_lane(others) == [3]


def test_a_new_connection_reads_all_claims_again_and_only_new_ones_are_told() -> None:
    """Of a hold that was told before, its user may have lifted it."""
    others = OtherClaims()
    others.take(news({2, 3}, claimed(2), claimed(3), known=9), 0.0)
    anew = ClaimNews(frozenset({2, 4}), (claimed(2), claimed(4)), 5, anew=True)
    assert [one.claim.job for one in others.take(anew, 1.0)] == [4]
    assert (on_lane(others), others.known) == ([2, 3, 4], 5)
    others.take(news({2, 4}), 1.0 + LINGER_S)
    assert on_lane(others) == [2, 4]


def test_a_lane_of_a_program_is_the_same_as_each_of_its_name() -> None:
    others = OtherClaims()
    others.take(news({2, 3}, claimed(2, lane=8), claimed(3, lane=9, of_program=True)), 0.0)
    assert on_lane(others) == [3]
    assert on_lane(others, of_program=True) == [2, 3]


def test_what_a_hungry_job_uses_is_no_news() -> None:
    before = Claim(1, 1.0, hungry=True, use=0.2)
    assert not msgspec.structs.replace(before, use=0.5).drifted(before)
    idle = msgspec.structs.replace(before, hungry=False)
    assert msgspec.structs.replace(idle, use=0.5).drifted(idle)
    assert not msgspec.structs.replace(idle, use=0.201).drifted(idle)
    small = msgspec.structs.replace(idle, use=0.004)
    assert msgspec.structs.replace(small, use=0.001).drifted(small), "a hundred of them are a large part"


def test_an_answer_that_comes_after_the_grant_is_taken() -> None:
    run = Run(units(1), lane_spec(limits=TEN_A_SECOND))
    starts(run, 0.0, Granted(3.0))
    run.at(5.0, ok(0))
    assert run.scheduler.done, "what was in flight ends, and with it the run"
