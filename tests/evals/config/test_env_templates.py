"""`{{env.NAME}}`, `$ref` and `<<`: what the file says before anything is understood."""

from __future__ import annotations

from pathlib import Path

from tests.evals.config.written_evals import BASE, PROMPTS, errors, read, written


def test_variables_come_from_the_environment_and_the_files_own_come_first(tmp_path: Path) -> None:
    text = (
        "env: {CITY: Paris, WAY: '{{env.USER_WAY}}'}\nproviders: [echo]\n"
        'prompts: [\'{{env.CITY}} {{ env["NAME"] }} {{env.NONE | default("none")}} {{env.WAY}} {{x}}\']\n'
    )
    spec = read(written(tmp_path, text), {"CITY": "Rome", "NAME": "Ann", "USER_WAY": "left"})
    assert spec.prompts[0].raw == "Paris Ann none left {{x}}"
    assert spec.env == {"CITY": "Paris", "WAY": "left"}


def test_a_variable_that_is_not_set_is_an_error(tmp_path: Path) -> None:
    [found] = errors(written(tmp_path, BASE + "description: '{{env.MISSING}}'\n"))
    assert (
        found
        == "3: the environment variable MISSING is not set — export it, or write {{env.MISSING | default('…')}}"
    )


def test_a_key_is_never_put_into_what_is_stored(tmp_path: Path) -> None:
    environ = {"MY_API_KEY": "sk-secret-of-mine", "SERVICE_TOKEN": "hush-hush"}
    text = (
        BASE
        + "tests: [{vars: {x: '{{env.MY_API_KEY}}'}}]\nenv: {OPENAI_API_KEY: sk-written, GROQ_API_KEY: '{{env.MY_API_KEY}}'}\n"
    )
    found = errors(written(tmp_path, text), environ)
    assert len(found) == 3
    assert "sk-" not in str(found)
    http = "providers:\n  - id: https://example.com/answer\n    config: {headers: {authorization: 'Bearer {{env.SERVICE_TOKEN}}'}, body: {p: '{{prompt}}'}}\n"
    assert "hush-hush" not in str(read(written(tmp_path, PROMPTS + http), environ))


def test_references_repeat_parts_of_the_file(tmp_path: Path) -> None:
    text = BASE + (
        "assertionTemplates:\n  polite: {type: contains, value: please}\n"
        "tests:\n  - assert:\n      - $ref: '#/assertionTemplates/polite'\n      - {$ref: '#/assertionTemplates/polite', weight: 3}\n"
    )
    [test] = read(written(tmp_path, text)).tests
    assert [(one.value, one.weight) for one in test.asserts] == [("please", 1.0), ("please", 3.0)]


def test_a_reference_in_a_schema_belongs_to_the_schema(tmp_path: Path) -> None:
    schema = "{type: object, properties: {a: {$ref: '#/$defs/a'}}, $defs: {a: {type: string}}}"
    text = BASE + f"tests: [{{assert: [{{type: is-json, value: {schema}}}]}}]\n"
    [test] = read(written(tmp_path, text)).tests
    assert test.asserts[0].value["properties"]["a"] == {"$ref": "#/$defs/a"}


def test_references_to_nothing_and_to_themselves_are_errors(tmp_path: Path) -> None:
    text = BASE + (
        "assertionTemplates:\n  a: {$ref: '#/assertionTemplates/b'}\n  b: {$ref: '#/assertionTemplates/a'}\n"
        "tests: [{assert: [{$ref: '#/assertionTemplates/none'}]}]\n"
    )
    found = errors(written(tmp_path, text))
    assert any("'#/assertionTemplates/none' is not in this file" in line for line in found)
    assert any("repeats without end" in line for line in found)


def test_merge_keys_and_anchors(tmp_path: Path) -> None:
    text = (
        PROMPTS
        + "x: &base {temperature: 0, max_tokens: 9}\n".replace("x:", "metadata:")
        + "providers:\n  - id: openai:gpt-x\n    config:\n      <<: *base\n      max_tokens: 5\n"
    )
    [provider] = read(written(tmp_path, text)).providers
    assert provider.options == {"temperature": 0, "max_tokens": 5}
