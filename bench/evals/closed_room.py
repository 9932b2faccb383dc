"""A network namespace that has only loopback, with a fake provider in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.servers import installed
from bench.servers.litellm import entrance
from bench.servers.running import process

READY_WITHIN_S: Final = 30.0
_GET: Final = (
    "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
)


class ClosedRoom(msgspec.Struct, frozen=True):
    """`prefix` is the command in front of another that runs it inside."""

    prefix: tuple[str, ...]
    url: str

    def accounts(self) -> dict[str, Any]:
        """The fake's statistics by account."""
        command = [*self.prefix, sys.executable, "-S", "-c", _GET, f"{self.url}/stats"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        accounts: dict[str, Any] = json.loads(done.stdout)["accounts"]
        return accounts


@contextmanager
def closed_room(folder: Path, config: dict[str, Any]) -> Iterator[ClosedRoom]:
    """A namespace with a fake of this configuration, until the end of the block."""
    ready = folder / "ready"
    (folder / "fake.yaml").write_bytes(msgspec.json.encode(config))  # JSON is YAML.
    inside = f"ip link set lo up && touch {ready} && exec sleep infinity"
    with process([*installed.NAMESPACE, "bash", "-c", inside], folder) as pid:
        _wait_for(ready)
        prefix = entrance(pid)
        command = [*prefix, sys.executable, "-P", "-m", "headway", "fake", "--port", "0", "--json", "--quiet"]
        fake = subprocess.Popen(
            [*command, "--config", str(folder / "fake.yaml")], stdout=subprocess.PIPE, text=True
        )
        assert fake.stdout is not None
        try:
            yield ClosedRoom(prefix, json.loads(fake.stdout.readline())["url"])
        finally:
            fake.terminate()
            fake.communicate(timeout=READY_WITHIN_S)


def _wait_for(file: Path) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while not file.exists():
        if time.monotonic() > until:
            raise RuntimeError("the network namespace did not start")
        time.sleep(0.01)
