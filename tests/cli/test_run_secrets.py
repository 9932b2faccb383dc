"""A key goes to its provider and nowhere else: not into records, logs, results, words or argument lists."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.crash.stage import KEY, Stage, wait_for

from headway.fake.process import FakeProcess, fake_process

PLAN = f"""
strict: true
accounts:
  troubled:
    key: {KEY}
    latency: 20ms
    faults:
      - {{kind: 500, every: 3}}
      - {{kind: hang, every: 7}}
      - {{kind: truncated, every: 5}}
  other: {{key: sk-nobody-has-this-key}}
"""
WRONG = "sk-wrong-5b0f7d2e91c34aa8"


@pytest.fixture
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    plan = tmp_path_factory.mktemp("troubled") / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        yield fake


def places_of(secret: str, root: Path) -> list[str]:
    """Files below `root` that hold a secret, whole or most of it."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += [str(path) for part in (secret, secret[3:], secret[:-4]) if part.encode() in data]
    return found


def test_a_key_is_nowhere_afterwards(stage: Stage, troubled: FakeProcess) -> None:
    """Errors of every kind, and a kill that leaves the write-ahead log as it is."""
    stage.fake = troubled
    stage.units = 60
    stage.write_input()
    stage.configure("max_concurrency = 4", more="[providers.alpha.retry]\nbase = '10ms'")
    run = ("run", "in.jsonl", "-v", "--timeout", "300ms", "--max-attempts", "8")
    stage.env["ALPHA_KEY"] = WRONG
    refused = stage.run(*run)
    assert refused.returncode == 1
    assert "stopped: auth" in refused.stderr
    stage.env["ALPHA_KEY"] = KEY
    with stage.process(*run) as process:
        wait_for("some answers", lambda: len(stage.committed()) > 10)
        arguments = Path(f"/proc/{process.pid}/cmdline")
        if arguments.exists():
            assert KEY.encode() not in arguments.read_bytes()
        wal = Path(f"{stage.db}-wal")
        assert wal.exists()
        process.kill()
        out, err = process.communicate()
    assert places_of(KEY, stage.root) == []
    done = stage.run(*run, "--progress", "json")
    texts = refused.stdout + refused.stderr + out + err + done.stdout + done.stderr
    for command in (("jobs", "--json"), ("status", "--json"), ("lanes", "--json"), ("export",)):
        looked = stage.run(*command)
        assert looked.returncode == 0, looked.stderr
        texts += looked.stdout + looked.stderr
    kinds = {kind for (kind,) in stage.query("SELECT DISTINCT kind FROM attempts")}
    assert {"auth", "transient", "timeout"} <= kinds, "there was trouble of all these kinds"
    for secret in (KEY, WRONG):
        assert secret not in texts
        assert places_of(secret, stage.root) == []


class Parrot(BaseHTTPRequestHandler):
    """A server that repeats the key in whatever it says: with 500 at first, then with 401."""

    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Parrot.asked += 1
        sent = self.headers["Authorization"]
        status = 401 if Parrot.asked > 2 else 500
        body = json.dumps({"error": {"message": f"{sent} is not good; I got {dict(self.headers)}"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-request-id", sent)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


def test_a_key_that_a_provider_repeats_is_blotted_out(stage: Stage) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Parrot)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        stage.fake = replace(stage.fake, url=f"http://127.0.0.1:{server.server_port}")
        stage.configure("max_concurrency = 1", more="[providers.alpha.retry]\nbase = '10ms'")
        done = stage.run("run", "in.jsonl", "-v", "--json", "--progress", "json")
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 1, done.stderr
    messages = [message for (message,) in stage.query("SELECT message FROM attempts")]
    assert len(messages) == 3
    assert any("***" in message for message in messages)
    assert places_of(KEY, stage.root) == []
    assert KEY not in done.stdout + done.stderr


def test_neither_is_one_from_an_env_file(stage: Stage) -> None:
    (stage.root / ".env").write_text(f"ALPHA_KEY={WRONG}\n")
    stage.env["ALPHA_KEY"] = ""  # Set to nothing is as good as not set.
    done = stage.run("run", "in.jsonl", "-v")
    assert done.returncode == 0, done.stderr
    os.unlink(stage.root / ".env")
    assert places_of(WRONG, stage.root) == []
    assert WRONG not in done.stdout + done.stderr
