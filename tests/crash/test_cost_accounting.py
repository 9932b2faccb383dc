"""One unreachable, one healthy and one faulty provider under a budget, with a plan before and a SIGKILL in the middle: every
number that Headway prints is compared with the providers' own counts.

The faulty one refuses, fails and cuts streams off. The providers count what they admitted, refused and answered, with its
tokens, for all processes together. A request that died with its process is counted by the provider and missing in the records; the
records say how many such requests there can be and what they may have cost.
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
#: USD per million tokens, the same for all three.
INPUT, OUTPUT = 3.0, 15.0
#: Everything costs about $0.07: one cap is enough, the other is reached in the middle of the second run.
GENEROUS, TIGHT = 5.0, 0.05

HEALTHY = "accounts: {default: {latency: {min: 20ms, max: 60ms}, output_tokens: {min: 10, max: 60}}}"
FAULTY = """
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
class ProviderCounts:
    """The counts of one provider."""

    received: int
    refused: int
    admitted: int
    ok: int
    tokens_in: int
    tokens_out: int

    @property
    def usd(self) -> float:
        """What it would charge: the input of all admitted requests, the output of complete answers."""
        return (INPUT * self.tokens_in + OUTPUT * self.tokens_out) / 1e6


def counts_of(fake: FakeProcess) -> ProviderCounts:
    total = wait_for("nothing is under way", lambda: _idle_total(fake))
    assert total is not None
    return ProviderCounts(
        total["received"],
        sum(total["refused"].values()),
        total["admitted"],
        total["ok"],
        total["tokens_in"],
        total["tokens_out"],
    )


def _idle_total(fake: FakeProcess) -> dict[str, Any] | None:
    total: dict[str, Any] = fake.stats()["total"]
    return None if total["in_flight"] else total


@dataclass
class ThreeProviders:
    """The three providers, and the directory of the job."""

    stage: Stage
    healthy: FakeProcess
    faulty: FakeProcess
    dead_address: str

    def write(self) -> None:
        shared = f'api_key_env = "ALPHA_KEY"\nprices = {{input = {INPUT}, output = {OUTPUT}}}'
        retry = 'retry = {base = "20ms", cap = "100ms"}'
        tables = [
            f'[providers.dead]\nkind = "openai"\nbase_url = "http://{self.dead_address}/v1"\n{shared}\n{retry}\n',
            f'[providers.healthy]\nkind = "openai"\nbase_url = "{self.healthy.url}/v1"\n{shared}\nlimits = {{max_concurrency = 3}}\n',
            f'[providers.faulty]\nkind = "anthropic"\nbase_url = "{self.faulty.url}"\nstream = true\n{shared}\n{retry}\n'
            "limits = {max_concurrency = 6}\n",
        ]
        (self.stage.root / "headway.toml").write_text("".join(tables))
        names = ("healthy", "faulty", "healthy", "faulty", "dead")
        self.stage.write_input(
            [self.row(index, names[index % len(names)]) for index in range(self.stage.units)]
        )

    def row(self, index: int, provider: str) -> dict[str, Any]:
        named = {"metadata": {"user_id": self.stage.name(index)}} if provider == "faulty" else {}
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
def three_providers(root: Path) -> Iterator[ThreeProviders]:
    (root / "healthy.yaml").write_text(HEALTHY)
    (root / "faulty.yaml").write_text(FAULTY)
    with (
        fake_process("--config", str(root / "healthy.yaml")) as healthy,
        fake_process("--config", str(root / "faulty.yaml")) as faulty,
        socket.socket() as held,
    ):
        held.bind(("127.0.0.1", 0))
        dead_address = f"127.0.0.1:{held.getsockname()[1]}"
        made = ThreeProviders(
            Stage(root, healthy, f"counts-{root.name}", UNITS), healthy, faulty, dead_address
        )
        made.write()
        yield made


