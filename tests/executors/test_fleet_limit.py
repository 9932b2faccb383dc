"""Twenty agents and a subscription's window that is used up under all of them: all finish, and nothing is paid for twice."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.crash.stage import Stage, wait_for

from headway.fake.process import fake_process

AGENTS = 20
AGENT = Path(__file__).with_name("scripted_agent.py")
#: The window is used up so long after the provider's start, for so long.
STRIKES_S, RESETS_S = 3.0, 6.0
_HOW = ("--shared-directory", "--progress", "none", "--log-file")
RUN = ("run", "in.jsonl", *_HOW)
RUN_OTHERS = ("run", "others.jsonl", *_HOW)


def configure(folder: Path, url: str, **settings: Any) -> None:
    command = json.dumps([sys.executable, "-S", str(AGENT)])
    more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (folder / "headway.toml").write_text(
        f'[providers.agent]\nkind = "claude"\ncommand = {command}\nworkers = {AGENTS}\npreflight = "none"\n{more}'
        '[providers.agent.retry]\nhold_margin = "500ms"\n'
    )


def stage_of(tmp_path: Path, fake: Any, units: int = AGENTS) -> Stage:
    stage = Stage(tmp_path, fake, "fleet", units, env={"AGENT_URL": fake.url})
    stage.write_input([{"id": f"u{n}", "prompt": f"task {n}"} for n in range(units)])
    return stage


def starts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "starts.jsonl").read_text().splitlines()]


def test_all_twenty_finish_and_nothing_is_spawned_before_the_reset(tmp_path: Path) -> None:
    flags = ("--latency", "1600ms", "--fault", f"subscription+{RESETS_S:g}s@{STRIKES_S:g}s")
    with fake_process(*flags) as fake:
        configure(tmp_path, fake.url)
        done = stage_of(tmp_path, fake).run(*RUN, "run.log")
        stats = fake.stats()["total"]
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "in.results.jsonl").read_text().splitlines()]
    assert [row["headway"]["text"] for row in rows] == [f"did task {n}" for n in range(AGENTS)]
    # Nothing that was answered is asked again: three turns for each agent, and no more.
    assert (stats["ok"], stats["repeats"], stats["lost"]) == (3 * AGENTS, 0, 0)
    refused = stats["refused"]["fault subscription"]
    assert 0 < refused <= AGENTS, "one refusal for each agent that was running, at the most"
    # No agent starts between the first refusal and the reset.
    log = (tmp_path / "run.log").read_text().splitlines()
    held = [line for line in log if "held until" in line]
    released = [line for line in log if "the hold is over" in line]
    assert len(held) == len(released) == 1, "\n".join(log)
    runs = starts(tmp_path)
    again = [run for run in runs if run["resumes"]]
    assert len(runs) == AGENTS + refused == AGENTS + len(again), "each refused session goes on, and is one"
    first_again = min(run["at"] for run in again)
    last_before = max(run["at"] for run in runs if run["at"] < first_again)
    assert first_again - last_before >= RESETS_S - STRIKES_S
    # The story, in ten lines.
    story = [line for line in log if "%)" not in line]  # Without the progress of every ten seconds.
    assert len(story) <= 10, "\n".join(story)
    assert "You've hit your 5-hour limit" in held[0]


def test_a_second_process_with_the_same_login_starts_nothing_while_the_account_is_held(
    tmp_path: Path,
) -> None:
    """Two jobs at once: the one that is told first tells the other."""
    with fake_process("--latency", "300ms", "--fault", "subscription+4s@1500ms") as fake:
        configure(tmp_path, fake.url, model="opus")
        text = (tmp_path / "headway.toml").read_text()
        (tmp_path / "headway.toml").write_text(
            text + text.replace("providers.agent", "providers.other").replace("opus", "sonnet")
        )
        stage = stage_of(tmp_path, fake, 8)
        rows = [{"id": f"o{n}", "prompt": f"other {n}", "model": "other/sonnet"} for n in range(8)]
        (tmp_path / "others.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        text = (tmp_path / "headway.toml").read_text().replace("workers = 20", "workers = 2")
        (tmp_path / "headway.toml").write_text(text + '[run]\nprovider = "agent"\n')
        with stage.process(*RUN, "a.log") as one, stage.process(*RUN_OTHERS, "b.log") as two:
            wait_for("the first is held", lambda: "held until" in read(tmp_path, "a.log"))
            wait_for("the other is held", lambda: "held until" in read(tmp_path, "b.log"))
            one.wait(60.0)
            two.wait(60.0)
    assert (one.returncode, two.returncode) == (0, 0)
    runs = sorted(run["at"] for run in starts(tmp_path))
    assert max(later - sooner for sooner, later in pairwise(runs)) >= 3.0, "nothing starts while it is held"
    assert fake_refusals(tmp_path) <= 4, "only what was running was refused"


def fake_refusals(folder: Path) -> int:
    return sum(run["resumes"] for run in starts(folder))


def read(folder: Path, name: str) -> str:
    path = folder / name
    return path.read_text() if path.exists() else ""


def test_no_more_agents_run_at_once_than_fit_into_memory(tmp_path: Path) -> None:
    with fake_process("--latency", "100ms") as fake:
        configure(tmp_path, fake.url, memory_budget="900MB")
        done = stage_of(tmp_path, fake, 6).run(*RUN, "run.log")
        stage = stage_of(tmp_path, fake, 6)
        lanes = stage.run("lanes", "--json")
    assert done.returncode == 0, done.stderr
    times = sorted(stage.query("SELECT started_utc, finished_utc FROM attempts"))
    assert times[2][0] >= min(end for _, end in times), "400 MB each until one was measured as a whole"
    log = (tmp_path / "run.log").read_text()
    assert log.count("2 processes at once fit into the memory_budget of 900 MB: each takes about 400 MB") == 1
    assert json.loads(lanes.stdout)[0]["lane"] == "agent/default"
