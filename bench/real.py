"""Pacing in real time: `headway run` against `headway fake`, each in its own process, beside an oracle.

One job has two accounts, like OpenAI and Anthropic. The oracle (bench/oracle.py) sends the same work at the same
time to two more accounts of the same fake with the same limits, so that both see the same machine. The makespan of
an account is the time from its first admission to its last, as the fake counted them, for both.

Answers echo their requests, so each row of the output shows to which request it belongs. In every case nothing may be
lost, wrong or double.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import msgspec

from bench.oracle import Call, Job, Lane, OracleResult
from bench.processes import HEADWAY, Ended, Watched
from headway.fake.process import FakeProcess, fake_process

#: Requests per second that the limits of each account allow, and how long its work takes after the full bucket.
RATE: Final = 150.0
LENGTH_S: Final = 60.0
LATENCY: Final = {"min": 0.1, "max": 0.6}
#: The other limits of an account, relative to the binding one.
SPARE: Final = 1.3
#: Additional time that every process may take.
PATIENCE_S: Final = 90.0

LimitsFrom = Literal["known", "headers", "minute", "unknown"]

CHARS_A_TOKEN: Final = 4
_FILLER: Final = (
    "a text that goes on for as long as it has to, and says nothing that anybody would miss; " * 40
)


class Bar(msgspec.Struct, frozen=True):
    """The bar of a case: makespan ÷ the oracle's, and 429s per 1000 requests."""

    limits_from: LimitsFrom
    depth_s: float
    ratio: float
    refused_per_1000: float

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{_NAMES[self.limits_from]}, {self.depth_s:g} s deep"


_NAMES: Final = {
    "known": "limits configured",
    "headers": "limits in headers",
    "minute": "headers report the minute",
    "unknown": "limits unknown",
}

BARS: Final = (
    Bar("known", 5.0, 1.02, 4.0),
    Bar("known", 1.0, 1.02, 4.0),
    Bar("headers", 5.0, 1.02, 4.0),
    Bar("headers", 1.0, 1.02, 4.0),
    Bar("minute", 1.0, 1.02, 4.0),
    Bar("unknown", 5.0, 1.12, 20.0),
    Bar("unknown", 1.0, 1.12, 20.0),
)
#: A lane beside one in trouble, compared with running alone.
BESIDE: Final = 1.02


# -- work ---------------------------------------------------------------------------------------------------------


class Piece(msgspec.Struct, frozen=True):
    """One request: its name, its expected answer, its body, and what it is charged."""

    name: str
    echo: str
    body: dict[str, Any]
    tokens_in: int
    tokens_out: int
    max_tokens: int


class Work(msgspec.Struct, frozen=True):
    """The work of one account, and its limits per minute by the fake's names."""

    account: str
    kind: Literal["openai", "anthropic"]
    pieces: list[Piece]
    limits: dict[str, float]
    depth_s: float
    #: Further keys of its account at the fake.
    account_keys: dict[str, Any] = {}

    @property
    def path(self) -> str:
        """The path of its requests."""
        return "/v1/chat/completions" if self.kind == "openai" else "/v1/messages"

    def costs(self, piece: Piece) -> tuple[float, ...]:
        """The costs of a request, in the order of the limits."""
        charged = {
            "rpm": 1,
            "tpm": piece.tokens_in + piece.max_tokens,
            "itpm": piece.tokens_in,
            "otpm": piece.tokens_out,
        }
        return tuple(float(charged[name]) for name in self.limits)