def killed_in_the_middle(scene: ThreeProviders, cap: float) -> None:
    with scene.stage.process("run", "in.jsonl", "--max-cost", f"{cap}", "--progress", "json") as process:
        wait_for(
            "a third is answered",
            lambda: len(scene.stage.committed()) >= UNITS // 3 or process.poll() is not None,
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
    found: dict[str, list[float]] = {"healthy": [], "faulty": [], "dead": []}
    for provider, chars, most, size in rows:
        found[provider].append((INPUT * min(size, 4.0 * chars + 16.0) + OUTPUT * most) / 1e6)
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("cap", "code"), [(GENEROUS, 1), (TIGHT, 3)])
def test_all_figures_match_the_counts_of_the_providers(tmp_path: Path, cap: float, code: int) -> None:
    with three_providers(tmp_path) as scene:
        stage = scene.stage
        plan = scene.json("plan", "in.jsonl")
        assert plan["requests"] == UNITS
        assert counts_of(scene.healthy).received == counts_of(scene.faulty).received == 0, (
            "a plan sends nothing"
        )

        killed_in_the_middle(scene, cap)
        unknown = unknown_units(stage)
        [recorded_usd] = stage.query("SELECT cost_usd + unsure_usd FROM jobs")[0]
        resumed = stage.run("resume", "--max-attempts", "8", "--progress", "plain", faults={"unreached_s": 1})
        status = scene.json("status")
        healthy, faulty = counts_of(scene.healthy), counts_of(scene.faulty)

    assert resumed.returncode == code, resumed.stderr
    _began(resumed.stderr, [usd for lost in unknown.values() for usd in lost])
    lanes = {name.partition("/")[0]: lane for name, lane in status["lanes"].items()}
    _dead(resumed.stderr, lanes["dead"], scene.dead_address, unknown["dead"])
    for name, counts in (("healthy", healthy), ("faulty", faulty)):
        _requests(lanes[name], counts, len(unknown[name]))
        _money(lanes[name], counts)
    assert lanes["healthy"]["unsure"]["attempts"] == len(unknown["healthy"]), "it answers every request"
    assert lanes["healthy"]["refused"] == 0
    assert lanes["faulty"]["refused"] > 0
    _sums(status, lanes)
    _printed(resumed.stderr, status)
    # Answers that had come and were not on record at the kill may have cost more than they did. Then nothing more is sent.
    at_kill = recorded_usd + sum(usd for lost in unknown.values() for usd in lost)
    assert status["cost_usd"] + status["unsure"]["most_usd"] <= max(cap, at_kill) + 1e-9, (
        "the cap holds for known and possible costs together"
    )
    assert healthy.usd + faulty.usd <= cap
    if cap == GENEROUS:
        assert status["succeeded"] == UNITS - UNITS // 5, "all units except those of the unreachable provider"
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
    assert lane["unsure"]["attempts"] == len(unknown) <= 1, "after its failures only single probes were sent"
    assert lane["unsure"]["most_usd"] == pytest.approx(sum(unknown))
    summary = stderr[re.search(r"^(stopped|done)", stderr, re.MULTILINE).start() :].splitlines()  # type: ignore[union-attr]
    stopped = [line for line in summary if line.startswith("  dead/m stopped: ")]
    if stopped:
        assert summary[1] == stopped[0], "before the lines about money"
        assert f"http://{dead_address}/v1" in stopped[0]


def _requests(lane: dict[str, Any], counts: ProviderCounts, unknown: int) -> None:
    """Records and provider agree, except for requests that died with the process. The records name these units."""
    assert 0 <= counts.received - lane["attempts"] <= unknown
    assert 0 <= counts.refused - lane["refused"] <= unknown


def _money(lane: dict[str, Any], counts: ProviderCounts) -> None:
    """The reported cost is in the provider's counts. Anything beyond it is at most the reported unsure cost."""
    assert lane["output_tokens"] <= counts.tokens_out + 4 * lane["repeated"]["attempts"] * MAX_TOKENS
    assert lane["input_tokens"] <= counts.tokens_in
    priced = (INPUT * lane["input_tokens"] + OUTPUT * lane["output_tokens"]) / 1e6
    assert lane["cost_usd"] == pytest.approx(priced)
    repeated_usd = lane["repeated"]["cost_usd"]
    assert lane["cost_usd"] - repeated_usd <= counts.usd + 1e-9
    assert counts.usd <= lane["cost_usd"] + lane["unsure"]["most_usd"] + 1e-9
    if not lane["unsure"]["attempts"] and not lane["repeated"]["attempts"]:
        assert lane["output_tokens"] == counts.tokens_out
        assert lane["input_tokens"] == counts.tokens_in


def _sums(status: dict[str, Any], lanes: dict[str, Any]) -> None:
    for name in ("attempts", "refused", "input_tokens", "output_tokens", "cost_usd"):
        assert status[name] == pytest.approx(sum(lane[name] for lane in lanes.values()))
    for name in ("attempts", "most_usd"):
        assert status["unsure"][name] == pytest.approx(sum(lane["unsure"][name] for lane in lanes.values()))


def _printed(stderr: str, status: dict[str, Any]) -> None:
    """The summary's line has the same numbers as the data."""
    found = re.search(
        r"^  (?:all runs: )?([\d,]+) tokens in, ([\d,]+) out, ([\d,]+) rate-limited \(429\), \$([\d.]+)(.*)$",
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
