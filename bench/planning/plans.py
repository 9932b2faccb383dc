"""Plan against reality: `headway plan` after one calibrating run, then `headway run`, against `headway fake`.

Each scenario is a fake with its own accounts and a file of rows. `headway run --limit N` calibrates, `headway plan
--json` predicts, `headway run --json` reports what it really took. Lengths and delays of answers are random; the
plan knows them only from the sample.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import msgspec

from bench.processes import HEADWAY, run
from headway.core.model import LaneLimits, LaneSpec
from headway.fake.process import fake_process
from headway.forecast.answer_model import model_of
from headway.forecast.figures import ForecastRoute, LaneKnowledge, RunOptions
from headway.forecast.lane_forecasts import forecast
from headway.forecast.survey import KEPT, Load, Sampled
from headway.stores.records import UsageSample

TIME_BAR: Final = 0.10
COST_BAR: Final = 0.05
#: The additional error from planning with a part of a long file.
SAMPLING_BAR: Final = 0.02
MANY, TRIED = 100_000, KEPT
#: How long the work of each account takes, and how many rows the calibrating run has.
LENGTH_S: Final = 30.0
SAMPLE: Final = 200
PATIENCE_S: Final = 120.0

_FILLER: Final = (
    "words that a model has to read before it may say anything about them, and more of these; " * 30
)


class Account(msgspec.Struct, frozen=True):
    """An account of the fake: its limits by the fake's names, its answers, and the limits configured in headway.toml."""

    name: str
    kind: Literal["openai", "anthropic"]
    rate: float
    limits: dict[str, float]
    configured: dict[str, float] = {}
    headers: str = "auto"
    burst_s: float = 5.0
    latency: tuple[float, float] = (0.1, 0.5)
    per_token_s: float = 0.002
    output: tuple[int, int] = (20, 120)
    chars: tuple[int, int] = (80, 1600)

    @property
    def fake_settings(self) -> dict[str, Any]:
        """Its settings in the fake's file; its name is its key."""
        return {
            **self.limits,
            "burst": self.burst_s,
            "headers": self.headers,
            "latency": {"min": self.latency[0], "max": self.latency[1]},
            "per_token": self.per_token_s,
            "output_tokens": {"min": self.output[0], "max": self.output[1]},
        }


class Scenario(msgspec.Struct, frozen=True):
    """A file that is planned and then run."""

    name: str
    accounts: tuple[Account, ...]


MAX_TOKENS: Final = 150
#: Mean tokens of a row by the accounts' figures: (80 + 1600) ÷ 2 characters, and what chats add.
_IN, _OUT = 210.0, 70.0

SCENARIOS: Final = (
    Scenario("requests per minute bind", (Account("A", "openai", 30.0, {"rpm": 1800}),)),
    Scenario(
        "tokens per minute bind",
        (Account("A", "openai", 30.0, {"rpm": 3600, "tpm": round(1800 * (_IN + MAX_TOKENS))}),),
    ),
    Scenario(
        "output tokens per minute bind",
        (
            Account(
                "A", "anthropic", 30.0, {"rpm": 3600, "itpm": round(2400 * _IN), "otpm": round(1800 * _OUT)}
            ),
        ),
    ),
    Scenario(
        "requests in flight bind",
        (
            Account(
                "A",
                "openai",
                30.0,
                {},
                configured={"max_concurrency": 14},
                headers="none",
                latency=(0.2, 0.4),
                per_token_s=0.0025,
            ),
        ),
    ),
    Scenario(
        "two lanes, two limits",
        (
            Account("A", "openai", 20.0, {"tpm": round(1200 * (_IN + MAX_TOKENS))}, headers="none",
                    configured={"tpm": round(1200 * (_IN + MAX_TOKENS))}),
            Account("B", "anthropic", 12.0, {"rpm": 2000, "itpm": round(720 * _IN), "otpm": 200_000}),
        ),
    ),
)  # fmt: skip


def _rows(accounts: Sequence[Account], length_s: float) -> list[dict[str, Any]]:
    """The rows of all accounts, mixed evenly."""
    rows: list[tuple[float, dict[str, Any]]] = []
    for account in accounts:
        rng = random.Random(account.name)
        count = round(account.rate * (length_s + account.burst_s))
        for number in range(count):
            text = f"{number}: " + _FILLER[: rng.randrange(*account.chars)]
            row = {"id": f"{account.name}-{number}", "model": f"{account.name}/model", "prompt": text, "max_tokens": MAX_TOKENS}  # fmt: skip
            rows.append(((number + 0.5) / count, row))
    rows.sort(key=lambda one: one[0])
    return [row for _, row in rows]


