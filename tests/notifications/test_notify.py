"""`--notify`: what a web address and a program get, and that neither can delay a run."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_live import view_of
from tests.crash.stage import KEY, Stage, wait_for
from tests.tracing.receiver import serving

from headway.core.snapshot import BudgetView, Snapshot
from headway.errors import UsageError
from headway.fake.process import fake_process
from headway.notifications import delivery
from headway.notifications.delivery import Deliveries
from headway.notifications.message import Notification
from headway.notifications.targets import NotifiedProgram, WebAddress, parse_target
from headway.notifications.watcher import NotificationWatcher

PLAN = """
accounts:
  default: {latency: {min: 5ms, max: 10ms}}
  held: {key: sk-held-account-01, latency: 5ms, faults: [{kind: subscription, resets: 20m, between: [0s, 1h]}]}
  revoked: {key: sk-revoked-account-01, latency: 5ms, faults: [{kind: 401}]}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        stage = Stage(tmp_path, fake, f"notify-{os.getpid()}", units=10)
        stage.configure(more="[providers.alpha.prices]\ninput = 100\noutput = 100\n")
        stage.write_input([stage.row(index, max_tokens=5) for index in range(10)])
        yield stage


class Hook:
    """A web address that remembers what it gets. `status` is its answer; `holds` lets it wait."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 204
        self.released = threading.Event()
        self.released.set()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                hook.released.wait(30)
                self.send_response(hook.status)
                self.send_header("Location", self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def events(self) -> list[str]:
        return [one["event"] for one in self.got]


@pytest.fixture
def hook() -> Iterator[tuple[Hook, str]]:
    made = Hook()
    with serving(made.handler()) as url:
        yield made, f"{url}/secret-path"
        made.released.set()


def test_the_end_and_the_budget(stage: Stage, hook: tuple[Hook, str]) -> None:
    """To an address that a variable has, and to a program of the file. Ten units cost about a cent each."""
    told, url = hook
    (stage.root / "record.py").write_text(
        "import os, sys\nopen('told.json', 'ab').write(sys.stdin.buffer.read() + b'\\n')\nassert 'ALPHA_KEY' not in os.environ\n"
    )
    with (stage.root / "headway.toml").open("a") as file:
        file.write(f'[run]\nnotify = ["$HOOK", "{sys.executable} record.py"]\n')
    stage.env["HOOK"] = url
    done = stage.run("run", "in.jsonl", "--max-cost", "1000")
    assert done.returncode == 0, done.stderr
    [end] = told.got
    job = stage.job()
    assert end == {
        "event": "ended", "job": job["name"], "version": 1, "lane": None, "until_utc": None, "state": "complete",
        "exit_code": 0, "at_utc": end["at_utc"], "totals": end["totals"],
        "text": f"{job['name']}: complete; 10 of 10 units succeeded, ${job['cost_usd']:.2f}",
    }  # fmt: skip
    assert (end["totals"]["units"], end["totals"]["succeeded"]) == (10, 10)
    assert json.loads((stage.root / "told.json").read_text()) == end
    # Forty units cost nine tenths of this budget.
    stage.write_input([stage.row(index, prompt=f"yes {index}", max_tokens=5) for index in range(40)])
    cap = job["cost_usd"] * 4.4
    stage.run("run", "in.jsonl", "--max-cost", f"{cap:.6f}", "--notify", url, "--concurrency", "1")
    assert told.events()[1:] == ["budget", "ended"], told.got[1:]
    # The address is a secret: it is in no record.
    assert b"secret-path" not in stage.db.read_bytes()


def test_the_budget_of_one_provider_is_told_of_once() -> None:
    told: list[Notification] = []
    watcher = NotificationWatcher(told.append, 60.0)
    for spent in (0.7, 0.8, 0.9):
        budgets = (BudgetView("alpha", spent, 1.0), BudgetView("beta", 0.1, 1.0))
        watcher.moved(view_of(Snapshot(0.0, (), 0, 0, 0, 0, 0, 0, 0, spent, None, lane_budgets=budgets)))
    assert [(one.event, one.text.partition(": ")[2]) for one in told] == [
        ("budget", "80 % of the budget of alpha is spent: $0.80 of $1.00")
    ]


def test_a_long_hold_and_a_stopped_lane(stage: Stage, hook: tuple[Hook, str]) -> None:
    told, url = hook
    stage.env["ALPHA_KEY"] = "sk-held-account-01"
    with stage.process("run", "in.jsonl", "--notify", url, "--notify-hold", "1m") as run:
        wait_for("the hold", lambda: told.got)
        time.sleep(1.2)  # Two more views must not tell of it again.
        run.terminate()
        run.communicate(timeout=60)
    held = told.got[0]
    assert (held["event"], held["lane"]) == ("held", "alpha/gpt-x")
    assert 60 < held["until_utc"] - held["at_utc"] <= 1300
    assert told.events() == ["held", "ended"]
    assert (told.got[1]["state"], told.got[1]["exit_code"]) == ("interrupted", 130)
    told.got.clear()
    stage.env["ALPHA_KEY"] = "sk-revoked-account-01"
    assert stage.run("run", "in.jsonl", "--fresh", "--force", "--notify", url).returncode == 1
    assert sorted(told.events()) == ["ended", "stopped"]
    stopped = next(one for one in told.got if one["event"] == "stopped")
    assert stopped["lane"] == "alpha/gpt-x"
    assert "auth" in stopped["text"]


def test_a_target_that_hangs_delays_no_run_and_is_named_without_its_secret(
    stage: Stage, hook: tuple[Hook, str]
) -> None:
    told, url = hook
    told.status = 302
    done = stage.run("run", "in.jsonl", "--notify", url, "--notify", "false")
    assert done.returncode == 0
    warnings = sorted(
        line for line in done.stderr.splitlines() if line.startswith("warning: the notification")
    )
    assert [line.partition("notification to ")[2] for line in warnings] == [
        "127.0.0.1 failed: HTTP 302", "false failed: exit code 1",
    ]  # fmt: skip
    assert len(told.got) == 1, "a redirect is not followed"


def test_a_slow_program_is_killed_with_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "DELIVERY_S", 1.0)
    failed: list[str] = []
    script = f"sleep 300 & echo $! > {tmp_path}/child; wait"
    one = Deliveries(NotifiedProgram(("sh", "-c", script)), dict(os.environ), failed.append)
    began_at = time.monotonic()
    one.send(Notification("ended", "job", "text", 0.0))
    assert time.monotonic() - began_at < 0.5, "sending does not wait"
    one.close()
    assert failed == ["warning: the notification to sh failed: it took longer than 1 s, and was killed"]
    child = int((tmp_path / "child").read_text())
    wait_for("the child's end", lambda: not is_running(child))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_targets() -> None:
    environ = {"HOOK": "https://chat.example/T/secret", "SHELL_LINE": "sh -c 'cat > out'"}
    assert parse_target("$HOOK", environ) == WebAddress("https://chat.example/T/secret")
    assert parse_target("$SHELL_LINE", environ) == NotifiedProgram(("sh", "-c", "cat > out"))
    assert parse_target("http://localhost:1/x", {}) == WebAddress("http://localhost:1/x")
    assert WebAddress("https://chat.example/T/secret").shown == "chat.example"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$NONE", "--notify $NONE: the variable is not set"),
        ("http://chat.example/secret", "chat.example would get it over plain http"),
        ("https://", "not a web address"),
        ("https://a b/", "not a web address"),
        ("https://a:99999/", "not a web address"),
        ("no-such-program-here x", "there is no program 'no-such-program-here'"),
        ("'", "expected an address or a command"),
        ("", "expected an address or a command"),
    ],
)
def test_a_wrong_target_is_an_error_that_shows_no_secret(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_target(text, {})
    assert said in error.value.message
    assert "secret" not in str(error.value)


def test_a_wrong_target_ends_the_command_before_anything_is_sent(stage: Stage) -> None:
    done = stage.run("run", "in.jsonl", "--notify", "http://chat.example/x")
    assert (done.returncode, stage.sent(0)) == (2, 0)
    assert KEY not in done.stderr
