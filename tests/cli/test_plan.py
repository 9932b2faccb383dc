"""`headway plan`, `run --confirm`, and plans compared with results."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

PRICES = '[providers.alpha.models."gpt-x".prices]\ninput = 2.0\noutput = 10.0'


@pytest.fixture
def priced(stage: Stage) -> Stage:
    stage.configure("max_concurrency = 4", more=PRICES)
    stage.units = 40
    stage.write_input()
    return stage


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


def test_a_plan_needs_only_the_file(priced: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALPHA_KEY")
    before = {path.name for path in files(priced.root)}
    received = priced.fake.stats()["total"]["received"]
    done = headway("plan", "in.jsonl")
    assert priced.fake.stats()["total"]["received"] == received
    assert done.code == 0, done.err
    assert "in.jsonl: 40 rows" in done.out
    assert "alpha/gpt-x" in done.out
    assert "4 in flight" in done.out
    assert "Assumed: 4 characters per token" in done.out
    assert not priced.db.exists()
    made = {path.name for path in files(priced.root)} - before
    assert len(made) == 3, "the prediction, in a folder of a folder, to be compared with"
    assert made > {".headway", "plans"}


def test_a_plan_uses_what_an_earlier_run_learned(priced: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--limit", "20", "-q").code == 0
    report = json.loads(headway("plan", "in.jsonl", "--json").out)
    lane = report["lanes"]["alpha/gpt-x"]
    assert (report["file"], report["rows"], report["job"], report["requests"]) == ("in.jsonl", 40, None, 20)
    assert lane["learned_from"] == 20
    assert lane["binding"] == "4 in flight"
    assert 0.0 < lane["time_s"]["low"] <= lane["time_s"]["estimate"] <= lane["time_s"]["high"]
    assert report["cost_usd"]["estimate"] > 0.0
    [note] = report["notes"]
    assert note.startswith("20 answers are already there: job in-")


def test_a_plan_follows_the_order_of_the_run(stage: Stage, headway: Headway) -> None:
    stage.configure("rpm = 0\ntpm = 0\nmax_concurrency = 4")
    stage.write_input([stage.row(index, max_tokens=8000 if index == 59 else 40) for index in range(60)])

    def time_s(*flags: str) -> float:
        return float(json.loads(headway("plan", "in.jsonl", *flags, "--json").out)["time_s"]["estimate"])

    in_input_order = time_s("--order", "input")
    assert time_s("--order", "longest") < 0.9 * in_input_order
    assert time_s() == time_s("--order", "auto") < in_input_order


def test_a_cap_that_would_be_reached_is_noted(priced: Stage, headway: Headway) -> None:
    cost = json.loads(headway("plan", "in.jsonl", "--json").out)["cost_usd"]
    notes = json.loads(
        headway("plan", "in.jsonl", "--max-cost", f"{cost['estimate'] / 2:.8f}", "--json").out
    )["notes"]
    assert any(
        note.startswith("the estimated cost is above max_cost: the run would stop at $") for note in notes
    )
    notes = json.loads(headway("plan", "in.jsonl", "--max-cost", "1000", "--json").out)["notes"]
    assert not any("max_cost:" in note for note in notes)


def test_what_if_there_were_other_limits(priced: Stage, headway: Headway) -> None:
    slow = json.loads(headway("plan", "in.jsonl", "--rpm", "alpha=12", "--json").out)
    assert json.loads(headway("plan", "in.jsonl", "--rpm", "12", "--json").out) == slow, "the only provider"
    assert slow["lanes"]["alpha/gpt-x"]["binding"] == "12 requests per minute"
    assert slow["time_s"]["estimate"] > 180.0
    wide = json.loads(headway("plan", "in.jsonl", "--max-concurrency", "alpha=40", "--json").out)
    narrow = json.loads(headway("plan", "in.jsonl", "--max-concurrency", "alpha=1", "--json").out)
    assert narrow["time_s"]["estimate"] > 20 * wide["time_s"]["estimate"]
    assert not (priced.root / ".headway" / "plans").exists(), "what is only supposed is not what is expected"


def test_what_if_limits_replace_learned_ones(stage: Stage, headway: Headway) -> None:
    from headway.fake.process import fake_process

    with fake_process("--rpm", "3000", "--burst", "1s", "--latency", "20ms") as fake:
        stage.fake = fake
        stage.configure("")
        assert headway("run", "in.jsonl", "-q").code == 0
        stage.write_input([stage.row(index, user=None) for index in range(500)])
        learned = json.loads(headway("plan", "in.jsonl", "--json").out)["lanes"]["alpha/gpt-x"]
        supposed = headway("plan", "in.jsonl", "--json", "--rpm", "alpha=6000").out
    assert learned["binding"] == "3,000 requests per minute"
    assert learned["time_s"]["estimate"] == pytest.approx(9.0, rel=0.15)
    faster = json.loads(supposed)["lanes"]["alpha/gpt-x"]
    assert faster["time_s"]["estimate"] == pytest.approx(5.0, rel=0.25)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--rpm", "many"), "--rpm many: 'many' is not a limit"),
        (("--rpm", "beta=1"), "there is no provider 'beta'"),
        (("--tpm", "alpha=many"), "'many' is not a limit"),
        (("--input-tpm", "alpha=-1"), "'-1' is not a limit"),
        (("--output-tpm", "alpha=nan"), "'nan' is not a limit"),
        (("--max-concurrency", "alpha="), "'' is not a limit"),
        (("--delay", "soon"), "--delay"),
    ],
)
@pytest.mark.usefixtures("priced")
def test_a_mistake_is_one_line(headway: Headway, flags: tuple[str, ...], said: str) -> None:
    done = headway("plan", "in.jsonl", *flags)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) <= 2
    assert not done.out


def test_bad_rows_are_refused_as_a_run_refuses_them(priced: Stage, headway: Headway) -> None:
    with priced.input.open("a") as file:
        file.write("{not json\n")
    done = headway("plan", "in.jsonl")
    assert done.code == 2
    assert "in.jsonl:41" in done.err
    assert "1 bad row left out" in headway("plan", "in.jsonl", "--skip-bad-rows").out


# -- plan and result --------------------------------------------------------------------------------------------------


def test_a_run_is_compared_with_its_plan(priced: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--limit", "20", "-q").code == 0
    assert "predicted" not in headway("status").out, "no plan was made"
    assert headway("plan", "in.jsonl").code == 0
    done = headway("run", "in.jsonl", "--progress", "none")
    assert done.code == 0
    [line] = [line for line in done.err.splitlines() if "predicted" in line]
    assert "; took " in line
    assert "$" in line
    assert line in headway("status").out
    report = json.loads(headway("status", "--json").out)
    prediction = report["prediction"]
    assert prediction["over"]
    assert prediction["cost_usd"] == pytest.approx(report["cost_usd"])
    assert prediction["predicted"]["requests"] == 20, "the sample is not asked again"
    assert not list((priced.root / ".headway" / "plans").iterdir()), "it was taken up"


def test_a_plan_covers_only_what_is_left(priced: Stage, headway: Headway) -> None:
    priced.write_input([priced.row(index, max_tokens=4) for index in range(priced.units)])
    assert headway("run", "in.jsonl", "-q", "--max-cost", "0.0007").code == 3
    assert json.loads(headway("status", "--json").out)["prediction"] is None
    good = json.loads(headway("status", "--json").out)["succeeded"]
    assert 0 < good < 40
    report = json.loads(headway("plan", "in.jsonl", "--json").out)
    assert (report["rows"], report["succeeded"], report["requests"]) == (40, good, 40 - good)
    assert json.loads(headway("plan", "in.jsonl", "--fresh", "--json").out)["requests"] == 40
    headway("plan", "in.jsonl")
    assert headway("run", "in.jsonl", "-q", "--max-cost", "0").code == 0
    report = json.loads(headway("status", "--json").out)
    assert report["prediction"]["predicted"]["requests"] == 40 - good
    assert 0.0 < report["prediction"]["cost_usd"] < report["cost_usd"], "what was spent before is not in it"
    assert "40 of 40 answers already" in headway("plan", "in.jsonl").out


# -- --confirm ---------------------------------------------------------------------------------------------------------


def test_confirm_needs_a_terminal(priced: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--confirm")
    assert done.code == 2
    assert "--confirm needs a terminal — run without it" in done.err
    assert not priced.db.exists()


@contextmanager
def asked(stage: Stage, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`headway run in.jsonl --confirm` on its own terminal: the process, and our end of the terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "headway", "run", "in.jsonl", "--confirm", "--progress", "none", *args]
    process = subprocess.Popen(
        command, cwd=stage.root, env=stage.environ(), stdin=its, stdout=subprocess.PIPE, stderr=its
    )
    os.close(its)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        os.close(ours)


def shown_until(terminal: int, text: str) -> str:
    seen = ""
    give_up_at = time.monotonic() + 20.0
    while text not in seen:
        assert time.monotonic() < give_up_at, seen
        seen += os.read(terminal, 4096).decode()
    return seen


def test_answering_no_sends_and_creates_nothing(priced: Stage) -> None:
    before = files(priced.root)
    with asked(priced) as (process, terminal):
        assert "alpha/gpt-x" in shown_until(terminal, "send these requests?")
        os.write(terminal, b"n\n")
        shown_until(terminal, "nothing was sent")
        assert process.wait(10) == 1
    assert files(priced.root) == before


def test_answering_yes_sends_and_compares(priced: Stage) -> None:
    with asked(priced, "--json") as (process, terminal):
        shown_until(terminal, "send these requests?")
        os.write(terminal, b"y\n")
        assert process.wait(20) == 0
        assert process.stdout is not None
        report = json.loads(process.stdout.read())
    assert report["succeeded"] == 40
    assert report["prediction"]["predicted"]["requests"] == 40
    assert report["prediction"]["over"]


def test_a_total_that_lacks_a_price_says_so_and_how_to_set_it(priced: Stage, headway: Headway) -> None:
    rows = [priced.row(index, model="gpt-x" if index % 2 else "gpt-free") for index in range(10)]
    priced.write_input(rows)
    shown = headway("plan", "in.jsonl").out
    assert "at least $" in shown
    assert "the cost of alpha/gpt-free is not known" in shown
    assert '[providers.alpha.models."gpt-free".prices]' in shown
    report = json.loads(headway("plan", "in.jsonl", "--json").out)
    assert report["unpriced"] == ["alpha/gpt-free"]
    assert report["cost_usd"]["estimate"] > 0.0
    assert any("at least $" in note for note in report["notes"])


# -- by template -------------------------------------------------------------------------------------------------------

LENGTHS = """
accounts: {default: {latency: 10ms}}
lengths:
  - {contains: "Write an essay", output_tokens: {min: 500, max: 700}}
  - {contains: "yes or no", output_tokens: 1}
