"""The table of states: every move that is not in it is a bug, and a later run makes the rest runnable again."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from headway.core.unit_states import ENDED, GOOD, MOVES, Move, Status, after

ROOT = Path(__file__).parents[2]


def reachable(start: Status, *, without: frozenset[Move] = frozenset()) -> set[Status]:
    seen, agenda = {start}, [start]
    while agenda:
        status = agenda.pop()
        for (origin, move), target in MOVES.items():
            if origin is status and move not in without and target not in seen:
                seen.add(target)
                agenda.append(target)
    return seen


@pytest.mark.parametrize(("status", "move"), sorted(MOVES))
def test_every_move_of_the_table_leads_where_it_says(status: Status, move: Move) -> None:
    assert after(status, move) is MOVES[status, move]


@pytest.mark.parametrize(("status", "move"), sorted(set(product(Status, Move)) - set(MOVES)))
def test_every_other_move_is_an_error_that_names_it(status: Status, move: Move) -> None:
    with pytest.raises(AssertionError, match=f"a {status} unit cannot {move}"):
        after(status, move)


@pytest.mark.parametrize("status", list(Status))
def test_on_resume_succeeded_units_stay_and_the_others_are_pending(status: Status) -> None:
    assert after(status, Move.RESUME) is (status if status in GOOD else Status.PENDING)


def test_good_ends_are_success_with_a_call_or_without() -> None:
    assert frozenset({Status.SUCCEEDED, Status.CACHED}) == GOOD
    assert GOOD < ENDED


@pytest.mark.parametrize("status", list(Status))
def test_an_ended_unit_moves_no_more_until_it_is_resumed(status: Status) -> None:
    moves = {move for origin, move in MOVES if origin is status} - {Move.RESUME}
    assert (not moves) is (status in ENDED)


def test_every_state_can_be_reached_in_one_run() -> None:
    assert reachable(Status.PENDING, without=frozenset({Move.RESUME})) == set(Status)


def test_an_attempt_goes_through_assigned_and_running() -> None:
    assert after(after(Status.PENDING, Move.ASSIGN), Move.RUN) is Status.RUNNING
    assert {origin for origin, move in MOVES if move is Move.SUCCEED} == {Status.RUNNING}


def test_a_retry_and_a_lane_that_stopped_lead_back_to_pending() -> None:
    assert after(Status.RUNNING, Move.RETRY) is Status.PENDING
    assert after(Status.RUNNING, Move.RELEASE) is Status.PENDING
    assert after(Status.ASSIGNED, Move.RELEASE) is Status.PENDING


def test_only_a_unit_that_never_started_is_skipped_or_found_in_the_cache() -> None:
    for move in (Move.SKIP, Move.HIT_CACHE):
        assert {origin for origin, each in MOVES if each is move} == {Status.PENDING}


def test_the_page_on_states_is_drawn_from_the_present_table() -> None:
    drawing = subprocess.run(
        [sys.executable, "tools/draw_states.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert drawing.returncode == 0, drawing.stderr
