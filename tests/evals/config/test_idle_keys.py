"""A key that would change nothing is an error that names it: nothing is ignored in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evals.config.written_evals import BASE, PROMPTS, errors, read, settings, written

from headway.config import ProviderConfig
from headway.config.toml_file import provider_from
from headway.evals.config.eval_file import check_eval

_ASSERT = "tests: [{{assert: [{}]}}]\n"
_MODEL = "providers: [{{id: 'openai:chat:gpt-x', {}}}]\n"


@pytest.mark.parametrize(
    ("assertion", "key"),
    [
        ("{type: contains, value: a, threshold: 0.9}", "threshold"),
        ("{type: contains, value: a, provider: 'openai:chat:gpt-x'}", "provider"),
        ("{type: similar, value: a, rubricPrompt: 'Judge.'}", "rubricPrompt"),
        ("{type: is-json, config: {strict: true}}", "config"),
        ("{type: latency, threshold: 5, value: 500}", "value"),
        ("{type: assert-set, transform: output, assert: [{type: contains, value: a}]}", "transform"),
        ("{type: assert-set, value: a, assert: [{type: contains, value: a}]}", "value"),
        ("{type: select-best, value: good, weight: 3}", "weight"),
        ("{type: select-best, value: good, metric: best}", "metric"),
    ],
)
def test_a_key_that_an_assertion_does_not_read(assertion: str, key: str, tmp_path: Path) -> None:
    [message] = errors(written(tmp_path, BASE + _ASSERT.format(assertion)))
    assert message.startswith(f"3: tests[0].assert[0].{key}: not supported: it changes nothing for ")


@pytest.mark.parametrize(
    ("provider", "key"),
    [
        ("config: {region: eu}", "config.region"),
        ("config: {apiVersion: '2'}", "config.apiVersion"),
        ("config: {maxRetries: 0}", "config.maxRetries"),
        ("config: {showThinking: true}", "config.showThinking"),
        ("config: {omitDefaults: false}", "config.omitDefaults"),
        ("config: {apiHost: a, baseURL: 'http://127.0.0.1:1'}", "config.apiHost"),
        ("config: {passthrough: {model: other}}", "config.passthrough.model"),
        ("env: {CITY: Oslo}", "env.CITY"),
        ("env: {OPENAI_API_KEY: sk-1}", "env.OPENAI_API_KEY"),
        ("prompts: []", "prompts"),
    ],
)
def test_a_key_that_a_provider_does_not_read(provider: str, key: str, tmp_path: Path) -> None:
    [message] = errors(written(tmp_path, PROMPTS + _MODEL.format(provider)))
    assert message.startswith(f"2: providers[0].{key}: ")


def test_values_that_say_what_is_the_case_are_taken(tmp_path: Path) -> None:
    text = _MODEL.format("config: {showThinking: false, omitDefaults: true}")
    assert read(written(tmp_path, PROMPTS + text + "writeLatestResults: true\n")).providers


def test_programs_without_settings(tmp_path: Path) -> None:
    text = "providers: [{id: echo, config: {temperature: 1}}, {id: 'http://127.0.0.1:1/', config: {method: GET, body: {a: 1}}}]\n"
    assert [message.split(" — ")[0] for message in errors(written(tmp_path, PROMPTS + text))] == [
        "2: providers[0]: echo: config.temperature: it answers with the prompt, and has no settings",
        "2: providers[1]: config.body of an HTTP provider: GET sends none",
    ]


def test_a_table_of_headway_toml_has_its_own_address(tmp_path: Path) -> None:
    table: ProviderConfig = provider_from(
        "alpha", {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "K"}, tmp_path
    )
    text = "providers: [{id: alpha/m, config: {apiBaseUrl: 'http://127.0.0.1:8/v1'}}]\n"
    found = check_eval(
        written(tmp_path, PROMPTS + text), config=settings(tmp_path, alpha=table), environ={}
    ).problems
    assert "has its address, key and region in headway.toml" in found[0].message


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("derivedMetrics: [{name: a, value: b, unit: x}]\n", "3: derivedMetrics[0].unit: unknown key"),
        ("defaultTest: {options: {factuality: {subst: 1}}}\n", "3: defaultTest.options.factuality.subst: unknown key"),
        ("defaultTest: {options: {provider: {text: 'openai:chat:a', embeding: echo}}}\n", "3: defaultTest.options.provider.embeding: unknown key"),
        ("defaultTest: {options: {provider: {id: 'openai:chat:a', transform: output}}}\n", "3: defaultTest.options.provider.transform: not supported"),
        ("writeLatestResults: false\n", "3: writeLatestResults: not supported: every job is kept"),
        ("commandLineOptions: {write: false}\n", "3: commandLineOptions.write: not supported: every job is kept"),
    ],
)  # fmt: skip
def test_keys_elsewhere(text: str, start: str, tmp_path: Path) -> None:
    [message] = errors(written(tmp_path, BASE + text))
    assert message.startswith(start)


def test_a_threshold_in_a_table_counts(tmp_path: Path) -> None:
    rows = "x,__expected\na,bleu(0.3): hello there\nb,contains(0.9): b\n"
    path = written(tmp_path, BASE + "tests: t.csv\n", t__csv=rows)
    assert errors(path) == [
        "3: t.csv:3: __expected[0].threshold: not supported: it changes nothing for 'contains' — leave it out"
    ]
    (tmp_path / "t.csv").write_text(rows.rpartition("b,")[0])
    assert read(path).tests[0].asserts[0].threshold == 0.3


@pytest.mark.parametrize(
    "settings_text",
    ["headers: {x-api-key: abc}", "headers: {Authorization: Bearer abc}", "auth: {type: bearer, token: abc}", "queryParams: {access_token: abc}"],
)  # fmt: skip
def test_a_key_of_an_http_provider_is_never_written_out(settings_text: str, tmp_path: Path) -> None:
    text = f"providers: [{{id: 'http://127.0.0.1:1/', config: {{body: a, {settings_text}}}}}]\n"
    [message] = errors(written(tmp_path, PROMPTS + text))
    assert "a key is never written into this file" in message
    assert "abc" not in message