"""
ESSAY, YES = "Write an essay about {}", "Is {} a good thing? Answer yes or no."


def test_a_plan_uses_answers_to_the_same_prompt(priced: Stage, headway: Headway) -> None:
    """After a job of essays, a yes-or-no question has a wide range and a note; more essays have a narrow range."""
    from headway.fake.process import fake_process

    def ask(prompt: str, first: int) -> list[dict[str, object]]:
        return [{"id": f"u{n}", "prompt": prompt.format(f"number {n * 7}")} for n in range(first, first + 30)]

    def planned() -> dict[str, Any]:
        report = json.loads(headway("plan", "in.jsonl", "--json").out)
        return {**report["lanes"]["alpha/gpt-x"], "notes": report["notes"]}

    plan = priced.root / "plan.yaml"
    plan.write_text(LENGTHS)
    with fake_process("--config", str(plan)) as fake:
        priced.fake = fake
        priced.configure("max_concurrency = 8", more=PRICES)
        priced.write_input(ask(ESSAY, 0))
        assert headway("run", "in.jsonl", "-q").code == 0
        priced.write_input(ask(YES, 0))
        first = planned()
        assert headway("run", "in.jsonl", "--force", "-q").code == 0
        priced.write_input(ask(ESSAY, 100))
        essays = planned()
        priced.write_input(ask(YES, 100))
        yes = planned()
    assert first["learned_from"] == 0
    assert first["output_tokens"]["low"] == 30
    assert first["output_tokens"]["high"] > 30 * 700
    [note] = first["notes"]
    assert note.startswith("alpha/gpt-x: no job like this yet")
    assert "'headway run FILE --limit 20'" in note
    assert essays["output_tokens"]["estimate"] == pytest.approx(30 * 600, rel=0.1)
    assert yes["output_tokens"]["estimate"] == pytest.approx(30, rel=0.1)
    assert [essays["notes"], yes["notes"]] == [[], []]
    assert [essays["learned_from"], yes["learned_from"]] == [30, 30]


def test_a_table_with_the_same_prompt_uses_answers_of_the_earlier_job(
    priced: Stage, headway: Headway
) -> None:
    def table(first: int) -> str:
        return "word\n" + "".join(f"word{n}\n" for n in range(first, first + 20))

    run = ("run", "in.csv", "--prompt", "{{word}}", "--out", "out.jsonl", "--force", "-q")
    (priced.root / "in.csv").write_text(table(0))
    assert headway(*run).code == 0
    (priced.root / "in.csv").write_text(table(50))
    plan = ("plan", "in.csv", "--json", "--prompt")
    assert json.loads(headway(*plan, "{{word}}").out)["lanes"]["alpha/gpt-x"]["learned_from"] == 20
    assert json.loads(headway(*plan, "Explain {{word}}").out)["lanes"]["alpha/gpt-x"]["learned_from"] == 0