def _tokens(chars: int) -> int:
    """Tokens as the fake counts them."""
    return -(-chars // CHARS_A_TOKEN)


def _piece(account: str, kind: str, number: int, rng: random.Random) -> Piece:
    name = f"{account}-{number:06d}"
    system = _FILLER[: rng.randrange(40, 1600)]
    text = f"{name}: {_FILLER[: rng.randrange(20, 500)]}"
    max_tokens = rng.randrange(48, 160)
    echo = f"echo: {text}"[: max_tokens * CHARS_A_TOKEN]
    user = {"role": "user", "content": text}
    if kind == "openai":
        body = {"messages": [{"role": "system", "content": system}, user], "max_tokens": max_tokens}
    else:
        body = {"system": system, "messages": [user], "max_tokens": max_tokens}
    return Piece(name, echo, body, _tokens(len(system) + len(text)), _tokens(len(echo)), max_tokens)


def work(
    account: str,
    kind: Literal["openai", "anthropic"],
    depth_s: float,
    length_s: float,
    rate: float = RATE,
) -> Work:
    """Work that takes the binding limit of an account `length_s` seconds after its full bucket."""
    rng = random.Random(f"{account} {depth_s}")
    count = round(rate * (length_s + depth_s))
    pieces = [_piece(account, kind, number, rng) for number in range(count)]
    tokens_in = sum(piece.tokens_in for piece in pieces) / count
    tokens_out = sum(piece.tokens_out for piece in pieces) / count
    reserved = tokens_in + sum(piece.max_tokens for piece in pieces) / count
    a_minute = rate * 60.0
    limits = {"rpm": SPARE * a_minute}
    if kind == "openai":
        limits["tpm"] = reserved * a_minute
    else:
        limits |= {"itpm": tokens_in * a_minute, "otpm": SPARE * tokens_out * a_minute}
    return Work(account, kind, pieces, {name: float(round(limit)) for name, limit in limits.items()}, depth_s)


def both(depth_s: float, length_s: float) -> list[Work]:
    """Account A like OpenAI, B like Anthropic."""
    return [work("A", "openai", depth_s, length_s), work("B", "anthropic", depth_s, length_s)]


# -- the fake -----------------------------------------------------------------------------------------------------


def _account(one: Work, headers: str, faults: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **one.limits,
        "burst": one.depth_s,
        "headers": headers,
        "latency": LATENCY,
        "faults": faults,
        **one.account_keys,
    }


@contextmanager
def provider(
    works: list[Work],
    folder: Path,
    headers: str,
    *,
    faults: list[dict[str, Any]] | None = None,
    further: dict[str, Any] | None = None,
) -> Iterator[FakeProcess]:
    """A fake with an account for each work, and a second one for the oracle. An account's name is its key."""
    accounts = {one.account: _account(one, headers, faults or []) for one in works}
    accounts |= {f"{one.account}-oracle": _account(one, headers, []) for one in works}
    fake_config = {"strict": True, "accounts": accounts | (further or {})}
    path = folder / "fake.json"
    path.write_bytes(msgspec.json.encode(fake_config))  # JSON is YAML.
    with fake_process("--config", str(path)) as fake:
        yield fake


# -- headway and the oracle ---------------------------------------------------------------------------------------

_SETTING: Final = {"rpm": "rpm", "tpm": "tpm", "itpm": "input_tpm", "otpm": "output_tpm"}


def _settings(works: list[Work], url: str, limits_from: LimitsFrom, further: str) -> str:
    lines = []
    for one in works:
        lines += [
            f"[providers.{one.account}]",
            f'kind = "{one.kind}"',
            f'base_url = "{url}"',
            f'api_key_env = "KEY_{one.account}"',
        ]
        if limits_from == "known":
            lines.append(f"[providers.{one.account}.limits]")
            lines += [f"{_SETTING[name]} = {limit:.0f}" for name, limit in one.limits.items()]
    return "\n".join([*lines, further, ""])


def _row(one: Work, piece: Piece) -> dict[str, Any]:
    body = {"model": f"{one.account}/model", **piece.body}
    return {"custom_id": piece.name, "method": "POST", "url": one.path, "body": body}


def _turns(works: list[Work]) -> Iterator[tuple[Work, Piece]]:
    """The pieces of all accounts, in turn."""
    longest = max(len(one.pieces) for one in works)
    for number in range(longest):
        for one in works:
            if number < len(one.pieces):
                yield one, one.pieces[number]


class Run(msgspec.Struct, frozen=True):
    """The settings of one `headway run`."""

    limits_from: LimitsFrom
    #: Additional rows at the front of the file, and additional settings.
    rows: list[dict[str, Any]] = []
    settings: str = ""
    flags: tuple[str, ...] = ()
    quiet: bool = True


def start(works: list[Work], folder: Path, url: str, run: Run, timeout_s: float) -> Watched:
    """Start `headway run` with this work, in its own folder."""
    folder.mkdir()
    (folder / "headway.toml").write_text(
        _settings(works, url, run.limits_from, run.settings), encoding="utf-8"
    )
    rows = [*run.rows, *(_row(one, piece) for one, piece in _turns(works))]
    (folder / "in.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))
    keys = {f"KEY_{one.account}": one.account for one in works} | {"KEY_T": "T"}
    command = [*HEADWAY, "run", "in.jsonl", "--out", "out.jsonl", "--json", *run.flags]
    command += ["--quiet"] if run.quiet else []
    return Watched(command, folder, timeout_s, keys)


def start_oracle(works: list[Work], folder: Path, url: str, timeout_s: float) -> Watched:
    """Start the oracle with the same work, on its own accounts."""
    lanes = []
    for one in works:
        key = f"{one.account}-oracle"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        calls = [
            Call(msgspec.Raw(msgspec.json.encode({"model": "model", **piece.body})), one.costs(piece))
            for piece in one.pieces
        ]
        rates = tuple(limit / 60.0 for limit in one.limits.values())
        lanes.append(Lane(url + one.path, headers, rates, one.depth_s, calls))
    path = folder / "oracle.json"
    path.write_bytes(msgspec.json.encode(Job(lanes)))
    return Watched([sys.executable, "-m", "bench.oracle", str(path)], folder, timeout_s)


# -- what came of it ----------------------------------------------------------------------------------------------


class Output(msgspec.Struct, frozen=True):
    """An output file compared with its input: units without a good row, with several rows, or with a wrong answer."""

    lost: int
    double: int
    wrong: int

    @property
    def sound(self) -> bool:
        """Whether nothing is lost, double or wrong."""
        return not (self.lost or self.double or self.wrong)


class _Body(msgspec.Struct):
    choices: list[Any] = []
    content: list[Any] = []


class _Response(msgspec.Struct):
    body: _Body


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None


def _text(body: _Body) -> str:
    return str(body.choices[0]["message"]["content"] if body.choices else body.content[0]["text"])


def check(works: list[Work], path: Path) -> Output:
    """Check the output: the answer to each request must be its echo."""
    echoes = {piece.name: piece.echo for one in works for piece in one.pieces}
    good: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    wrong = 0
    with path.open("rb") as file:
        for line in map(msgspec.json.Decoder(_Line).decode, file):
            if line.custom_id not in echoes:
                continue
            rows[line.custom_id] += 1
            if line.response is not None:
                good[line.custom_id] += 1
                wrong += _text(line.response.body) != echoes[line.custom_id]
    double = sum(count - 1 for count in rows.values())
    return Output(sum(not good[name] for name in echoes), double, wrong)


class Lap(msgspec.Struct, frozen=True):
    """One account in one case."""

    account: str
    makespan_s: float
    refused_per_1000: float
    oracle_s: float = 0.0
    oracle_refused_per_1000: float = 0.0

    @property
    def ratio(self) -> float:
        """Makespan ÷ the oracle's."""
        return self.makespan_s / self.oracle_s if self.oracle_s else 0.0


def seen(stats: dict[str, Any], account: str, units: int) -> tuple[float, float]:
    """(makespan, 429s per 1000) of an account."""
    counts = stats["accounts"][account]
    span_s = (counts["last_admission_s"] or 0.0) - (counts["first_admission_s"] or 0.0)
    limits = ("rpm", "rpd", "tpm", "itpm", "otpm", "concurrency")
    refused = sum(counts["refused"].get(name, 0) for name in limits)
    return span_s, 1000.0 * refused / units


def lap_of(stats: dict[str, Any], one: Work, *, oracle: bool = True) -> Lap:
    """What the fake counted for an account, and for the oracle's."""
    units = len(one.pieces)
    mine = seen(stats, one.account, units)
    best = seen(stats, f"{one.account}-oracle", units) if oracle else (0.0, 0.0)
    return Lap(one.account, *mine, *best)


class Case(msgspec.Struct, frozen=True):
    """The measured figures."""

    laps: list[Lap]
    output: Output
    attempts: int
    units: int
    exit_code: int
    faults: dict[str, int] = {}


def _case(works: list[Work], fake: FakeProcess, ended: Ended, folder: Path, *, oracle: bool) -> Case:
    stats = fake.stats()
    path = folder / "out.jsonl"
    if not path.exists():
        raise RuntimeError(f"headway run: exit code {ended.code}: {ended.errors.decode()[-2000:]}")
    laps = [lap_of(stats, one, oracle=oracle) for one in works]
    attempts = msgspec.json.decode(ended.out)["attempts"] if ended.out else 0
    units = sum(len(one.pieces) for one in works)
    return Case(laps, check(works, path), attempts, units, ended.code, stats["total"]["faulted"])


def paced(limits_from: LimitsFrom, depth_s: float, length_s: float = LENGTH_S) -> Case:
    """Run Headway and the oracle side by side."""
    works = both(depth_s, length_s)
    headers = {"headers": "auto", "minute": "minute"}.get(limits_from, "none")
    with TemporaryDirectory() as name, provider(works, Path(name), headers) as fake:
        folder = Path(name)
        timeout_s = 2.0 * length_s + PATIENCE_S
        oracle = start_oracle(works, folder, fake.url, timeout_s)
        ended = start(works, folder / "run", fake.url, Run(limits_from), timeout_s).wait()
        result = msgspec.json.decode(oracle.wait().out or b"{}", type=OracleResult)
        if result.failed or not result.ok:
            raise RuntimeError(f"the oracle failed: {result}")
        _keep(folder)
        return _case(works, fake, ended, folder / "run", oracle=True)


def _keep(folder: Path) -> None:
    """Copy a run to the directory that BENCH_KEEP names, for inspection."""
    target = os.environ.get("BENCH_KEEP")
    if target:
        shutil.copytree(folder, target, dirs_exist_ok=True)


# -- beside a lane in trouble -------------------------------------------------------------------------------------

Trouble = Literal["", "held", "dead"]

TROUBLES: Final[dict[Trouble, str]] = {"": "alone", "held": "beside a held one", "dead": "beside a dead one"}


def _closed_port() -> int:
    """A port without a listener."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _troubled(trouble: Trouble, url: str, units: int) -> Run:
    """The rows of the lane in trouble come before all others."""
    if not trouble:
        return Run("known")
    address = url if trouble == "held" else f"http://127.0.0.1:{_closed_port()}"
    settings = f'[providers.T]\nkind = "openai"\nbase_url = "{address}"\napi_key_env = "KEY_T"'
    rows = [
        {"custom_id": f"T-{number}", "url": "/v1/chat/completions", "body": {"model": "T/model", **_HELLO}}
        for number in range(units)
    ]
    return Run("known", rows, settings)


_HELLO: Final = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 16}


def beside(trouble: Trouble, length_s: float = LENGTH_S, units: int = 2_000) -> Case:
    """Account A, alone or beside a lane in trouble. Interrupted when A is done, because the other lane never is."""
    works = [work("A", "openai", 1.0, length_s)]
    # One request is admitted; the next is refused for five minutes.
    further = {"T": {"rpm": 0.2, "burst": 1, "latency": 0.1, "headers": "none"}}
    with TemporaryDirectory() as name, provider(works, Path(name), "none", further=further) as fake:
        folder = Path(name)
        run = _troubled(trouble, fake.url, units)
        running = start(works, folder / "run", fake.url, run, 2.0 * length_s + PATIENCE_S)
        total = len(works[0].pieces)
        running.wait_for(lambda: fake.stats()["accounts"]["A"]["ok"] >= total, every_s=0.5)
        if trouble:
            running.interrupt()
        ended = running.wait()
        return _case(works, fake, ended, folder / "run", oracle=False)


# -- faults -------------------------------------------------------------------------------------------------------

FAULTS: Final[tuple[tuple[str, float], ...]] = (
    ("5xx", 0.05),
    ("reset", 0.01),
    ("reset-body", 0.005),
    ("hang", 0.005),
    ("truncated", 0.01),
    ("html", 0.005),
    ("bad-headers", 0.05),
)


def faulty(length_s: float = 15.0, timeout: str = "3s") -> Case:
    """Both accounts with all kinds of faults."""
    works = both(1.0, length_s)
    faults = [{"kind": kind, "chance": chance} for kind, chance in FAULTS]
    with TemporaryDirectory() as name, provider(works, Path(name), "auto", faults=faults) as fake:
        folder = Path(name)
        run = Run("headers", flags=("--timeout", timeout, "--max-attempts", "8"))
        ended = start(works, folder / "run", fake.url, run, 4.0 * length_s + PATIENCE_S).wait()
        _keep(folder)
        return _case(works, fake, ended, folder / "run", oracle=False)


# -- verdicts -----------------------------------------------------------------------------------------------------


def misses(bar: Bar, case: Case) -> list[str]:
    """The missed bars of a case."""
    missed = []
    for lap in case.laps:
        if lap.ratio > bar.ratio:
            missed.append(
                f"{bar.name}, {lap.account}: {lap.ratio:.3f} of the oracle's makespan, the bar is {bar.ratio}"
            )
        if lap.refused_per_1000 > bar.refused_per_1000:
            missed.append(
                f"{bar.name}, {lap.account}: {lap.refused_per_1000:.1f} 429s per 1000, "
                f"the bar is {bar.refused_per_1000:g}"
            )
        if lap.oracle_refused_per_1000 > ORACLE_REFUSED:
            missed.append(
                f"{bar.name}, {lap.account}: the oracle itself got {lap.oracle_refused_per_1000:.1f} 429s per 1000"
            )
    return missed + unsound(bar.name, case)


#: With more refusals the oracle is no reference.
ORACLE_REFUSED: Final = 1.0


def unsound(name: str, case: Case) -> list[str]:
    """What is lost, double or wrong; empty if nothing is."""
    output = case.output
    if output.sound:
        return []
    return [
        f"{name}: {output.lost} lost, {output.double} double, {output.wrong} wrong (exit code {case.exit_code})"
    ]
