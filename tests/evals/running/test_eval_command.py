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


def test_a_check_lists_everything_that_a_run_would_refuse(config: Folder) -> None:
    config.write(CONFIG.replace("prompts:", "prompt:").replace("type: contains,", "type: contians,"))
    done = config.headway("eval", "--check")
    assert done.code == 2
    assert "did you mean 'prompts'?" in done.out
    assert "did you mean 'contains'?" in done.out
    assert "supported" not in done.out
    assert len(json.loads(config.headway("eval", "--check", "--json").out)["problems"]) == 3


def test_a_check_knows_the_providers_of_headway_toml(config: Folder) -> None:
    table = f'[providers.alpha]\nkind = "openai"\nbase_url = "{config.provider.openai_url}"\nmodel = "m"\n'
    (config.root / "headway.toml").write_text(table)
    config.write("prompts: [hi]\nproviders: [alpha]\n")
    assert config.headway("eval", "--check").code == 0
    assert "there is no file none.yaml" in config.headway("eval", "--check", "none.yaml").err


@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_an_eval_is_run_by_its_own_command(command: str, config: Folder) -> None:
    done = config.headway(command, "promptfooconfig.yaml")
    assert done.code == 2
    assert "run it with 'headway eval promptfooconfig.yaml'" in done.out + done.err


def test_a_check_lists_all_errors_and_knows_the_settings(config: Folder) -> None:
    config.write(
        CONFIG.replace("type: contains, value: EXPECTED", "type: contains, value: '{{x | none}}', foo: 1")
    )
    done = config.headway("eval", "--check")
    assert done.code == 2
    assert "unknown key" in done.out
    assert "there is no filter 'none'" in done.out
    before = config.sent()
    assert config.headway("eval").code == 2
    assert config.sent() == before


def test_a_dry_run_sends_and_writes_nothing(config: Folder) -> None:
    done = config.headway("eval", "--dry-run")
    assert done.code == 0, done.err
    assert config.sent() == 0
    assert {path.name for path in config.root.iterdir()} == {"promptfooconfig.yaml"}


def test_the_plan_of_an_eval_counts_units_and_asks_for_no_price_of_code(config: Folder) -> None:
    config.write(
        CONFIG.replace("{type: contains, value: EXPECTED}", "{type: python, value: 'len(output) > 1'}")
    )
    done = config.headway("eval", "--dry-run")
    assert done.code == 0, done.err
    assert "promptfooconfig.yaml: 8 units (dry run" in done.out
    assert "2 units wait for answers of other units" in done.out
    assert "calls without tokens are not in these figures: 2 of code:python" in done.out
    assert 'models."python"' not in done.out
    assert "row" not in done.out
    config.write("prompts: [hi]\nproviders: [echo]\n")
    done = config.headway("eval", "--dry-run")
    assert "promptfooconfig.yaml: 1 unit (dry run" in done.out
    assert "price" not in done.out


def test_a_missing_price_is_set_in_the_file_of_the_eval(config: Folder) -> None:
    assert "set inputCost and outputCost" in config.headway("eval", "--max-cost", "1").err
    assert "set inputCost and outputCost" in config.headway("eval", "--dry-run").out
    config.write(CONFIG.replace("type: contains, value: EXPECTED", "type: cost, threshold: 1"))
    assert "set inputCost and outputCost" in config.headway("eval", "--var", "n=1").out
    priced = CONFIG.replace("P_KEY", "P_KEY, inputCost: 0.00001, outputCost: 0.00002")
    config.write(priced, EXPECTED="loud")
    assert config.headway("eval", "--max-cost", "1", "--fresh").code == 0


def test_json_has_the_figures(config: Folder) -> None:
    done = config.headway("eval", "--json")
    assert json.loads(done.out)["job"].startswith(f"{config.root.name[:20]}".replace("_", "_")[:5])
    assert done.err == ""


def test_other_commands_know_an_eval(config: Folder) -> None:
    config.headway("eval", "-q")
    [job] = json.loads(config.headway("jobs", "--json").out)
    assert "6" in config.headway("status").out
    shown = config.headway("show", job["job"], "2/0")
    assert "row 3, column 1" in shown.out
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


def test_a_key_that_is_set_later_continues_the_same_job(
    config: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config.write(CONFIG.replace(", apiKeyEnvar: P_KEY", ""))
    assert "OPENAI_API_KEY is not set" in config.headway("eval").err
    monkeypatch.setenv("OPENAI_API_KEY", "sk-set-later")
    assert config.headway("resume").code == 0
    assert config.headway("eval").code == 5  # "Say loud" has no "Shout".
    assert config.provider.stats()["total"]["ok"] == 6
    assert config.headway("jobs", "--json").out.count('"job"') == 1


def test_a_table_that_is_written_later_does_not_redirect_a_job(config: Folder) -> None:
    config.write(EXPECTED="loud")
    assert config.headway("eval", "--filter-first-n", "1", "--name", "first", "-q").code == 0
    table = '[providers.openai]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "P_KEY"\n'
    (config.root / "headway.toml").write_text(table)
    assert config.headway("retry", "first", "0/0").code == 0
    assert config.sent() == 5


def test_no_run_of_a_job_replaces_a_file_of_the_user(config: Folder) -> None:
    config.headway("eval", "-q")
    own = config.root / "own.json"
    for flags in (("--out", "own.json"), ("--out", "r.csv", "--out", "own.json")):
        own.write_text("mine")
        assert config.headway("eval", "-q", *flags).code == 2, "the job is complete"
        assert own.read_text() == "mine"
    assert config.headway("eval", "-q", "--out", "own.json", "--force").code == 5
    assert config.headway("eval", "-q", "--out", "own.json").code == 5, "now it is a report"
    config.write(EXPECTED="loud")
    assert config.headway("eval", "-q", "--out", "own.json").code in (0, 5), "of any eval"


def test_another_address_is_asked_and_another_limit_is_not(config: Folder) -> None:
    config.headway("eval", "-q")
    with fake_provider(latency="2ms") as other:
        address = (config.root / "promptfooconfig.yaml").read_text()
        (config.root / "promptfooconfig.yaml").write_text(
            address.replace(config.provider.openai_url, other.openai_url)
        )
        config.headway("eval", "-q")
        assert other.stats()["total"]["received"] == 6
    before = config.sent()
    limited = CONFIG.replace("apiKeyEnvar: P_KEY", "apiKeyEnvar: P_KEY, rateLimit: {rpm: 900}")
    config.write(limited)
    config.headway("eval", "-q")
    assert config.sent() == before


def test_a_job_continues_with_the_limits_that_the_file_has_today(config: Folder) -> None:
    limits = "apiKeyEnvar: P_KEY, rateLimit: {{maxConcurrent: {}}}"
    config.write(CONFIG.replace("apiKeyEnvar: P_KEY", limits.format(1)))
    config.headway("eval", "-q", "--max-duration", "0.01s", "--repeat", "5")
    assert config.provider.stats()["total"]["peak_in_flight"] <= 1
    config.write(CONFIG.replace("apiKeyEnvar: P_KEY", limits.format(2)))
    config.headway("eval", "-q", "--repeat", "5")
    assert config.provider.stats()["total"]["peak_in_flight"] == 2
