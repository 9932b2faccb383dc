"""Where a price comes from: the config, the cache, the list. A run without a cap never loads the list itself."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.config import Config, ProviderConfig, RunConfig
from headway.config.price_list import PriceQuery, look_up
from headway.core.model import Price
from headway.errors import ConfigError
from headway.wiring import model_prices
from headway.wiring.model_prices import (
    must_be_known,
    prices_later,
    prices_of,
    ready_prices,
    required_price,
    unpriced_line,
)

OPENAI = ("openai", "gpt-4o")
LOCAL = ("local", "llama")


def config(root: Path, **openai: Any) -> Config:
    hosted = ProviderConfig("openai", "openai", "https://api.openai.com", "KEY", **openai)
    local = ProviderConfig("local", "openai", "http://127.0.0.1:8900", "KEY")
    return Config(None, root, str(root / "headway.db"), {"openai": hosted, "local": local})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PriceQuery]:
    """Every query to the list in this process."""
    seen: list[PriceQuery] = []

    def noting(questions: list[PriceQuery]) -> list[Price | None]:
        seen.extend(questions)
        return look_up(questions)

    monkeypatch.setattr(model_prices, "look_up", noting)
    return seen


def test_configured_prices_win(tmp_path: Path, asked: list[PriceQuery]) -> None:
    own = config(tmp_path, prices={"gpt-4o": Price(1.0, 2.0), "": Price(3.0)})
    assert prices_of(own, [OPENAI, ("openai", "gpt-5")]) == {
        OPENAI: Price(1.0, 2.0),
        ("openai", "gpt-5"): Price(3.0),
    }
    assert asked == []


def test_a_models_like_wins_over_the_providers_price(tmp_path: Path) -> None:
    own = config(tmp_path, prices={"": Price(3.0)}, likes={"ours": "gpt-4o"})
    found = prices_of(own, [("openai", "ours"), ("openai", "other")])
    assert found["openai", "ours"] == prices_of(config(tmp_path), [OPENAI])[OPENAI]
    assert found["openai", "other"] == Price(3.0)


def test_looked_up_prices_are_cached_for_the_next_start(tmp_path: Path, asked: list[PriceQuery]) -> None:
    first = prices_of(config(tmp_path), [OPENAI, ("openai", "nonsense"), LOCAL])
    assert first[OPENAI] is not None
    assert (first["openai", "nonsense"], first[LOCAL]) == (None, None)
    assert [question.model for question in asked] == ["gpt-4o", "nonsense"], "nothing local is asked for"
    assert prices_of(config(tmp_path), [OPENAI, ("openai", "nonsense"), LOCAL]) == first
    assert len(asked) == 2
    assert ready_prices(config(tmp_path), [OPENAI]) == ({OPENAI: first[OPENAI]}, {})


@pytest.mark.parametrize("change", ["edition", "day", "damage", "nonsense"])
def test_cached_prices_expire_with_another_list_or_another_day(
    tmp_path: Path, asked: list[PriceQuery], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first = prices_of(config(tmp_path), [OPENAI])
    if change == "edition":
        monkeypatch.setattr(model_prices, "edition", lambda: "newer")
    elif change == "day":
        day = model_prices._today()
        monkeypatch.setattr(model_prices, "_today", lambda: day + 1)
    else:
        text = "{" if change == "damage" else '{"prices": 5}'
        (tmp_path / "prices.json").write_text(text)
    assert prices_of(config(tmp_path), [OPENAI]) == first
    assert len(asked) == 2


def test_a_cache_that_cannot_be_written_is_not_an_error(tmp_path: Path, asked: list[PriceQuery]) -> None:
    gone = msgspec.structs.replace(config(tmp_path), db=str(tmp_path / "no" / "such" / "headway.db"))
    assert prices_of(gone, [OPENAI])[OPENAI] is not None
    assert prices_of(gone, [OPENAI])[OPENAI] is not None
    assert len(asked) == 2


def test_a_separate_process_gives_the_same_prices_and_caches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-secret")
    known, questions = ready_prices(config(tmp_path), [OPENAI, LOCAL, ("openai", "nonsense")])
    assert known == {LOCAL: None}
    later = asyncio.run(prices_later(config(tmp_path), questions))
    assert later == prices_of(config(tmp_path / "elsewhere"), [OPENAI, ("openai", "nonsense")])
    assert ready_prices(config(tmp_path), [OPENAI])[1] == {}


def test_the_process_gets_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for Python that records its environment."""
    told = tmp_path / "told"
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nenv > "{told}"\necho "$@" >> "{told}"\ncat >> "{told}"\necho "[]"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert asyncio.run(prices_later(config(tmp_path), {})) == {}
    assert "price_list" in told.read_text()
    assert "sk-secret" not in told.read_text()


