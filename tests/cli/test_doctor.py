"""`headway doctor`: a line per check, the next step if needed; it changes nothing and shows no key."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import KEY, Stage

from headway.cli import connectivity, doctor_checks
from headway.config import load
from headway.stores.sqlite.schema import migrations


class Found(NamedTuple):
    """One check of `--json`."""

    state: str
    text: str
    next: str


def look(headway: Headway, *args: str) -> dict[str, Found]:
    """All checks by name; the exit code says whether there is a problem."""
    done = headway("doctor", "--json", *args)
    report: dict[str, Any] = json.loads(done.out)
    found = {check.pop("name"): Found(**check) for check in report["checks"]}
    problems = any(check.state == "problem" for check in found.values())
    assert (done.code, report["ok"]) == ((1, False) if problems else (0, True))
    assert KEY not in done.out + done.err
    return found


def test_no_problems(stage: Stage, headway: Headway) -> None:
    done = headway("doctor")
    assert done.code == 0, done.out
    assert done.err == ""
    lines = done.out.splitlines()
    assert all(line.startswith(("ok  ", "warning ")) for line in lines[:-1]), done.out
    for name in (
        "python",
        "packages",
        "uvloop",
        "sqlite",
        "terminal",
        "config",
        "alpha key",
        "alpha address",
    ):
        assert sum(f" {name}: " in line for line in lines) == 1
    for name in ("database", "disk", "open files"):
        assert sum(f" {name}: " in line for line in lines) == 1
    assert "ALPHA_KEY is set (environment)" in done.out
    assert KEY not in done.out
    assert not (stage.root / ".headway").exists(), "nothing is made"


def test_after_a_run_the_database_is_checked(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    before = stage.db.read_bytes()
    found = look(headway, "--offline")
    assert f"schema {len(migrations())}" in found["database"].text
    assert found["jobs"] == Found("ok", "none running", "")
    assert stage.db.read_bytes() == before


def test_a_job_left_by_a_dead_process_is_named(stage: Stage, headway: Headway) -> None:
    stage.ends_by_kill("run", "in.jsonl", faults={"kill": {"at": "add_answer", "when": "after", "n": 1}})
    found = look(headway, "--offline")
    name = stage.job()["name"]
    assert found["jobs"].state == "warning"
    assert found["jobs"].next == f"resume: headway resume {name}"


def test_offline_makes_no_connection(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(connectivity, "check_address", no_network)
    assert "alpha address" not in look(headway, "--offline")


def test_a_key_that_is_missing_or_cannot_be_one(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALPHA_KEY")
    found = look(headway, "--offline")["alpha key"]
    assert found.state == "problem"
    assert "ALPHA_KEY is not set" in found.text
    assert ".env" in found.next
    (stage.root / ".env").write_text(f"ALPHA_KEY={KEY}\n")
    assert look(headway, "--offline")["alpha key"].text == "ALPHA_KEY is set (.env)"
    monkeypatch.setenv("ALPHA_KEY", f"{KEY} and more")
    assert look(headway, "--offline")["alpha key"].state == "problem"
    monkeypatch.delenv("ALPHA_KEY")
    (stage.root / ".env").write_text(f"{KEY}\n")
    found = look(headway, "--offline")[".env"]
    assert found.state == "problem"
    assert ".env:1" in found.text


def test_a_local_server_needs_no_key_and_the_missing_key_is_named(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stage.root / "headway.toml"
    config.write_text(config.read_text().replace('api_key_env = "ALPHA_KEY"\n', ""))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = look(headway, "--offline")["alpha key"]
    assert (found.state, found.text) == (
        "ok",
        "no key is set (OPENAI_API_KEY): a server on this machine may need none",
    )


def test_a_key_that_would_be_sent_unencrypted(stage: Stage, headway: Headway) -> None:
    text = (stage.root / "headway.toml").read_text().replace(stage.fake.url, "http://example.invalid")
    (stage.root / "headway.toml").write_text(text)
    assert look(headway, "--offline")["alpha key"].state == "problem"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[providers.alpha]\nkind = "openai"\nbase_ulr = "x"', "base_url"),
        ("not toml", "not TOML"),
    ],
)
def test_a_configuration_that_is_wrong(stage: Stage, headway: Headway, toml: str, says: str) -> None:
    (stage.root / "headway.toml").write_text(toml)
    found = look(headway)["config"]
    assert found.state == "problem"
    assert says in found.text


def test_nothing_is_configured(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    (stage.root / "headway.toml").unlink()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    found = look(headway)
    assert found["config"].state == "ok"
    assert found["providers"].state == "problem"
    assert "headway init" in found["providers"].next


# -- addresses -------------------------------------------------------------------------------------------------------


class RecordingServer(BaseHTTPRequestHandler):
    """A server that records its requests."""

    heard: ClassVar[list[tuple[str, dict[str, str]]]] = []
    status = 404

    def do_HEAD(self) -> None:
        RecordingServer.heard.append((self.path, dict(self.headers)))
        self.send_response(RecordingServer.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing on stderr."""


