"""One dead, one rich and one rude provider under a budget, with a plan before and a SIGKILL in the middle: every number that
Headway prints is compared with the providers' own books.

The rude one refuses, fails and cuts streams off. The books tell what was admitted, refused and answered, with its tokens,
whichever process asked; a request that died with its process is in the books and not in the records, so the records say
how many of those there can be and what they may have cost.
"""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage, wait_for

from headway.fake.process import FakeProcess, fake_process

UNITS = 120
MAX_TOKENS = 64
#: USD a million tokens, of all three.
INPUT, OUTPUT = 3.0, 15.0
#: In all about $0.07: one cap is enough, the other is used up in the middle of the second run.
GENEROUS, TIGHT = 5.0, 0.05

RICH = "accounts: {default: {latency: {min: 20ms, max: 60ms}, output_tokens: {min: 10, max: 60}}}"
RUDE = """
accounts:
  default:
    rpm: 1500
    burst: 200ms
    headers: none
    latency: {min: 20ms, max: 60ms}
    output_tokens: {min: 10, max: 60}
    faults: [{kind: 500, every: 9}, {kind: stream-error, every: 7}, {kind: reset-body, every: 13}, {kind: truncated, every: 17}]
"""


@dataclass
class Books:
    """What one provider wrote down."""

    received: int
    refused: int
    admitted: int
    ok: int
    tokens_in: int
    tokens_out: int

    @property
    def usd(self) -> float:
        """What it would charge: the input of everything that it let in, the output of whole answers."""
        return (INPUT * self.tokens_in + OUTPUT * self.tokens_out) / 1e6


def books_of(fake: FakeProcess) -> Books:
    total = wait_for("nothing is under way", lambda: _still(fake))
    assert total is not None
    return Books(
        total["received"],
        sum(total["refused"].values()),
        total["admitted"],
        total["ok"],
        total["tokens_in"],
        total["tokens_out"],
    )


def _still(fake: FakeProcess) -> dict[str, Any] | None:
    total: dict[str, Any] = fake.stats()["total"]
    return None if total["in_flight"] else total


@dataclass
class Town:
    """The three providers, and the directory that asks them."""

    stage: Stage
    rich: FakeProcess
    rude: FakeProcess
    dead_address: str

    def write(self) -> None:
        shared = f'api_key_env = "ALPHA_KEY"\nprices = {{input = {INPUT}, output = {OUTPUT}}}'
        retry = 'retry = {base = "20ms", cap = "100ms"}'
        tables = [
            f'[providers.dead]\nkind = "openai"\nbase_url = "http://{self.dead_address}/v1"\n{shared}\n{retry}\n',
            f'[providers.rich]\nkind = "openai"\nbase_url = "{self.rich.url}/v1"\n{shared}\nlimits = {{max_concurrency = 3}}\n',
            f'[providers.rude]\nkind = "anthropic"\nbase_url = "{self.rude.url}"\nstream = true\n{shared}\n{retry}\n'
            "limits = {max_concurrency = 6}\n",
        ]
        (self.stage.root / "headway.toml").write_text("".join(tables))
        names = ("rich", "rude", "rich", "rude", "dead")
        self.stage.write_input(
            [self.row(index, names[index % len(names)]) for index in range(self.stage.units)]
        )

    def row(self, index: int, provider: str) -> dict[str, Any]:
        named = {"metadata": {"user_id": self.stage.name(index)}} if provider == "rude" else {}
        return {
            "id": f"u{index}",
            "prompt": f"Tell me about {index}",
            "model": f"{provider}/m",
            "max_tokens": MAX_TOKENS,
            **named,
        }

    def json(self, *args: str) -> Any:
        done = self.stage.run(*args, "--json")
        assert done.returncode in (0, 1, 3), done.stderr
        return json.loads(done.stdout)


@contextmanager
def town(root: Path) -> Iterator[Town]:
    (root / "rich.yaml").write_text(RICH)
    (root / "rude.yaml").write_text(RUDE)
    with (
        fake_process("--config", str(root / "rich.yaml")) as rich,
        fake_process("--config", str(root / "rude.yaml")) as rude,
        socket.socket() as held,
    ):
        held.bind(("127.0.0.1", 0))
        dead_address = f"127.0.0.1:{held.getsockname()[1]}"
        made = Town(Stage(root, rich, f"books-{root.name}", UNITS), rich, rude, dead_address)
        made.write()
        yield made


def killed_in_the_middle(town: Town, cap: float) -> None:
    with town.stage.process("run", "in.jsonl", "--max-cost", f"{cap}", "--progress", "json") as process:
        wait_for(
            "a third is answered",
            lambda: len(town.stage.committed()) >= UNITS // 3 or process.poll() is not None,
        )
        process.kill()
        _, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err