@pytest.mark.parametrize("body", ["exit 3", "echo nonsense", "kill -9 $$"])
def test_a_process_without_output_leaves_prices_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str
) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    _, questions = ready_prices(config(tmp_path), [OPENAI])
    assert asyncio.run(prices_later(config(tmp_path), questions)) == {OPENAI: None}
    assert not (tmp_path / "prices.json").exists(), "what went wrong is not kept"


def test_a_process_that_cannot_be_started_leaves_prices_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    _, questions = ready_prices(config(tmp_path), [OPENAI])
    assert asyncio.run(prices_later(config(tmp_path), questions)) == {OPENAI: None}


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\necho $$ > "{pid}"\nexec sleep 1000\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(model_prices, "PATIENCE_S", 2.0)  # Enough for a shell to start and to write its line.
    _, questions = ready_prices(config(tmp_path), [OPENAI])
    assert asyncio.run(prices_later(config(tmp_path), questions)) == {OPENAI: None}
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_which_budget_needs_a_price(tmp_path: Path) -> None:
    assert must_be_known(config(tmp_path), *OPENAI) == ""
    capped = msgspec.structs.replace(config(tmp_path), run=RunConfig(max_cost_usd=1.0))
    assert must_be_known(capped, *LOCAL) == "--max-cost"
    own = config(tmp_path, max_cost_usd=2.0)
    assert must_be_known(own, *OPENAI) == "max_cost in [providers.openai]"
    assert must_be_known(own, *LOCAL) == ""
    own = config(tmp_path, max_costs={"gpt-4o": 2.0})
    assert must_be_known(own, *OPENAI) == 'max_cost in [providers.openai.models."gpt-4o"]'
    assert must_be_known(own, "openai", "gpt-5") == ""


def test_a_budget_without_a_price_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capped = msgspec.structs.replace(config(tmp_path), run=RunConfig(max_cost_usd=1.0))
    assert required_price(capped, *OPENAI).input > 0.0
    with pytest.raises(ConfigError) as caught:
        required_price(capped, *LOCAL)
    assert caught.value.message == "--max-cost: the price of local/llama is not known"
    assert (caught.value.hint or "").startswith(
        'set input and output in [providers.local.models."llama".prices]'
    )
    monkeypatch.setattr(model_prices, "edition", lambda: "")
    with pytest.raises(ConfigError) as caught:
        required_price(capped, *OPENAI)
    assert (caught.value.hint or "").startswith("the price list is missing (")


def test_models_without_a_price_are_named_in_one_line(tmp_path: Path) -> None:
    line = unpriced_line(config(tmp_path), {OPENAI: None, LOCAL: None, ("openai", "x"): Price()})
    assert line.startswith(
        "no price is known for 'openai/gpt-4o': the cost is not counted; set input and output"
    )
    assert '[providers.openai.models."gpt-4o".prices]' in line
    assert unpriced_line(config(tmp_path), {LOCAL: None}) == "", "what runs on this machine is not missed"
    many = {("openai", f"m{n}"): None for n in range(7)}
    assert "'openai/m4' and 2 more:" in unpriced_line(config(tmp_path), many)