@pytest.fixture
def ears() -> Iterator[str]:
    RecordingServer.heard.clear()
    RecordingServer.status = 404
    server = ThreadingHTTPServer(("127.0.0.1", 0), RecordingServer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_address_is_checked_once_and_without_a_key(ears: str) -> None:
    assert connectivity.check_address(ears).state == "ok"
    [(path, headers)] = RecordingServer.heard
    assert path == "/"
    assert not {"authorization", "x-api-key"} & {name.lower() for name in headers}
    RecordingServer.status = 502
    assert connectivity.check_address(ears).state == "warning"


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_addresses_that_do_not_answer(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectivity, "TIMEOUT_S", 0.2)
    assert connectivity.check_address(f"http://{silent}").state == "warning"
    assert connectivity.check_address(f"https://{silent}").state == "problem"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    refused = connectivity.check_address(f"http://127.0.0.1:{port}/v1")
    assert (refused.state, refused.text) == ("problem", f"nothing listens on 127.0.0.1:{port}")
    assert refused.next


def test_a_host_name_that_cannot_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    answer = connectivity.check_address("https://nowhere.example/v1")
    assert (answer.state, answer.text) == ("problem", "the name of nowhere.example cannot be resolved")
    assert "HTTPS_PROXY" in answer.next


def test_a_host_that_never_answers_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(address: str) -> connectivity.ConnectionCheck:
        if "slow" in address:
            gate.wait(20)
        return connectivity.ConnectionCheck("ok", "")

    monkeypatch.setattr(connectivity, "check_address", slow)
    monkeypatch.setattr(
        connectivity, "PATIENCE_S", 1.0
    )  # Longer than the fast check needs on a busy machine.
    answers = connectivity.check_all(["http://slow", "http://quick"])
    gate.set()
    assert {address: answer.state for address, answer in answers.items()} == {
        "http://slow": "problem",
        "http://quick": "ok",
    }


# -- the records -----------------------------------------------------------------------------------------------------


def test_databases_that_cannot_be_used(stage: Stage, headway: Headway) -> None:
    (stage.root / "a-directory").mkdir()
    (stage.root / "text.db").write_text("this is not a database, and long enough to look at\n" * 20)
    newer = sqlite3.connect(stage.root / "newer.db")
    newer.execute("CREATE TABLE jobs (id)")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    for db, says in (
        ("a-directory", "directory"),
        ("text.db", "not a Headway database"),
        ("newer.db", "newer Headway"),
        ("text.db/inside.db", "cannot be created"),
        ("postgresql://somebody:secret@host/db", "postgresql://host/db"),
    ):
        found = look(headway, "--offline", "--db", db)["database"]
        assert found.state == "problem", db
        assert says in found.text
        assert found.next
        assert "secret" not in found.text


def test_a_database_that_another_process_keeps_locked(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    monkeypatch.setattr("headway.stores.sqlite.file.BUSY_S", 0.05)
    other = sqlite3.connect(stage.db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    found = look(headway, "--offline")["database"]
    other.close()
    assert found.state == "problem"
    assert "locked" in found.text


def test_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, state in ((10**7, "problem"), (5 * 10**8, "warning"), (10**12, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: shutil._ntuple_diskusage(0, 0, free))
        assert doctor_checks.disk(tmp_path).state == state


def test_open_files_against_requests_in_flight(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    config = load(None, stage.root, os.environ)
    assert doctor_checks.most_in_flight(config) == 8
    assert doctor_checks.open_files(config).state == "ok"
    stage.configure("max_concurrency = 2000")
    many = doctor_checks.open_files(load(None, stage.root, os.environ))
    assert (many.state, many.next) == ("warning", "ulimit -n 4096")
    stage.configure("max_concurrency = 9000")
    assert "concurrency" in doctor_checks.open_files(load(None, stage.root, os.environ)).next
    stage.configure("rpm = 10", more="[run]\nconcurrency = 50")
    assert doctor_checks.most_in_flight(load(None, stage.root, os.environ)) == 50


def test_an_old_sqlite_and_no_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    assert doctor_checks.sqlite().state == "problem"
    monkeypatch.setattr(doctor_checks, "_version", lambda name: "")
    assert doctor_checks.uvloop().state == "warning"
    assert doctor_checks.packages().state == "problem"


def test_where_a_key_comes_from_is_named(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0123456789")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    (stage.root / ".env").write_text(f"GOOGLE_API_KEY={KEY}\n")
    (stage.root / "headway.toml").write_text(
        f'[providers.b]\nkind = "bedrock"\nregion = "us-east-1"\nbase_url = "{stage.fake.url}"\n'
        f'[providers.g]\nkind = "gemini"\nbase_url = "{stage.fake.url}"\n'
    )
    found = look(headway)
    assert found["b key"].text == "AWS_ACCESS_KEY_ID is set (environment)"
    assert found["g key"].text == "GOOGLE_API_KEY is set (.env)"
    assert found["b address"].state == found["g address"].state == "ok"