def unknown_units(stage: Stage) -> dict[str, list[float]]:
    """The units that died with the process, by provider: the most that each may cost again."""
    rows = stage.query(
        "SELECT provider, chars, max_tokens, length(body) FROM units JOIN requests USING (uid) JOIN routes ON routes.id = units.route "
        "WHERE status IN ('assigned', 'running')"
    )
    found: dict[str, list[float]] = {"rich": [], "rude": [], "dead": []}
    for provider, chars, most, size in rows:
        found[provider].append((INPUT * min(size, 4.0 * chars + 16.0) + OUTPUT * most) / 1e6)
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("cap", "code"), [(GENEROUS, 1), (TIGHT, 3)])
def test_all_figures_match_the_counts_of_the_providers(tmp_path: Path, cap: float, code: int) -> None:
    with town(tmp_path) as at:
        stage = at.stage
        plan = at.json("plan", "in.jsonl")
        assert plan["requests"] == UNITS
        assert books_of(at.rich).received == books_of(at.rude).received == 0, "a plan sends nothing"

        killed_in_the_middle(at, cap)
        unknown = unknown_units(stage)
        resumed = stage.run("resume", "--progress", "plain", faults={"unreached_s": 1})
        status = at.json("status")
        rich, rude = books_of(at.rich), books_of(at.rude)

    assert resumed.returncode == code, resumed.stderr
    _began(resumed.stderr, [usd for lost in unknown.values() for usd in lost])
    lanes = {name.partition("/")[0]: lane for name, lane in status["lanes"].items()}
    _dead(resumed.stderr, lanes["dead"], at.dead_address, unknown["dead"])
    for name, books in (("rich", rich), ("rude", rude)):
        _requests(lanes[name], books, len(unknown[name]))
        _money(lanes[name], books)
    assert lanes["rich"]["unsure"]["attempts"] == len(unknown["rich"]), "it answers everything"
    assert lanes["rich"]["refused"] == 0
    assert lanes["rude"]["refused"] > 0
    _sums(status, lanes)
    _printed(resumed.stderr, status)
    assert status["cost_usd"] + status["unsure"]["most_usd"] <= cap + 1e-9, (
        "the cap holds for what is known and what may be"
    )
    assert rich.usd + rude.usd <= cap
    if cap == GENEROUS:
        assert status["succeeded"] == UNITS - UNITS // 5, "all but those of the dead one"
    prediction = status["prediction"]
    assert prediction["predicted"]["requests"] == UNITS
    assert prediction["cost_usd"] == pytest.approx(status["cost_usd"])
    assert prediction["predicted"]["cost_usd"] == pytest.approx(
        [plan["cost_usd"][name] for name in ("estimate", "low", "high")]
    )


def _began(stderr: str, unknown: list[float]) -> None:
    """The first lines name the units that may have been sent, and the most that they may cost again."""
    if not unknown:
        return
    [line] = [line for line in stderr.splitlines() if "may have been sent" in line]
    assert f"{len(unknown)} unit" in line
    shown = float(re.search(r"at most \$([0-9.]+) more", line)[1])  # type: ignore[index]
    assert shown == pytest.approx(sum(unknown), abs=5e-5)


def _dead(stderr: str, lane: dict[str, Any], dead_address: str, unknown: list[float]) -> None:
    """A refused connection costs nothing. Only requests that died with the process may or may not have been sent."""
    assert lane["attempts"] > 0
    assert (lane["cost_usd"], lane["input_tokens"]) == (0.0, 0)
    assert lane["unsure"]["attempts"] == len(unknown) <= 1, (
        "while it was known to be dead only probes were recorded"
    )
    assert lane["unsure"]["most_usd"] == pytest.approx(sum(unknown))
    summary = stderr[re.search(r"^(stopped|done)", stderr, re.MULTILINE).start() :].splitlines()  # type: ignore[union-attr]
    stopped = [line for line in summary if line.startswith("  dead/m stopped: ")]
    if stopped:
        assert summary[1] == stopped[0], "before any word about money"
        assert f"http://{dead_address}/v1" in stopped[0]


def _requests(lane: dict[str, Any], books: Books, unknown: int) -> None:
    """Every request is in both, but for those that died with the process: these the records name beforehand."""
    assert 0 <= books.received - lane["attempts"] <= unknown
    assert 0 <= books.refused - lane["refused"] <= unknown


def _money(lane: dict[str, Any], books: Books) -> None:
    """The reported cost is in the provider's counts. Anything beyond it is at most the reported unsure cost."""
    assert lane["output_tokens"] <= books.tokens_out + 4 * lane["repeated"]["attempts"] * MAX_TOKENS
    assert lane["input_tokens"] <= books.tokens_in
    priced = (INPUT * lane["input_tokens"] + OUTPUT * lane["output_tokens"]) / 1e6
    assert lane["cost_usd"] == pytest.approx(priced)
    repeated_usd = lane["repeated"]["cost_usd"]
    assert lane["cost_usd"] - repeated_usd <= books.usd + 1e-9
    assert books.usd <= lane["cost_usd"] + lane["unsure"]["most_usd"] + 1e-9
    if not lane["unsure"]["attempts"] and not lane["repeated"]["attempts"]:
        assert lane["output_tokens"] == books.tokens_out
        assert lane["input_tokens"] == books.tokens_in


def _sums(status: dict[str, Any], lanes: dict[str, Any]) -> None:
    for name in ("attempts", "refused", "input_tokens", "output_tokens", "cost_usd"):
        assert status[name] == pytest.approx(sum(lane[name] for lane in lanes.values()))
    for name in ("attempts", "most_usd"):
        assert status["unsure"][name] == pytest.approx(sum(lane["unsure"][name] for lane in lanes.values()))


def _printed(stderr: str, status: dict[str, Any]) -> None:
    """The summary's line has the same numbers as the data."""
    found = re.search(
        r"^  ([\d,]+) tokens in, ([\d,]+) out, ([\d,]+) rate-limited \(429\), \$([\d.]+)(.*)$",
        stderr,
        re.MULTILINE,
    )
    assert found is not None
    shown = [int(found[n].replace(",", "")) for n in (1, 2, 3)]
    assert shown == [status["input_tokens"], status["output_tokens"], status["refused"]]
    assert float(found[4]) == pytest.approx(status["cost_usd"], abs=5e-5)
    unsure = re.search(r"plus at most \$([\d.]+) for (\d+) attempt", found[5])
    if status["unsure"]["attempts"]:
        assert unsure is not None
        assert float(unsure[1]) == pytest.approx(status["unsure"]["most_usd"], abs=5e-5)
        assert int(unsure[2]) == status["unsure"]["attempts"]
    else:
        assert unsure is None
