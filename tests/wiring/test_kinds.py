"""A provider kind that is added as a record and a builder runs like the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.wiring.echo_kind import ECHO, EchoBuilder

from headway.cli import main
from headway.config import KINDS, load
from headway.config.kinds import EVAL_KINDS
from headway.errors import ConfigError
from headway.wiring.builders import BUILDERS
from headway.wiring.run_plan import lane_for

ROWS = '{"id": "a", "payload": 1}\n{"id": "b", "payload": {"x": 2}}\n'


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EchoBuilder:
    """The kind "echo", and a directory with two rows for it."""
    builder = EchoBuilder()
    monkeypatch.setitem(KINDS, ECHO.name, ECHO)
    monkeypatch.setitem(BUILDERS, ECHO.builder, builder)
    monkeypatch.chdir(tmp_path)
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG", "HEADWAY_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "in.jsonl").write_text(ROWS)
    configure("word = 'hey'")
    return builder


def configure(table: str) -> None:
    Path("headway.toml").write_text(f"[providers.e]\nkind = 'echo'\n{table}\n")


def results() -> dict[str, Any]:
    lines = map(json.loads, Path("in.results.jsonl").read_text().splitlines())
    return {line["custom_id"]: line["response"]["body"] for line in lines}


def test_units_run_through_an_added_kind(echo: EchoBuilder) -> None:
    assert main(["run", "in.jsonl", "-q", "--cache-all", "--max-cost", "1"]) == 0
    assert results() == {"a": ["hey", 1], "b": ["hey", {"x": 2}]}
    [adapter] = echo.adapters
    assert adapter.events == ["check", "open", "send", "send", "close"]


def test_another_identity_of_the_provider_makes_another_job(echo: EchoBuilder) -> None:
    assert main(["run", "in.jsonl", "-q"]) == 0
    assert main(["run", "in.jsonl", "-q"]) == 0
    assert len(echo.adapters) == 1, "the same job is done"
    configure("word = 'ho'")
    assert main(["run", "in.jsonl", "-q", "--force"]) == 0
    assert results()["a"] == ["ho", 1]


def test_answers_of_a_kind_that_is_not_cacheable_are_not_cached(echo: EchoBuilder) -> None:
    for _ in range(2):
        assert main(["run", "in.jsonl", "-q", "--cache-all", "--fresh", "--force"]) == 0
    assert [adapter.events.count("send") for adapter in echo.adapters] == [2, 2]


def test_the_record_sets_the_limits_of_a_lane(echo: EchoBuilder, tmp_path: Path) -> None:
    config = load(None, tmp_path, {})
    spec, name = lane_for(config, config.providers["e"], "echo", "", b"salt")
    assert (spec.limits.rpm, spec.limits.max_concurrency) == (6000.0, 2)
    assert (spec.own_failures, spec.one_ahead, name) == (True, False, "e/echo")
    assert spec.key.startswith("echo|here|")


@pytest.mark.parametrize(("word", "code", "says"), [("hey", 0, "says hey"), ("mute", 1, "there is no voice")])
def test_doctor_checks_what_the_kind_needs(
    echo: EchoBuilder, capfd: pytest.CaptureFixture[str], word: str, code: int, says: str
) -> None:
    configure(f"word = '{word}'")
    assert main(["doctor", "--json"]) == code
    texts = {check["name"]: check["text"] for check in json.loads(capfd.readouterr().out)["checks"]}
    assert (texts["e voice"], texts["e key"]) == (says, "none is configured")
    assert "e address" not in texts


def test_a_provider_that_cannot_be_used_is_an_error_before_a_job_is_made(
    echo: EchoBuilder, capfd: pytest.CaptureFixture[str]
) -> None:
    configure("word = 'mute'")
    assert main(["run", "in.jsonl", "-q"]) == 2
    assert "there is no voice" in capfd.readouterr().err
    assert echo.adapters == []


@pytest.mark.parametrize(
    ("kind", "line", "says"),
    [
        ("echo", "", "providers.p.word: missing; the word before every answer"),
        ("echo", "word = 1", "providers.p.word: expected a string, not 1"),
        ("echo", "word = 'w'\nbase_url = 'http://h'", "base_url: not for kind echo; it is for servers"),
        ("echo", "word = 'w'\nregion = 'us-east-1'", "region: not for kind echo; it is for servers"),
        ("echo", "word = 'w'\ntarget = 'a:b'", 'target: not for kind echo; it is for kind = "python"'),
        ("openai", "word = 'w'", 'word: not for kind openai; it is for kind = "echo"'),
        ("openai", "region = 'us-east-1'", 'region: only for kind = "bedrock"'),
        ("python", "target = 'a:b'\nword = 'w'", 'word: not for kind python; it is for kind = "echo"'),
    ],
)  # fmt: skip
def test_a_key_of_another_kind_is_refused(
    echo: EchoBuilder, tmp_path: Path, kind: str, line: str, says: str
) -> None:
    Path("headway.toml").write_text(f"[providers.p]\nkind = '{kind}'\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load(None, tmp_path, {})
    assert caught.value.message.endswith(says)


def test_every_kind_has_a_builder() -> None:
    kinds = (*KINDS.values(), *EVAL_KINDS.values())
    assert {kind.builder for kind in kinds} == BUILDERS.keys()
    assert all(kind.is_server == (kind.builder == "http") for kind in KINDS.values())
