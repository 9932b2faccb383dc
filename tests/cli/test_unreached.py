"""A server that was never there: the lane stops soon, with one line that names the address and the next step."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.core.lanes import breaker


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address that refuses connections, and little patience with it."""
    monkeypatch.setattr(breaker, "UNREACHED_S", 0.5)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_it_stops_with_the_address_the_reason_and_the_next_step(
    stage: Stage, headway: Headway, nobody: str
) -> None:
    real = stage.fake.url.removeprefix("http://")
    config = stage.root / "headway.toml"
    config.write_text(config.read_text().replace(real, nobody))
    done = headway("run", "in.jsonl", "--progress", "none")
    assert done.code == 1
    line = next(line for line in done.err.splitlines() if "stopped: transient: no answer in " in line)
    assert f"no connection to {nobody} (connection refused)" in line
    assert f"base_url is http://{nobody}/v1 in [providers.alpha] of headway.toml" in line
    assert "'headway doctor'" in line
    assert "alpha/gpt-x: 0 succeeded; no request was answered" in done.err
    rows = [json.loads(row) for row in stage.out.read_text().splitlines()]
    assert {row["error"]["code"] for row in rows} == {"transient"}
    assert f"stopped: transient: no answer in 1 s: no connection to {nobody}" in headway("lanes").out

    config.write_text(config.read_text().replace(nobody, real))
    assert headway("resume", "--progress", "none").code == 0
    assert all(json.loads(row)["response"] for row in stage.out.read_text().splitlines())


def test_a_dead_provider_costs_nothing_and_is_named_first(
    stage: Stage, headway: Headway, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its refused connections are no cost, not even a possible one; the summary begins with what is wrong."""
    monkeypatch.setenv("DEAD_KEY", "sk-dead-account-0123456789")
    prices = "prices = {input = 1000, output = 1000}"
    stage.configure(
        provider=prices,
        more=f'[providers.dead]\nkind = "openai"\nbase_url = "http://{nobody}/v1"\napi_key_env = "DEAD_KEY"\n{prices}\n',
    )
    stage.write_input(
        [
            stage.row(index, model=f"{'dead' if index % 2 else 'alpha'}/gpt-x", max_tokens=8)
            for index in range(stage.units)
        ]
    )
    done = headway("run", "in.jsonl", "--max-cost", "0.2", "--progress", "none")
    assert done.code == 1
    told = json.loads(headway("status", "--json").out)
    assert told["succeeded"] == 5
    assert told["unsure"] == {"attempts": 0, "most_usd": 0.0}
    assert told["lanes"]["dead/gpt-x"]["attempts"] > 0
    assert told["lanes"]["dead/gpt-x"]["cost_usd"] == 0.0
    headline, dead, money = done.err.splitlines()[:3]
    assert headline.startswith("stopped: a lane cannot continue")
    assert dead.startswith(f"  dead/gpt-x stopped: transient: no answer in 1 s: no connection to {nobody}")
    assert f"base_url is http://{nobody}/v1" in dead
    assert "tokens in" in money
    assert "at most" not in money
    assert done.err.splitlines()[-1].endswith("--max-cost 0.2"), "the cap was not the trouble"
