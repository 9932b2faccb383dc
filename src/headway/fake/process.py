"""`headway fake` in its own process, for crash tests and benchmarks, which must not share its event loop.

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
    """A running fake provider. It stops at the end of the `with` block."""

    url: str
    port: int
    pid: int

    def stats(self, *, series: bool = False) -> dict[str, Any]:
        """The answer of GET /stats."""
        return self._ask(Request(f"{self.url}/stats" + ("?series=1" if series else "")))

    def reset(self) -> None:
        """Reset the statistics."""
        self._ask(Request(f"{self.url}/stats/reset", method="POST"))

    def _ask(self, request: Request) -> dict[str, Any]:
        with urlopen(request, timeout=30) as answer:
            statistics: dict[str, Any] = json.load(answer)
        return statistics


@contextmanager
def fake_process(*flags: str) -> Iterator[FakeProcess]:
    """Run `headway fake` with these flags on a free port; stop it at the end of the block."""
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
