"""A real PostgreSQL server for tests and benchmarks, from Debian's binaries: made in a temporary directory, with fsync, and ended with
the process that started it, even if that is killed.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

#: How long a server may take to start on a loaded machine.
START_S: Final = 60.0
#: The password of the role `headway` over TCP. Over the socket every role is trusted.
PASSWORD: Final = "pg-secret-0123456789abcdef"
_SETTINGS: Final = {
    "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "64MB", "max_connections": "100",
    "logging_collector": "off", "log_min_messages": "warning", "autovacuum_naptime": "10s",
}  # fmt: skip
#: Empties the tables of the store `lent`. A test that left a transaction open does not block it for long.
_EMPTY: Final = """
SET lock_timeout TO '5s';
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'lent' AND tablename <> 'headway_version' LOOP
        EXECUTE format('DELETE FROM lent.%I', one.tablename);
    END LOOP;
    FOR one IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'lent' AND last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE lent.%I RESTART', one.sequencename);
    END LOOP;
END
$$
"""


def binaries() -> Path | None:
    """The folder of the newest server on this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def is_required() -> bool:
    """Whether a missing server is a failure: in CI."""
    return bool(os.environ.get("HEADWAY_REQUIRE_POSTGRES") or os.environ.get("CI"))


def require_binaries() -> Path:
    """The folder of the server; a test without one is skipped, or fails in CI."""
    folder = binaries()
    if folder is None:
        reason = "no PostgreSQL on this machine: apt-get install postgresql"
        if is_required():
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


class PostgresServer:
    """One server with one database. `start` and `kill` may be called again and again. `prefix`: the command that runs it in a namespace,
    where machines of `network` may connect without a password.
    """

    def __init__(
        self, binaries: Path, prefix: tuple[str, ...] = (), network: str = "", **settings: str
    ) -> None:
        self._binaries = binaries
        self._prefix, self._network = prefix, network
        self._settings = {**_SETTINGS, **settings}
        self._user = _other_user() if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="hw-pg-", dir="/tmp"))
        if self._user is not None:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, pwd.getpwnam(self._user).pw_gid)
        self.folder.chmod(0o755)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        try:
            self._init()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _init(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "headway", "-E", "UTF8", "--locale=C.UTF-8",
                  "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}", "--no-instructions")  # fmt: skip
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())
        if self._network:
            with (self.folder / "data" / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {self._network} trust\n")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([str(self._binaries / program), *arguments], cwd=self.folder, capture_output=True, check=False, user=self._user,
                              group=self._user, extra_groups=() if self._user else None)  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        as_user = (
            [] if self._user is None else ["--reuid", self._user, "--regid", self._user, "--clear-groups"]
        )
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [*self._prefix, "setpriv", *as_user, "--pdeathsig", "QUIT", str(self._binaries / "postgres"), "-D", str(self.folder / "data"),
                 "-p", str(self.port), "-c", f"unix_socket_directories={self.folder}", "-c", f"listen_addresses={'*' if self._network else '127.0.0.1'}"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        give_up_at = time.monotonic() + START_S
        while not self._is_ready():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < give_up_at, (
                "the server does not start: " + (self.folder / "log").read_text()
            )
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        command = [
            str(self._binaries / "pg_isready"),
            "-q",
            "-h",
            str(self.folder),
            "-p",
            str(self.port),
            "-d",
            "postgres",
        ]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End the server: connections are closed (SIGINT: fast, SIGQUIT: without a checkpoint)."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_S)
            self._process = None

    def kill(self) -> None:
        """SIGKILL to the server and all of its processes, as a crash of the machine would end them."""
        if self._process is not None:
            children = (
                Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            )
            self._process.kill()
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
            self._process.wait(START_S)
            self._process = None
            (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop all processes of the server, as a lost network does."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def remove(self) -> None:
        """End the server and remove its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, schema: str = "") -> str:
        """The address of a store over the socket; each without a schema's name is a new one."""
        if not schema:
            self._schemas += 1
            schema = f"t{self._schemas}_{secrets.token_hex(4)}"
        return f"postgresql://headway@/postgres?host={self.folder}&port={self.port}&schema={schema}"

    @contextmanager
    def lent_address(self) -> Iterator[str]:
        """The address of an empty store that is used again and again: a new one has a hundred files."""
        address = self.address("lent")
        yield address
        with psycopg.connect(address.rpartition("&")[0], autocommit=True) as connection:
            connection.execute(_EMPTY)

    def address_with_password(self, schema: str = "", password: str = PASSWORD) -> str:
        """The same over TCP, with a password in it."""
        name = self.address(schema).rpartition("=")[2]
        return f"postgresql://headway:{password}@127.0.0.1:{self.port}/postgres?schema={name}"


def _other_user() -> str:
    """The server refuses to run as root."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
