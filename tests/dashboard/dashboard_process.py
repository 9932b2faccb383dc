"""`headway ui` as a process, and a client that can send any header."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.cli.programs import program_stage
from tests.crash.stage import PATIENCE_S, Stage


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert self.headers["content-type"] == "application/json", self
        text: str = self.json["error"]
        return text


class DashboardProcess:
    """A running dashboard. Requests have the cookie, and those that change something all that the page sends."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.process, self.url, self.host, self.port = process, url, parts.hostname, parts.port
        self.token = parts.query.removeprefix("token=")
        self.origin = f"http://{parts.netloc}"
        exchange = self.send("GET", f"/?{parts.query}", {})
        assert exchange.status == 303, exchange
        self.cookie = exchange.headers["set-cookie"].partition(";")[0]
        self.set_cookie = exchange.headers["set-cookie"]
        jobs = self.get("/api/jobs")
        assert jobs.status == 200, jobs
        self.csrf: str = jobs.json["csrf"]

    def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None, host: str = ""
    ) -> Reply:
        """One request with exactly these headers, and `Host`."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or f"{self.host}:{self.port}")
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Reply(
                answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        """A request of the page."""
        return self.send("GET", path, {"Cookie": self.cookie, **headers})

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """An action of the page."""
        own = {
            "Cookie": self.cookie,
            "Origin": self.origin,
            "X-Headway-CSRF": self.csrf,
            "Content-Type": "application/json",
        }
        return self.send("POST", path, {**own, **headers}, json.dumps(body or {}).encode())


def one_attempt_stage(root: Path, scripts: list[str], *, at_once: int = 4) -> Stage:
    """Units that are programs, and are not tried again if they fail: nothing waits for a backoff."""
    stage = program_stage(root, scripts, at_once=at_once)
    config = root / "headway.toml"
    config.write_text(f"{config.read_text()}[run]\nmax_attempts = 1\n")
    return stage


@contextmanager
def dashboard(stage: Stage, *flags: str) -> Iterator[DashboardProcess]:
    """`headway ui` over the records of a stage, on a free port."""
    with stage.process("ui", "--port", "0", "--no-open", *flags) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://[^\s\"]+", line)
        assert found is not None, (line, process.stderr.read() if process.stderr and process.poll() else "")
        yield DashboardProcess(process, found[0])


class EventReader:
    """Reads `/api/events` in a thread, and keeps every event: its kind and its data."""

    def __init__(self, page: DashboardProcess, path: str) -> None:
        self.events: list[tuple[str, Any]] = []
        self._connection = http.client.HTTPConnection(page.host, page.port, timeout=PATIENCE_S)
        self._connection.request("GET", path, headers={"Cookie": page.cookie})
        self.answer = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def of(self, kind: str) -> list[Any]:
        """The data of all events of a kind so far."""
        return [data for name, data in self.events if name == kind]

    def is_over(self) -> bool:
        """Whether the stream has ended."""
        return not self._thread.is_alive()

    def close(self) -> None:
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        self.answer.close()
        self._connection.close()

    def _read(self) -> None:
        kind = ""
        try:
            while line := self.answer.readline():
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    kind = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    self.events.append((kind, json.loads(text.removeprefix("data: "))))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            return
