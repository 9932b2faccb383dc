"""`headway fake` as a process of its own: for crash suites and benchmarks, which must not share its loop.

with fake_process("--rpm", "600") as fake:
    ...  # POST to fake.url
    fake.stats()["total"]["admitted"]
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class FakeProcess:
    """A fake provider that runs; it lives as long as the `with` that made it."""

    url: str
    port: int
    pid: int

    def stats(self, *, series: bool = False) -> dict[str, Any]:
        """What GET /stats tells."""
        return self._ask(Request(f"{self.url}/stats" + ("?series=1" if series else "")))

    def reset(self) -> None:
        """Forget all counts."""
        self._ask(Request(f"{self.url}/stats/reset", method="POST"))

    def _ask(self, request: Request) -> dict[str, Any]:
        with urlopen(request, timeout=30) as answer:
            told: dict[str, Any] = json.load(answer)
        return told


@contextmanager
def fake_process(*flags: str) -> Iterator[FakeProcess]:
    """Start `headway fake` with these flags on a free port, and stop it at the end."""
    command = [sys.executable, "-P", "-m", "headway", "fake", "--port", "0", "--json", "--quiet", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"headway fake did not start: exit code {process.wait(STOP_S)}")
        yield FakeProcess(**json.loads(line))
    finally:
        _stop(process)
        process.stdout.close()


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
