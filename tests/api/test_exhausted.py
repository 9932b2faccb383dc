"""A unit that was refused too often: what was seen, how often, for how long, and what to do."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import CallsFailed, RateLimited, Retry
from headway.cli import main
from headway.testing import scripted, virtual_time

RETRY = Retry(max_throttles=2, jitter=0)
SAID = "refused 3 times over 10 s, the last time with: slow down; reduce concurrency or try again later"


def refused(_: Any) -> RateLimited:
    return RateLimited(retry_after=5, reason="slow down")


def test_the_exception_is_the_raised_one_with_a_note() -> None:
    with virtual_time():
        (error,) = headway.map(scripted(refused), [1], retry=RETRY, on_error="return")
    assert isinstance(error, RateLimited)
    assert error.__notes__ == [f"headway: {SAID}"]


def test_a_failed_map_says_what_to_do_in_its_first_line() -> None:
    call = scripted(lambda item: refused(item) if item == 1 else "fine")
    with virtual_time(), pytest.raises(CallsFailed) as failed:
        headway.map(call, [1, 2], retry=RETRY)
    assert failed.value.message == (
        "1 of 2 calls failed (1 rate); the first: item 0 (1) — reduce concurrency or try again later"
    )
    assert "--" not in failed.value.message


def test_results_and_streams_have_the_same() -> None:
    with virtual_time():
        (done,) = headway.stream(scripted(refused), [1], retry=RETRY)
    assert (done.code, done.status, done.attempts) == ("rate", "failed", 3)
    assert done.error is not None
    assert done.error.__notes__ == [f"headway: {SAID}"]


def test_exhaustion_is_recorded_and_commands_print_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with virtual_time():
        headway.map(scripted(refused), [1], retry=RETRY, on_error="return", db="h.db", key=str, name="n")
    with closing(sqlite3.connect("h.db")) as connection:
        ((message,),) = connection.execute("SELECT message FROM units")
    assert re.sub(r"\d+ s", "10 s", message) == SAID
    assert main(["show", "n", "1", "--db", "h.db"]) == 0
    assert message in capsys.readouterr().out


def test_an_exception_that_several_items_raise_has_one_note() -> None:
    """A program may raise one object again and again."""
    same = RateLimited(retry_after=5, reason="slow down")
    with virtual_time():
        headway.map(scripted(lambda _: same), range(5), retry=RETRY, on_error="return")
    assert len(same.__notes__) == 1


def test_other_failures_have_no_note() -> None:
    (error,) = headway.map(int, ["x"], on_error="return")
    assert not hasattr(error, "__notes__")


def test_a_unit_that_a_deadline_ends_between_attempts_has_a_note() -> None:
    with virtual_time():
        (error,) = headway.map(scripted(refused), [1], retry=RETRY, max_duration=7, on_error="return")
    assert isinstance(error, RateLimited)
    assert error.__notes__ == [
        "headway: the run's deadline passed before it could be tried again (the last attempt: rate)"
    ]