def _settings(accounts: Sequence[Account], url: str) -> str:
    lines: list[str] = []
    for one in accounts:
        lines += [f"[providers.{one.name}]", f'kind = "{one.kind}"', f'base_url = "{url}"']
        lines += [f'api_key_env = "KEY_{one.name}"', f"[providers.{one.name}.models.model.prices]"]
        lines += ["input = 2.5", "output = 10.0"]
        if one.configured:
            lines.append(f"[providers.{one.name}.limits]")
            lines += [f"{name} = {limit:.0f}" for name, limit in one.configured.items()]
    return "\n".join([*lines, ""])


class Result(msgspec.Struct, frozen=True):
    """A plan and the actual figures."""

    name: str
    binding: str
    requests: int
    time_s: tuple[float, float, float]
    took_s: float
    cost_usd: float
    paid_usd: float

    @property
    def time_off(self) -> float:
        """The error of the time, as a share of the actual time."""
        return self.time_s[0] / self.took_s - 1.0

    @property
    def cost_off(self) -> float:
        """The error of the cost."""
        return self.cost_usd / self.paid_usd - 1.0


def measure(scenario: Scenario, length_s: float = LENGTH_S, sample: int = SAMPLE) -> Result:
    """Calibrate, plan, run."""
    fake_config = {"strict": True, "accounts": {one.name: one.fake_settings for one in scenario.accounts}}
    keys = {f"KEY_{one.name}": one.name for one in scenario.accounts}
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fake.json").write_bytes(msgspec.json.encode(fake_config))  # JSON is YAML.
        (folder / "in.jsonl").write_bytes(
            msgspec.json.Encoder().encode_lines(_rows(scenario.accounts, length_s))
        )
        with fake_process("--config", str(folder / "fake.json")) as fake:
            (folder / "headway.toml").write_text(_settings(scenario.accounts, fake.url), encoding="utf-8")

            def json_of(*command: str) -> dict[str, Any]:
                ended = run(
                    [*HEADWAY, *command, "in.jsonl", "--json", "-q"], folder, length_s + PATIENCE_S, keys
                )
                if ended.code:
                    raise RuntimeError(f"headway {command[0]}: exit code {ended.code}: {ended.errors.decode()[-2000:]}")  # fmt: skip
                return dict(msgspec.json.decode(ended.out))

            json_of("run", "--limit", str(sample))
            planned = json_of("plan")
            ran = json_of("run")
    compared = ran["prediction"]
    return Result(
        scenario.name,
        ", ".join(lane["binding"] for lane in planned["lanes"].values()),
        planned["requests"],
        tuple(compared["predicted"]["time_s"]),
        compared["took_s"],
        compared["predicted"]["cost_usd"][0],
        ran["cost_usd"],
    )


def misses(result: Result) -> list[str]:
    """The missed bars."""
    missed = []
    if abs(result.time_off) > TIME_BAR:
        missed.append(f"plan, {result.name}: time off by {result.time_off:+.1%}, the bar is {TIME_BAR:.0%}")
    if abs(result.cost_off) > COST_BAR:
        missed.append(f"plan, {result.name}: cost off by {result.cost_off:+.1%}, the bar is {COST_BAR:.0%}")
    return missed


# -- a sample instead of the whole ------------------------------------------------------------------------------------


class Sampling(msgspec.Struct, frozen=True):
    """A forecast from a part of the rows and one from all rows, and the CPU of each."""

    units: int
    tried: int
    sampled_s: float
    whole_s: float
    sampled_cpu_s: float
    whole_cpu_s: float

    @property
    def off(self) -> float:
        """The error of the sample."""
        return self.sampled_s / self.whole_s - 1.0


def sampling(units: int, tried: int, depth_s: float | None = None) -> Sampling:
    """The same forecast twice, in virtual time: 50 requests per second, bound by tokens."""
    rng = random.Random(units)
    rows = [Sampled(index, rng.randrange(80, 1600), MAX_TOKENS, 0, False) for index in range(units)]
    lessons = [
        UsageSample(row.chars, MAX_TOKENS, row.chars // 4, length, 0, 0.3 + 0.002 * length)
        for row in rows[:500]
        for length in [rng.randrange(20, 120)]
    ]
    load = Load("A", "model", units, sum(row.chars for row in rows), MAX_TOKENS * units, 0, rows)
    course = ForecastRoute("lane", None, model_of(lessons))
    limits = LaneLimits(rpm=6000, tpm=3000 * (_IN + MAX_TOKENS), burst_s=depth_s)
    known = LaneKnowledge(LaneSpec("lane", limits), "A/model", "openai")

    def took(most: int) -> tuple[float, float]:
        began = time.process_time()
        result = forecast([load], [course], {"lane": known}, RunOptions(), utc=0.0, most=most)
        return result.time_s.estimate, time.process_time() - began

    sampled_s, sampled_cpu_s = took(tried)
    whole_s, whole_cpu_s = took(units)
    return Sampling(units, tried, sampled_s, whole_s, sampled_cpu_s, whole_cpu_s)
