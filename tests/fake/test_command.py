"""`headway fake` as a user, a script and a test suite start it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from headway.cli import main
from headway.fake.process import fake_process

COMMAND = [sys.executable, "-m", "headway", "fake"]


def post(url: str, key: str = "any") -> int:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    request = Request(f"{url}/v1/chat/completions", body, {"Authorization": f"Bearer {key}"})
    with urlopen(request, timeout=10) as answer:
        answer.read()
        return int(answer.status)


def test_a_process_of_its_own() -> None:
    with fake_process("--rpm", "600", "--key", "ALPHA=sk-alpha") as fake:
        assert post(fake.url) == 200
        assert post(fake.url, "sk-alpha") == 200
        stats = fake.stats(series=True)
        assert stats["accounts"]["ALPHA"]["ok"] == stats["accounts"]["default"]["ok"] == 1
        assert sum(stats["total"]["admitted_per_second"]) == 2
        fake.reset()
        assert fake.stats()["total"]["received"] == 0
    with pytest.raises(OSError, match="refused"):
        post(fake.url)


@pytest.mark.parametrize("fault", ["reset", "reset-body"])
def test_a_reset_is_one_on_its_own_loop_too(fault: str) -> None:
    with fake_process("--fault", fault) as fake:
        with pytest.raises(ConnectionResetError):
            post(fake.url)
        stats = fake.stats()["total"]
    assert (stats["failed"], stats["cancelled"], stats["in_flight"]) == (1, 0, 0)


def test_a_process_that_cannot_start_says_so() -> None:
    with pytest.raises(RuntimeError, match="exit code 2"), fake_process("--fault", "nonsense"):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_ends_when_told_and_sums_up(number: signal.Signals, tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", "--port-file", str(port_file), "--fault", "hang@5m"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    port = int(port_file.read_text())
    assert line == f"listening on http://127.0.0.1:{port} (Ctrl-C stops it)\n"
    assert post(f"http://127.0.0.1:{port}") == 200
    told = time.monotonic()
    process.send_signal(number)
    rest, _ = process.communicate(timeout=10)
    # It gives connections 0.2 s, and Python takes its time to go; the server's own patience would be a minute.
    assert time.monotonic() - told < 5.0
    assert process.returncode == 0
    assert rest.startswith("1 received, 1 admitted, 1 answered, 0 refused, 0 failed, 0 cancelled, 0 repeats")
    assert list(tmp_path.iterdir()) == [port_file]


def test_it_ends_by_itself_and_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake", "--port", "0", "--for", "10ms", "--json"]) == 0
    start, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(start) == {"url", "port", "pid"}
    assert end["total"]["received"] == 0


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake", "--port", "0", "--for", "10ms", "-q"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--fault", "hnag=0.1"], "there is no fault 'hnag'; did you mean 'hang'?"),
        (["--burst", "soon"], "--burst: 'soon' is no duration"),
        (["--for", "ever"], "--for: 'ever' is no duration"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["--headers", "opnai"], "--headers"),
        (["--port", "70000"], "'--port'"),
    ],
)
def test_a_mistake_is_one_line(flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake", *flags]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_the_fake_shares_nothing_with_what_it_judges() -> None:
    code = (
        "import sys, headway.fake.server, headway.fake.process, headway.fake.flags;"
        "print(sorted(m for m in sys.modules if m.startswith('headway.') and not m.startswith('headway.fake')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "['headway.errors']"
