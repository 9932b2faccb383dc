"""A job against a real server: `headway run` in a fresh folder, and a bare client that is told the limits."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.oracle import Call, Job, Lane, OracleResult
from bench.processes import HEADWAY, Watched
from bench.servers.running import Server

_PATH: Final = "/v1/chat/completions"
#: Every process ends after this time.
PATIENCE_S: Final = 400.0


class Work(msgspec.Struct, frozen=True):
    """So many small chat requests to one model with one key, and the settings of its limits in `headway.toml`."""

    units: int
    model: str = "m"
    key: str = "key-of-headway"
    limits: str = ""
    max_tokens: int = 16

    def bodies(self) -> list[dict[str, Any]]:
        """The requests."""
        return [
            {
                "model": self.model,
                "messages": [{"role": "user", "content": f"Say what number {number} is."}],
                "max_tokens": self.max_tokens,
            }
            for number in range(self.units)
        ]


class Truth(msgspec.Struct, frozen=True):
    """What the bare client is told: requests per second, and how deep the bucket is; or windows; or how many in flight."""

    rate: float = 0.0
    depth_s: float = 0.0
    window_s: float = 0.0
    most_in_flight: int = 0


class Result(msgspec.Struct, frozen=True):
    """One `headway run`: makespan from the first start to the last end, refusals, and everything that it printed."""

    makespan_s: float
    refused: int
    #: Units without exactly one good row in the output.
    lost: int
    exit_code: int
    most_in_flight: int
    log: str


def start_headway(server: Server, folder: Path, work: Work) -> Watched:
    """Start `headway run` on this work, in a new folder, with a home of its own that is empty."""
    (folder / "home").mkdir(parents=True)
    (folder / "headway.toml").write_text(
        f'[providers.server]\nkind = "openai"\nbase_url = "{server.url}"\napi_key_env = "SERVER_KEY"\n'
        + (f"[providers.server.limits]\n{work.limits}\n" if work.limits else ""),
        encoding="utf-8",
    )
    rows = [
        {
            "custom_id": f"unit-{number:05d}",
            "method": "POST",
            "url": _PATH,
            "body": {**body, "model": f"server/{work.model}"},
        }
        for number, body in enumerate(work.bodies())
    ]
    (folder / "in.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))
    command = [*server.prefix, *HEADWAY, "run", "in.jsonl", "--out", "out.jsonl", "--json"]
    environ = {"SERVER_KEY": work.key, "HOME": str(folder / "home")}
    return Watched(command, folder, PATIENCE_S, environ)


def headway_result(running: Watched, folder: Path, work: Work) -> Result:
    """Wait for the end of a run, and read its output."""
    ended = running.wait()
    if not (folder / "out.jsonl").exists() or not ended.out:
        raise RuntimeError(f"headway run: exit code {ended.code}: {ended.errors.decode()[-2000:]}")
    good: Counter[str] = Counter()
    spans = []
    with (folder / "out.jsonl").open("rb") as file:
        for line in map(msgspec.json.Decoder(_Row).decode, file):
            good[line.custom_id] += line.response is not None
            spans.append((line.headway.started_utc, line.headway.finished_utc))
    lost = sum(good[f"unit-{number:05d}"] != 1 for number in range(work.units))
    began, ended_at = min(start for start, _ in spans), max(end for _, end in spans)
    summary = msgspec.json.decode(ended.out)
    return Result(
        makespan_s=(ended_at - began).total_seconds(),
        refused=summary["refused"],
        lost=lost,
        exit_code=ended.code,
        most_in_flight=_most_at_once(spans),
        log=ended.errors.decode(),
    )


def _most_at_once(spans: list[tuple[datetime, datetime]]) -> int:
    """The most successful attempts that were in flight at the same time."""
    # At the same instant ends come before starts: times are rounded to milliseconds.
    moments = sorted([(end, -1) for _, end in spans] + [(start, 1) for start, _ in spans])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def run_headway(server: Server, folder: Path, work: Work) -> Result:
    """`headway run`, from an empty folder to its end."""
    return headway_result(start_headway(server, folder, work), folder, work)


def start_oracle(server: Server, folder: Path, work: Work, truth: Truth) -> Watched:
    """Start the bare client on the same work."""
    folder.mkdir(parents=True)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {work.key}"}
    rates = (truth.rate,) if truth.rate else ()
    calls = [Call(msgspec.Raw(msgspec.json.encode(body)), (1.0,) * len(rates)) for body in work.bodies()]
    lane = Lane(
        server.url + _PATH, headers, rates, truth.depth_s, calls, truth.window_s, truth.most_in_flight
    )
    (folder / "oracle.json").write_bytes(msgspec.json.encode(Job([lane])))
    command = [*server.prefix, sys.executable, "-m", "bench.oracle", "oracle.json"]
    return Watched(command, folder, PATIENCE_S)


def oracle_result(running: Watched) -> OracleResult:
    """Wait for the bare client's end."""
    ended = running.wait()
    result = msgspec.json.decode(ended.out or b"{}", type=OracleResult)
    if result.failed or not result.ok:
        raise RuntimeError(f"the oracle failed: {result}: {ended.errors.decode()[-2000:]}")
    return result


def run_oracle(server: Server, folder: Path, work: Work, truth: Truth) -> OracleResult:
    """The bare client, to its end."""
    return oracle_result(start_oracle(server, folder, work, truth))


class _Headway(msgspec.Struct):
    started_utc: datetime
    finished_utc: datetime


class _Row(msgspec.Struct):
    custom_id: str
    response: dict[str, Any] | None
    headway: _Headway
