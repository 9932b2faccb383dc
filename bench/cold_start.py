"""The cold start in real time: `headway run` against `headway fake` behind slow TLS, and again after SIGKILL.

The limit is configured, the bucket is one second deep, and a connection takes 0.2 s to open: a burst arrives that much later than it
was decided. The fake counts the 429s.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.processes import HEADWAY, Watched
from bench.slow_tls import has_openssl, slow_tls
from headway.fake.process import FakeProcess, fake_process

RPM: Final = 6000
UNITS: Final = 800
OPENING_S: Final = 0.2
LATENCY: Final = "300ms-600ms"
#: DESIGN §8, short jobs: 5, or 1 % of the units.
REFUSED: Final = 0.01
#: The job is killed when this share is answered.
KILLED_AT: Final = 0.3
PATIENCE_S: Final = 120.0


class ColdStart(msgspec.Struct, frozen=True):
    """The 429s of one job, those of its first run if it was killed, and how long it took from its first to its last admission."""

    name: str
    units: int
    refused: int
    before_kill: int
    took_s: float
    connections: int
    exit_code: int

    @property
    def most_refused(self) -> float:
        """The bar, for each run."""
        return max(5.0, REFUSED * self.units) * (1 if self.name == COLD else 2)


COLD: Final = "cold start"
RESUMED: Final = "killed and resumed"


def _refused(fake: FakeProcess) -> int:
    return int(sum(fake.stats()["total"]["refused"].values()))


def _prepare(folder: Path, url: str, units: int) -> None:
    settings = [
        "[providers.a]",
        'kind = "openai"',
        f'base_url = "{url}"',
        'api_key_env = "KEY"',
        'model = "m"',
    ]
    settings += ["[providers.a.limits]", f"rpm = {RPM}", "tpm = 0"]
    (folder / "headway.toml").write_text("\n".join(settings), encoding="utf-8")
    rows = [{"id": f"u{number}", "prompt": f"hello {number}", "max_tokens": 8} for number in range(units)]
    (folder / "in.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))


def measure(name: str, units: int = UNITS, opening_s: float = OPENING_S) -> ColdStart:
    """One job, started cold; or killed and started again."""
    flags = ("--rpm", str(RPM), "--burst", "1s", "--headers", "none", "--latency", LATENCY)
    with TemporaryDirectory() as place, fake_process(*flags) as fake:
        folder = Path(place)
        with slow_tls(fake.port, opening_s, folder) as server:
            _prepare(folder, server.url, units)
            keys = {"KEY": "some-key", "SSL_CERT_FILE": str(server.certificate)}
            command = [*HEADWAY, "run", "in.jsonl", "--out", "out.jsonl", "--quiet"]
            before_kill = 0
            if name == RESUMED:
                first = Watched(command, folder, PATIENCE_S, keys)
                first.wait_for(lambda: fake.stats()["total"]["ok"] >= KILLED_AT * units, every_s=0.05)
                first.kill()
                before_kill = _refused(fake)
            ended = Watched(command, folder, PATIENCE_S, keys).wait()
            counts = fake.stats()["total"]
            took_s = (counts["last_admission_s"] or 0.0) - (counts["first_admission_s"] or 0.0)
            return ColdStart(name, units, _refused(fake), before_kill, took_s, server.opened, ended.code)


def misses(one: ColdStart) -> list[str]:
    """The missed bars of a job."""
    missed = []
    if one.refused > one.most_refused:
        missed.append(
            f"{one.name}: {one.refused} 429s in {one.units} units, the bar is {one.most_refused:.0f}"
        )
    if one.exit_code:
        missed.append(f"{one.name}: exit code {one.exit_code}")
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## The cold start, in real time: 429s while connections are opened"
    yield ""
    if not has_openssl():
        yield "Not measured: openssl makes the certificate, and is not installed."
        yield ""
        return
    yield f"{RPM:,} requests per minute configured, buckets 1 s deep, {OPENING_S:g} s to open a connection (TLS on loopback)."
    yield ""
    yield "| case | units | 429s | bar | before the kill | s | connections |"
    yield "|---|---|---|---|---|---|---|"
    for name in (COLD, RESUMED):
        print(f"{name} …", flush=True)
        one = measure(name)
        missed += misses(one)
        yield (
            f"| {one.name} | {one.units:,} | {one.refused} | ≤ {one.most_refused:.0f} | {one.before_kill or ''} | "
            f"{one.took_s:.1f} | {one.connections} |"
        )
    yield ""


if __name__ == "__main__":
    print("\n".join(section([])))
