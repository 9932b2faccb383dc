"""2,000 cells of an eval over three providers with very different limits: each lane runs at its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench.evals.eval_files import headway_eval, write_eval
from bench.evals.promptfoo import targets
from headway.fake.process import fake_process
from headway.sim.bound import meter_bound_s

TESTS: Final = 667
#: Of the binding limit, for each lane.
BAR: Final = 0.97
LONGEST_S: Final = 150.0
BURST_S: Final = 2.0
MAX_TOKENS: Final = 64
CHARS_A_TOKEN: Final = 4
LATENCY: Final = {"min": 0.1, "max": 0.5}


class LaneLimits(msgspec.Struct, frozen=True):
    """A provider: its id in the configuration, and its limits per minute."""

    account: str
    provider: str
    rpm: int = 0
    tpm: int = 0

    @property
    def limits(self) -> dict[str, int]:
        """Those that are set."""
        return {name: value for name, value in (("rpm", self.rpm), ("tpm", self.tpm)) if value}

    def bound_s(self, texts: list[str]) -> float:
        """The least time that the limits allow for these texts."""
        tokens = [-(-len(f"Repeat {text}") // CHARS_A_TOKEN) + MAX_TOKENS for text in texts]
        bounds = []
        if self.rpm:
            bounds.append(meter_bound_s([1.0] * len(texts), self.rpm / 60, BURST_S))
        if self.tpm:
            bounds.append(meter_bound_s(tokens, self.tpm / 60, BURST_S))
        return max(bounds)


LANES: Final = (
    LaneLimits("small", "openai:chat:gpt-4o-mini", rpm=1_500),
    LaneLimits("large", "anthropic:messages:claude-sonnet-4-5", rpm=600),
    LaneLimits("own", "own:some-model", tpm=90_000),
)


class LaneShare(msgspec.Struct, frozen=True):
    """What a lane made of its binding limit."""

    lane: LaneLimits
    spent_s: float
    bound_s: float
    refused: int

    @property
    def share(self) -> float:
        """Of the binding limit."""
        return self.bound_s / self.spent_s


def measure(tests: int = TESTS) -> list[LaneShare]:
    """Run the eval once."""
    texts = [f"word-{number:04d} " + "again " * (number % 7) + "end" for number in range(tests)]
    accounts = {
        lane.account: {
            "key": f"sk-{lane.account}",
            "burst": f"{BURST_S:g}s",
            "latency": LATENCY,
            **lane.limits,
        }
        for lane in LANES
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fake.yaml").write_bytes(msgspec.json.encode({"accounts": accounts}))
        with fake_process("--config", str(folder / "fake.yaml")) as fake:
            (folder / "headway.toml").write_text(
                f'[providers.own]\nkind = "openai"\nbase_url = "{fake.url}/v1"\napi_key_env = "OWN_KEY"\n'
            )
            keys = {**targets(fake.url, "sk-small", "sk-large"), "OWN_KEY": "sk-own"}
            config = write_eval(folder, [_provider(lane) for lane in LANES], texts)
            headway_eval((), config, folder / "results.json", keys, LONGEST_S)
            stats = fake.stats()["accounts"]
    return [_lane_share(lane, stats[lane.account], texts) for lane in LANES]


def _provider(lane: LaneLimits) -> dict[str, Any]:
    return {"id": lane.provider, "config": {"max_tokens": MAX_TOKENS, "rateLimit": lane.limits}}


def _lane_share(lane: LaneLimits, account: dict[str, Any], texts: list[str]) -> LaneShare:
    if account["ok"] != len(texts):
        raise RuntimeError(f"{lane.account}: {account['ok']} of {len(texts)} answered")
    spent_s = account["last_admission_s"] - account["first_admission_s"]
    return LaneShare(lane, spent_s, lane.bound_s(texts), account["received"] - account["admitted"])


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    cells = len(LANES) * TESTS
    print(f"evals: {cells:,} cells over three providers …", flush=True)
    shares = measure()
    missed += [
        f"evals: lane {share.lane.account} at {share.share:.1%} of its limit, the bar is {BAR:.0%}"
        for share in shares
        if share.share < BAR
    ]
    yield f"### {cells:,} cells over three providers with very different limits"
    yield ""
    yield "One eval; the limits are `config.rateLimit` of the providers. The share is the bound (work − full bucket) ÷ limit over the time from the first admitted"
    yield f"request to the last one. Bar for each lane: {BAR:.0%}."
    yield ""
    yield "| lane | limit | seconds | bound, s | of its limit | 429s |"
    yield "|---|---|---|---|---|---|"
    for share in shares:
        limit = ", ".join(f"{value:,} {name}" for name, value in share.lane.limits.items())
        yield f"| {share.lane.account} | {limit} | {share.spent_s:.1f} | {share.bound_s:.1f} | {share.share:.1%} | {share.refused} |"
    yield ""
