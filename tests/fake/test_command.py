"""The command `headway fake`, started by a user, a script or a test."""

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


def test_the_server_runs_in_its_own_process() -> None:
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
def test_a_reset_is_a_reset_with_uvloop_too(fault: str) -> None:
    with fake_process("--fault", fault) as fake:
        with pytest.raises(ConnectionResetError):
            post(fake.url)
        stats = fake.stats()["total"]
    assert (stats["failed"], stats["cancelled"], stats["in_flight"]) == (1, 0, 0)


def test_a_failed_start_is_reported() -> None:
    with pytest.raises(RuntimeError, match="exit code 2"), fake_process("--fault", "nonsense"):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_stops_on_a_signal_and_prints_a_summary(
    number: signal.Signals, tmp_path: Path
) -> None:
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
    stopped_at = time.monotonic()
    process.send_signal(number)
    rest, _ = process.communicate(timeout=10)
    # Connections get 0.2 s, and Python needs some time to exit. aiohttp's default would be a minute.
    assert time.monotonic() - stopped_at < 5.0
    assert process.returncode == 0
    assert rest.startswith("1 received, 1 admitted, 1 answered, 0 refused, 0 failed, 0 cancelled, 0 repeats")
    assert list(tmp_path.iterdir()) == [port_file]


def test_it_stops_by_itself_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake", "--port", "0", "--for", "10ms", "--json"]) == 0
    start, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(start) == {"url", "port", "pid"}
    assert end["total"]["received"] == 0


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake", "--port", "0", "--for", "10ms", "-q"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--fault", "hnag=0.1"], "unknown fault 'hnag'; did you mean 'hang'?"),
        (["--burst", "soon"], "--burst: 'soon' is not a duration"),
        (["--for", "ever"], "--for: 'ever' is not a duration"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["--headers", "opnai"], "--headers"),
        (["--port", "70000"], "'--port'"),
    ],
)
def test_an_error_is_one_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fake", *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_the_fake_imports_nothing_of_what_it_judges() -> None:
    code = (
        "import sys, headway.fake.server, headway.fake.process, headway.fake.flags;"
        "print(sorted(m for m in sys.modules if m.startswith('headway.') and not m.startswith('headway.fake')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "['headway.errors']"
