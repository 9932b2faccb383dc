"""A server that is unreachable from the start: the lane stops soon, with the address and the next step in one line."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import PATIENCE_S, Stage

from headway.core.lanes import breaker


@pytest.fixture
def dead_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address that refuses connections, with a short time until the lane stops."""
    monkeypatch.setattr(breaker, "UNREACHED_S", 0.5)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_the_lane_stops_with_the_address_the_reason_and_the_next_step(
    stage: Stage, headway: Headway, dead_address: str
) -> None:
    real = stage.fake.url.removeprefix("http://")
    config = stage.root / "headway.toml"
    config.write_text(config.read_text().replace(real, dead_address))
    done = headway("run", "in.jsonl", "--progress", "none")
    assert done.code == 1
    line = next(line for line in done.err.splitlines() if "stopped: transient: no answer in " in line)
    assert f"no connection to {dead_address} (connection refused)" in line
    assert f"base_url is http://{dead_address}/v1 in [providers.alpha] of headway.toml" in line
    assert "'headway doctor'" in line
    assert "alpha/gpt-x: 0 succeeded; no request was answered" in done.err
    rows = [json.loads(row) for row in stage.out.read_text().splitlines()]
    assert {row["error"]["code"] for row in rows} == {"transient"}
    assert f"stopped: transient: no answer in 1 s: no connection to {dead_address}" in headway("lanes").out

    config.write_text(config.read_text().replace(dead_address, real))
    assert headway("resume", "--progress", "none").code == 0
    assert all(json.loads(row)["response"] for row in stage.out.read_text().splitlines())


def test_an_unreachable_provider_costs_nothing_and_is_named_first(
    stage: Stage, headway: Headway, dead_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused connections cost nothing, and no possible cost is reported; the summary begins with the problem."""
    monkeypatch.setenv("DEAD_KEY", "sk-dead-account-0123456789")
    prices = "prices = {input = 1000, output = 1000}"
    stage.configure(
        provider=prices,
        more=f'[providers.dead]\nkind = "openai"\nbase_url = "http://{dead_address}/v1"\napi_key_env = "DEAD_KEY"\n{prices}\n',
    )
    stage.write_input(
        [
            stage.row(index, model=f"{'dead' if index % 2 else 'alpha'}/gpt-x", max_tokens=8)
            for index in range(stage.units)
        ]
    )
    done = headway("run", "in.jsonl", "--max-cost", "0.2", "--progress", "none")
    assert done.code == 1
    report = json.loads(headway("status", "--json").out)
    assert report["succeeded"] == 5
    assert report["unsure"] == {"attempts": 0, "most_usd": 0.0}
    assert report["lanes"]["dead/gpt-x"]["attempts"] > 0
    assert report["lanes"]["dead/gpt-x"]["cost_usd"] == 0.0
    headline, dead, money = done.err.splitlines()[:3]
    assert headline.startswith("stopped: a lane cannot continue")
    assert dead.startswith(
        f"  dead/gpt-x stopped: transient: no answer in 1 s: no connection to {dead_address}"
    )
    assert f"base_url is http://{dead_address}/v1" in dead
    assert "tokens in" in money
    assert "at most" not in money
    assert done.err.splitlines()[-1].endswith("--max-cost 0.2"), "the cap was not the trouble"


def test_an_interrupted_run_and_its_status_name_the_error(
    stage: Stage, headway: Headway, dead_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "UNREACHED_S", 60.0)
    real = stage.fake.url.removeprefix("http://")
    config = stage.root / "headway.toml"
    config.write_text(config.read_text().replace(real, dead_address))
    reason = (
        f"no connection to {dead_address} (connection refused): check that a server runs there, and base_url"
    )
    with stage.process("run", "in.jsonl", "--progress", "plain") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "no new requests" in line)
        assert reason in line, "the part that helps is not cut off"
        for _ in range(2):
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    waits = f"for another attempt after 'transient': {reason}"
    assert waits in err
    assert waits in headway("status").out
