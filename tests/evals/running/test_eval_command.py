"""`headway eval` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headway.cli import main
from headway.testing import FakeProvider, fake_provider

CONFIG = """
description: Greetings
prompts: ['Say {{word}}', 'Shout {{word}}']
providers:
  - id: openai:gpt-x
    config: {apiBaseUrl: URL, apiKeyEnvar: P_KEY}
tests:
  - description: greets
    vars: {word: [hello, bye]}
    assert: [{type: contains, value: '{{word}}'}]
  - description: shouts
    vars: {word: loud}
    assert: [{type: contains, value: EXPECTED}]
"""


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class Folder(NamedTuple):
    """A folder with a configuration."""

    root: Path
    provider: FakeProvider
    headway: Callable[..., Done]

    def write(self, text: str = CONFIG, **words: str) -> None:
        text = text.replace("URL", self.provider.openai_url)
        for old, new in {"EXPECTED": "Shout", **words}.items():
            text = text.replace(old, new)
        (self.root / "promptfooconfig.yaml").write_text(text)

    def results(self, name: str = "promptfooconfig.results.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / name).read_text())
        return found

    def sent(self) -> int:
        received: int = self.provider.stats()["total"]["received"]
        return received


@pytest.fixture
def config(folder: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Folder]:
    def call(*args: str) -> Done:
        capfd.readouterr()
        code = main(args)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    with fake_provider(latency="2ms") as provider:
        made = Folder(folder, provider, call)
        made.write()
        yield made


def test_an_eval_needs_its_configuration_and_nothing_else(config: Folder) -> None:
    done = config.headway("eval")
    assert done.code == 5, done.err
    assert "6 units" in done.err
    assert "5 of 6 passed" in done.out
    stats = config.results()["results"]["stats"]
    assert (stats["successes"], stats["failures"], stats["errors"]) == (5, 1, 0)


def test_the_same_command_again_sends_nothing_and_writes_the_reports_again(config: Folder) -> None:
    config.headway("eval", "-q")
    sent = config.sent()
    (config.root / "promptfooconfig.results.json").unlink()
    done = config.headway("eval", "--out", "a.json", "--out", "b.csv", "--out", "c.xml", "--out", "d.md")
    assert done.code == 5, done.err
    assert config.sent() == sent
    assert {path.name for path in config.root.glob("?.*")} == {"a.json", "b.csv", "c.xml", "d.md"}


def test_fewer_than_asked_for_is_exit_code_5(config: Folder) -> None:
    assert config.headway("eval", "-q", "--fail-under", "80%").code == 0
    assert config.headway("eval", "-q", "--fail-under", "0.9").code == 5
    done = config.headway("eval", "--fail-under", "many")
    assert (done.code, "expected a share" in done.err) == (2, True)


def test_a_changed_assertion_costs_no_request(config: Folder) -> None:
    config.headway("eval", "-q")
    sent = config.sent()
    config.write(EXPECTED="loud")
    done = config.headway("eval")
    assert done.code == 0, done.err
    assert config.sent() == sent
    assert "6 of 6 answers are reused" in done.err


def test_filters_run_a_part(config: Folder) -> None:
    done = config.headway("eval", "--filter-pattern", "^shouts")
    assert "1 of 2 passed" in done.out, done.err
    assert config.sent() == 2
    again = config.headway("eval", "--filter-failing", "--filter-providers", "x")
    assert "1 of 2 passed" in again.out
    assert config.sent() == 2
    assert "1 of 4 passed" not in config.headway("eval", "-n", "1", "--filter-providers", "gpt").out
    assert config.sent() == 6
    assert config.headway("eval", "--filter-pattern", "nothing").code == 2


def test_a_variable_and_a_number_of_repetitions_from_the_command_line(config: Folder) -> None:
    done = config.headway("eval", "-n", "1", "--var", "word=hi", "--repeat", "2")
    assert "4 of 4 passed" in done.out, done.err


def test_errors_alone_are_retried_and_stay_until_then(config: Folder) -> None:
    (config.root / "headway.toml").write_text("[run]\nmax_attempts = 1\n")
    with fake_provider(latency="2ms", faults=["500/2"]) as broken:
        text = CONFIG.replace("URL", broken.openai_url)
        config.write(text)
        assert config.headway("eval", "-q", "--concurrency", "1").code == 5
        stats = config.results()["results"]["stats"]
        assert stats["errors"] == 3
        before = broken.stats()["total"]["received"]
        config.headway("eval", "-q", "--retry-errors")
        assert broken.stats()["total"]["received"] == before + 3
        assert config.results()["results"]["stats"]["errors"] in (1, 2)


def test_what_is_not_supported_is_listed(config: Folder) -> None:
    assert config.headway("eval", "--check").code == 0
    config.write(CONFIG.replace("type: contains, value: EXPECTED", "type: moderation"))
    done = config.headway("eval", "--check")
    assert (done.code, "moderation" in done.out) == (2, True), done


def test_a_dry_run_sends_and_writes_nothing(config: Folder) -> None:
    done = config.headway("eval", "--dry-run")
    assert done.code == 0, done.err
    assert config.sent() == 0
    assert {path.name for path in config.root.iterdir()} == {"promptfooconfig.yaml"}


def test_json_has_the_figures(config: Folder) -> None:
    done = config.headway("eval", "--json")
    assert json.loads(done.out)["job"].startswith(f"{config.root.name[:20]}".replace("_", "_")[:5])
    assert done.err == ""


def test_other_commands_know_an_eval(config: Folder) -> None:
    config.headway("eval", "-q")
    [job] = json.loads(config.headway("jobs", "--json").out)
    assert "6" in config.headway("status").out
    shown = config.headway("show", job["job"], "2/0")
    assert "row 2, column 0" in shown.out
    assert "Say loud" in shown.out
    lines = config.headway("export").out.splitlines()
    assert [json.loads(line)["unit"] for line in lines] == ["0/0", "0/1", "1/0", "1/1", "2/0", "2/1"]
    assert config.headway("export", "--out", "x.md").code == 0
    assert config.headway("resume", "-q").code == 0
    assert config.headway("run", "promptfooconfig.yaml").code == 2


def test_an_existing_file_that_is_no_report_is_not_replaced(config: Folder) -> None:
    (config.root / "mine.md").write_text("mine")
    done = config.headway("eval", "--out", "mine.md")
    assert done.code == 2
    assert (config.root / "mine.md").read_text() == "mine"
    assert config.headway("eval", "-q", "--out", "mine.md", "--force").code == 5
