"""Several machines on one table: network namespaces with PostgreSQL and `headway fake` in the middle, and engines around it.

Each engine has two cables to the middle (veth pairs), one for the database and one for the provider, so that each can be cut alone: then
packets vanish, and no connection is refused or closed. Nothing can leave the namespaces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import psycopg
from bench.servers import installed
from bench.servers.litellm import entrance
from bench.servers.running import process
from tests.postgres_server import PostgresServer

LAUNCHER: Final = Path(__file__).with_name("machine_launcher.py")
KEY: Final = "sk-machines-4f9a1c77e2b84d0c"
FAKE_PORT: Final = 8900
PATIENCE_S: Final = 60.0
_GET: Final = (
    "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
)
_SETTINGS: Final = {"HEADWAY_DEBUG": "", "ALPHA_KEY": KEY, "PYTHONWARNINGS": "error"}
Cable = Literal["db", "api"]


class Namespace(msgspec.Struct, frozen=True):
    """One machine's network. `prefix` is the command in front of another that runs it there."""

    prefix: tuple[str, ...]

    @property
    def pid(self) -> str:
        """A process that is in it."""
        return self.prefix[self.prefix.index("--target") + 1]

    def run(self, *command: str) -> str:
        """Run a command there; returns its output."""
        done = subprocess.run(
            [*self.prefix, *command], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout


class Figures(msgspec.Struct, frozen=True):
    """What the provider has counted so far."""

    at_s: float
    received: int
    admitted: int
    refused: int

    def since(self, before: Figures) -> Figures:
        """What has come since then."""
        return Figures(
            self.at_s - before.at_s,
            self.received - before.received,
            self.admitted - before.admitted,
            self.refused - before.refused,
        )

    def use(self, per_minute: float) -> float:
        """The share of a limit that was used in this time."""
        return self.admitted / (per_minute / 60.0 * self.at_s)

    @property
    def refused_per_1000(self) -> float:
        return 1000.0 * self.refused / max(1, self.received)


class Machine:
    """One engine's machine: a directory and two cables."""

    def __init__(self, name: str, number: int, root: Path, network: Namespace, address: str) -> None:
        self.name, self.number, self.root, self.network = name, number, root, network
        self.address = address
        self.process: subprocess.Popen[str] | None = None

    def write(self, units: int, limits: str, *, weight: float = 1.0) -> None:
        """Its headway.toml and its input."""
        (self.root / "headway.toml").write_text(
            f'[providers.alpha]\nkind = "openai"\nbase_url = "http://10.9.1.1:{FAKE_PORT}/v1"\napi_key_env = "ALPHA_KEY"\n'
            f'model = "gpt-x"\ninsecure_http = true\n[providers.alpha.limits]\n{limits}\n[run]\nweight = {weight}\n',
            encoding="utf-8",
        )
        rows = ({"id": f"u{n}", "prompt": f"say {n}", "user": f"{self.name}-{n}"} for n in range(units))
        (self.root / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def start(self, *, skew_s: float = 0.0) -> None:
        """`headway run`, with a clock that is wrong by so much."""
        env = {**os.environ, **_SETTINGS, "HEADWAY_DB": self.address, "HEADWAY_TEST_SKEW_S": str(skew_s)}
        with (self.root / "err").open("w") as err:
            self.process = subprocess.Popen(
                [*self.network.prefix, "setpriv", "--pdeathsig", "KILL", sys.executable, "-P", str(LAUNCHER), "run", "in.jsonl", "--progress", "plain"],
                cwd=self.root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, text=True,
            )  # fmt: skip

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def err(self) -> str:
        """What it has said so far."""
        return (self.root / "err").read_text(encoding="utf-8")

    def progress(self) -> dict[str, Any]:
        """What it says of its job, in its own directory."""
        paths = list((self.root / ".headway" / "jobs").glob("*/progress.json"))
        return json.loads(paths[0].read_bytes()) if paths else {}


class Table:
    """PostgreSQL and a provider in the middle, and the machines around."""

    def __init__(self, folder: Path, middle: Namespace, server: PostgresServer, stack: ExitStack) -> None:
        self._folder, self._middle, self._stack = folder, middle, stack
        self.server = server
        self._schema = server.address().rpartition("=")[2]
        self._machines: list[Machine] = []

    def provide(self, *flags: str) -> None:
        """Start the provider."""
        env = {"HEADWAY_TEST_HOST": "0.0.0.0"}
        command = [
            *self._middle.prefix,
            sys.executable,
            "-P",
            str(LAUNCHER),
            "fake",
            "--port",
            str(FAKE_PORT),
            "--quiet",
            *flags,
        ]
        (self._folder / "fake").mkdir()
        self._stack.enter_context(process(command, self._folder / "fake", env))
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.figures()
                return
            except AssertionError:
                assert time.monotonic() < give_up_at, (self._folder / "fake" / "server.log").read_text()

    def machine(self, name: str) -> Machine:
        """One more machine at the table."""
        number = len(self._machines) + 1
        root = self._folder / name
        root.mkdir()
        network = self._stack.enter_context(namespace(root))
        for place, cable in enumerate(("api", "db"), 1):
            here, there = f"{cable}{number}", cable
            self._middle.run(
                "ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", network.pid
            )
            self._middle.run("ip", "link", "set", here, "master", f"br-{cable}", "up")
            network.run("ip", "address", "add", f"10.9.{place}.{number + 1}/24", "dev", there)
            network.run("ip", "link", "set", there, "up")
            # Known for ever: otherwise a cut cable shows, because nobody answers who has the address.
            address = _mac(place)
            network.run("ip", "neigh", "replace", f"10.9.{place}.1", "lladdr", address, "dev", there)
            network.run("ip", "neigh", "change", f"10.9.{place}.1", "dev", there, "nud", "permanent")
        port, base = self.server.port, "postgresql://headway@10.9.2.1"
        machine = Machine(name, number, root, network, f"{base}:{port}/postgres?schema={self._schema}")
        self._stack.callback(machine.kill)
        self._machines.append(machine)
        return machine

    def cut(self, machine: Machine, cable: Cable = "db") -> None:
        """From now on packets vanish."""
        self._middle.run("ip", "link", "set", f"{cable}{machine.number}", "down")

    def mend(self, machine: Machine, cable: Cable = "db") -> None:
        """The cable is whole again."""
        self._middle.run("ip", "link", "set", f"{cable}{machine.number}", "up")

    def figures(self) -> Figures:
        """The counts of the provider."""
        text = self._middle.run(sys.executable, "-S", "-c", _GET, f"http://10.9.1.1:{FAKE_PORT}/stats")
        stats = json.loads(text)
        total = stats["total"]
        return Figures(stats["now_s"], total["received"], total["admitted"], sum(total["refused"].values()))

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask the database, over its socket."""
        with psycopg.connect(self.server.address("x").rpartition("&")[0], autocommit=True) as connection:
            connection.execute(f"SET search_path TO {self._schema}".encode())
            with suppress(psycopg.errors.UndefinedTable):  # No engine has made the tables yet.
                return connection.execute(sql.encode(), values).fetchall()
        return []

    def started(self, first_utc: float, last_utc: float) -> dict[int, int]:
        """The requests that each job (by its number) has sent between two instants of the server's clock, and that are on record."""
        sql = "SELECT uid >> 32, count(*) FROM attempts WHERE started_utc >= %s AND started_utc < %s GROUP BY 1 ORDER BY 1"
        return dict(self.query(sql, (first_utc, last_utc)))

    def utc(self) -> float:
        """The server's clock."""
        return float(self.query("SELECT extract(epoch FROM clock_timestamp())")[0][0])


def _mac(place: int) -> str:
    return f"02:00:00:00:09:{place:02}"


@contextmanager
def namespace(folder: Path) -> Iterator[Namespace]:
    """A network of its own, until the end of the block."""
    ready = folder / "ready"
    inside = f"ip link set lo up && touch {ready} && exec sleep infinity"
    with process([*installed.NAMESPACE, "bash", "-c", inside], folder) as pid:
        give_up_at = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert time.monotonic() < give_up_at, "the network namespace did not start"
            time.sleep(0.01)
        yield Namespace(entrance(pid))


@contextmanager
def laid_table(folder: Path, binaries: Path) -> Iterator[Table]:
    """The middle, until the end of the block."""
    with ExitStack() as stack:
        (folder / "middle").mkdir()
        middle = stack.enter_context(namespace(folder / "middle"))
        for place, cable in enumerate(("api", "db"), 1):
            middle.run(
                "ip",
                "link",
                "add",
                f"br-{cable}",
                "address",
                _mac(place),
                "type",
                "bridge",
                "forward_delay",
                "0",
            )
            middle.run("ip", "address", "add", f"10.9.{place}.1/24", "dev", f"br-{cable}")
            middle.run("ip", "link", "set", f"br-{cable}", "up")
        server = PostgresServer(binaries, prefix=middle.prefix, network="10.9.2.0/24")
        stack.callback(server.remove)
        yield Table(folder, middle, server, stack)
