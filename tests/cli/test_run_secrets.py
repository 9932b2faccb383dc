"""A key is sent to its provider and written nowhere: no records, logs, results, messages or argument lists."""

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
    """Files below `root` that contain a secret, or most of it."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += [str(path) for part in (secret, secret[3:], secret[:-4]) if part.encode() in data]
    return found


def test_a_key_is_written_nowhere(stage: Stage, troubled: FakeProcess) -> None:
    """After errors of every kind, and a kill that leaves the write-ahead log in place."""
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
    """A server that repeats the key in every response: first 500, then 401."""

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
        """Print nothing on stderr."""


def test_a_key_that_a_provider_repeats_is_removed(stage: Stage) -> None:
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


def test_a_key_from_an_env_file_is_written_nowhere(stage: Stage) -> None:
    (stage.root / ".env").write_text(f"ALPHA_KEY={WRONG}\n")
    stage.env["ALPHA_KEY"] = ""  # An empty value counts as not set.
    done = stage.run("run", "in.jsonl", "-v")
    assert done.returncode == 0, done.stderr
    os.unlink(stage.root / ".env")
    assert places_of(WRONG, stage.root) == []
    assert WRONG not in done.stdout + done.stderr


MISTRAL = "b7Qd9Lk2Xw5Zr8Tn3Vp6Ys1Hf4Jg0Mc"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
PLAIN_NAME = "q1w2e3r4t5y6u7i8o9p0"
LEAKING = """
import json, os, sys, urllib.parse

def work(payload, context):
    how, everything = payload["how"], dict(os.environ, FROM_FILE=payload["from_file"])
    print(everything)
    print(json.dumps(everything).replace("/", "\\\\/"), file=sys.stderr)
    print(everything["A_PLAIN_NAME"] * 300)
    context.message("tool", everything)
    if how == "raise":
        raise ValueError(f"no entry for {everything}")
    if how == "die":
        sys.stderr.write(everything["MISTRAL_API_KEY"])
        os.kill(os.getpid(), 9)
    if how == "limit":
        return {"rate_limit": {"retry_after_s": 0.01, "message": f"slow down {everything['MISTRAL_API_KEY']}"}}
    return {"env": everything, "url": urllib.parse.quote(str(everything)), "text": json.dumps(everything)}
"""


def leaking(stage: Stage, more: str = "") -> None:
    """A job whose function prints, returns and raises its environment."""
    (stage.root / "leaks.py").write_text(LEAKING)
    (stage.root / "headway.toml").write_text(
        f'[providers.work]\nkind = "python"\ntarget = "leaks:work"\nworkers = 1\n{more}\n'
        "[providers.work.retry]\nbase = '1ms'\ncap = '2ms'\nmax_throttles = 1\n"
        '[providers.other]\nkind = "openai"\nbase_url = "https://api.openai.com/v1"\napi_key_env = "A_PLAIN_NAME"\n'
        '[run]\nprovider = "work"\nmax_attempts = 1\n'
    )
    (stage.root / ".env").write_text("DOTENV_SECRET=dotenv-9f8e7d6c5b4a\n")
    (stage.root / ".env").chmod(0o600)
    rows = [{"how": how, "from_file": "see below"} for how in ("good", "raise", "die", "limit")]
    stage.input.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stage.env.update(MISTRAL_API_KEY=MISTRAL, AWS_SECRET_ACCESS_KEY=AWS, A_PLAIN_NAME=PLAIN_NAME)


@pytest.mark.parametrize("isolation", ["process", "thread"])
def test_a_worker_that_prints_its_environment_leaves_no_key_on_record(stage: Stage, isolation: str) -> None:
    """Keys that match no pattern are found by value in everything that it prints, returns or raises."""
    leaking(stage, f'isolation = "{isolation}"')
    if isolation == "thread":  # A death would end the run.
        stage.input.write_text(stage.input.read_text().replace('"die"', '"good"'))
    done = stage.run("run", "in.jsonl", "-v", "--log-file", "run.log")
    assert done.returncode == 1, done.stderr
    texts = (
        "" if isolation == "thread" else done.stdout + done.stderr
    )  # A thread prints to the output of the run.
    job = stage.query("SELECT name FROM jobs")[0][0]
    for index in range(len(stage.input.read_text().splitlines())):
        looked = stage.run("show", job, str(index))
        assert looked.returncode == 0, looked.stderr
        texts += looked.stdout
    for command in (("status", "--json"), ("lanes", "--json"), ("export",)):
        texts += stage.run(*command).stdout
    (stage.root / ".env").unlink()
    for secret in (MISTRAL, AWS, PLAIN_NAME):
        assert secret not in texts
        assert secret.replace("/", "\\/") not in texts
        assert places_of(secret, stage.root) == []
    good = json.loads(stage.out.read_text().splitlines()[0])
    assert good["response"]["body"]["env"]["MISTRAL_API_KEY"] == "***"
    assert json.loads(good["response"]["body"]["text"])["AWS_SECRET_ACCESS_KEY"] == "***"


def test_secrets_of_the_env_file_are_removed_too(stage: Stage) -> None:
    leaking(stage)
    row = {"how": "good", "from_file": "dotenv-9f8e7d6c5b4a"}
    stage.input.write_text(json.dumps(row) + "\n")
    assert stage.run("run", "in.jsonl").returncode == 0
    assert "dotenv-9f8e7d6c5b4a" not in stage.out.read_text()
    # The input is recorded unchanged: it may have to be sent again.
    assert json.loads(stage.query("SELECT body FROM requests")[0][0])["from_file"] == row["from_file"]


def test_env_gives_a_worker_only_what_it_needs(stage: Stage) -> None:
    leaking(stage, 'env = ["A_PLAIN_NAME"]')
    (stage.root / "leaks.py").write_text(
        "import os\ndef work(payload):\n    return {'names': sorted(os.environ), 'home': os.environ['HOME']}\n"
    )
    assert stage.run("run", "in.jsonl").returncode == 0
    body = json.loads(stage.out.read_text().splitlines()[0])["response"]["body"]
    assert {"A_PLAIN_NAME", "PATH", "HOME", "HEADWAY_WORKER"} <= set(body["names"])
    assert not {"MISTRAL_API_KEY", "AWS_SECRET_ACCESS_KEY", "ALPHA_KEY"} & set(body["names"])


def test_env_holds_for_the_preflight_command(stage: Stage) -> None:
    asked = stage.root / "asked"
    leaking(
        stage,
        f'env = []\npreflight = "command"\npreflight_command = ["/bin/sh", "-c", "env > {asked}"]\n',
    )
    (stage.root / "leaks.py").write_text("def work(payload):\n    return 1\n")
    assert stage.run("run", "in.jsonl").returncode == 0
    assert "PATH=" in asked.read_text()
    assert MISTRAL not in asked.read_text()
