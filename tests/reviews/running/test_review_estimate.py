"""`headway review --estimate`: what it assumes before any review, and how well it knows afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.reviews.running.conftest import Tree, Trees, finding, report

from headway.forecast.review_forecast import EFFICIENCY
from headway.wiring.store_access import open_store_file

PRICES = "prices = {input = 1.0, output = 4.0}\n"
AXES = ("--axis", "correctness", "--axis", "security")
#: Answers of three lengths.
ANSWERS = tuple(
    {
        "contains": f"f1{tens} =",
        "turns": [report(*[finding(f"f1{tens} = 1", message="Wrong. " * 40)] * times)],
    }
    for tens, times in (("1", 1), ("2", 2), ("3", 3))
)


def estimated(tree: Tree, *args: str) -> dict[str, Any]:
    done = tree.review(*AXES, "--estimate", "--json", *args)
    assert done.code == 0, done.err
    forecast: dict[str, Any] = json.loads(done.out)
    return forecast


def recorded_s(tree: Tree) -> float:
    """How long all answers of the one job took together, those that were corrected as well."""
    with open_store_file(str(tree.root / ".headway/headway.db"), read_only=True) as store:
        [job] = store.jobs()
        turns = [turn for route in store.routes(job.id) for turn in store.turn_totals(route.id)]
    return sum(turn.took_s for turn in turns)


def write_files(tree: Tree, count: int, version: int) -> None:
    for number in range(count):
        name = f"f1{number % 4}"
        tree.write(f"src/new{number}.py", f"{name} = 1\n" + f"x = {version}  # {number}\n" * (5 + number % 7))


def test_an_estimate_sends_and_writes_nothing(tree: Tree) -> None:
    done = tree.review(*AXES, "--estimate")
    assert done.code == 0, done.err
    assert done.out.startswith("3 files, 2 axes")
    assert tree.sent() == 0
    assert not list((tree.root / ".headway").rglob("*.md"))


def test_before_any_review_three_quarters_of_the_files_count(tree: Tree) -> None:
    write_files(tree, 40, 1)
    four, lanes = estimated(tree), estimated(tree, "--concurrency", "auto")
    assert (four["files"], four["rows"]) == (43, 86)
    assert any("4 files at a time are taken for 3" in note for note in four["notes"])
    assert not any("files at a time" in note for note in lanes["notes"])
    assert any(note.endswith("The first review shows it") for note in lanes["notes"])
    # 256 tokens at 20 ms and half a second: 5.62 s for a file, 43 files, 3 at a time.
    assert four["time_s"]["estimate"] == pytest.approx(11 * 5.62 / EFFICIENCY, rel=0.05)
    assert lanes["time_s"]["estimate"] < four["time_s"]["estimate"]


#: Half of the answers are corrected in a second turn.
CORRECTED = {"contains": "f10 =", "turns": [report(finding("not there")), report(finding("f10 = 1"))]}


@pytest.mark.parametrize("answers", [ANSWERS, (*ANSWERS, CORRECTED)], ids=["as they are", "corrected"])
def test_after_a_review_time_and_cost_are_known(
    make_tree: Trees, answers: tuple[dict[str, Any], ...]
) -> None:
    """The time of the run itself is compared in `make bench SECTION=reviews`: a busy machine would fail it here."""
    tree = make_tree(PRICES, latency="200ms", answers=(*answers, {"turns": [report()]}))
    write_files(tree, 24, 1)
    assert tree.review(*AXES).code == 0
    units = 27 * 2
    mean_s = recorded_s(tree) / units
    write_files(tree, 40, 2)
    ahead = estimated(tree)
    assert ahead["requests"] == 80, "the files of the tree itself have not changed"
    assert not any("files at a time" in note for note in ahead["notes"])
    shortest_s = 80 * mean_s / (4 * 2)  # Four files at a time, on two axes.
    assert 0.9 * shortest_s < ahead["time_s"]["estimate"] < 2.0 * shortest_s
    done = tree.review(*AXES)
    assert done.code == 0, done.err
    cost = tree.progress()["totals"]["cost_usd"]
    assert ahead["cost_usd"]["estimate"] == pytest.approx(cost, rel=0.1)


def test_files_that_are_forced_are_estimated_alone(tree: Tree) -> None:
    tree.review(*AXES)
    assert estimated(tree)["requests"] == 0
    assert estimated(tree, "--file", "src/one.py")["requests"] == 2
