"""Templates: they print what Nunjucks prints, they end, and nothing of Python is reachable."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.templates import (
    TemplateProblem,
    names_in,
    render,
    render_prompt,
    render_rubric,
    render_value,
)

#: What Nunjucks 3 prints for these templates and values, recorded by running it.
RECORDED = json.loads(Path(__file__).with_name("nunjucks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fact", RECORDED["rendered"], ids=lambda fact: fact["template"][:40])
def test_a_template_prints_what_nunjucks_prints(fact: dict[str, str]) -> None:
    assert render(fact["template"], RECORDED["values"]) == fact["text"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ env.NAME }}", "from the environment"),
        ("line\r\n{{ n }}\r\n", "line\r\n1\r\n"),
        ("{% for x in [1, 2] %}\r\n{{ x }}{% endfor %}", "\r\n1\r\n2"),
        ("{% if\r\nn %}yes{% endif %}", "yes"),
        ("no template {", "no template {"),
        ("{{ missing.of.nothing }}", ""),
        ("{{ none | upper }}{{ missing | trim }}", ""),
    ],
)
def test_texts_around_templates_stay(template: str, text: str) -> None:
    assert render(template, {"n": 1, "env": {"NAME": "from the environment"}}) == text


ENDLESS = [
    "{% for a in range(1000000000) %}x{% endfor %}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "{{ 'x' | center(1000000000) }}",
    "{{ 'a\nb' | indent(1000000000) }}",
    "{{ [1] | batch(1000000000, 'x') }}",
    "{{ ('x' | center(100000)) | replace('', 'x' | center(100000)) }}",
    "{{ ('x' | center(100000)).split('').join('y' | center(100000)) }}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a + a %}" * 60 + "{{ a }}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 60 + "{{ a }}",
    "{% set a = [1, 1, 1, 1, 1, 1, 1, 1] %}"
    + "{% set a = [a, a, a, a, a, a, a, a] %}" * 20
    + "{{ a | dump }}",
    "{% set a = [1] %}" + "{% set a = a.concat(a) %}" * 60 + "{{ a | length }}",
]


@pytest.mark.parametrize("template", ENDLESS, ids=lambda template: template[:40])
def test_a_template_that_takes_too_long_is_stopped(template: str) -> None:
    with pytest.raises(TemplateProblem, match="too long or prints too much"):
        render(template, {})


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ ''.__class__.__mro__() }}", "calls what is no function"),
        ("{{ cycler.__init__.__globals__.os.popen('id') }}", "calls what is no function"),
        ("{{ 'a'.format(1) }}", "calls what is no function"),
        ("{{ [].append(1) }}", "calls what is no function"),
        ("{{ render('x') }}", "calls what is no function"),
        ("{% include 'x' %}", "'include' is not supported"),
        ("{% macro x() %}{{ x() }}{% endmacro %}", "'macro' is not supported"),
        ("{{ x | nope }}", "no filter 'nope'"),
        ("{{ x is nope }}", "no test 'nope'"),
        ("{{ x | attr('y') }}", "no filter 'attr'"),
        ("a\nb {{ x", "line 2"),
        ("{{ " + "(" * 9999 + " }}", "nested too deeply"),
        ("{{ 'x' | replace() }}", "arguments that it does not take"),
        ("{{ 'x' | load }}", "not JSON"),
        ("{{ range('x') }}", "one to three integers"),
    ],
)
def test_what_is_not_allowed_is_named(template: str, problem: str) -> None:
    with pytest.raises(TemplateProblem, match=problem):
        render(template, {"x": "1"})


@pytest.mark.parametrize("name", ["__class__", "__dict__", "format", "append", "keys", "mro"])
def test_attributes_of_python_are_undefined(name: str) -> None:
    values: dict[str, Any] = {"text": "t", "list": [1], "object": {"a": 1}, "number": 1}
    for value in values:
        assert render(f"{{{{ {value}.{name} }}}}", values) == ""
        assert render(f"{{{{ {value}['{name}'] }}}}", values) == ""


PIECES = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", " for ", " in ", "x", "xs", "if ", "endif", "endfor", "set ", "=", "|", "dump", "join", "(", ")",
     "[", "]", ".", "'", "1", "+", "*", "~", "is ", "odd", "range(9)", "\n", "é", "raw", "endraw", "not ", ",", "-", "__class__"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
def test_every_text_is_rendered_or_refused(template: str) -> None:
    with contextlib.suppress(TemplateProblem):
        render(template, {"x": "a", "xs": ["a", {"b": None}]})


@given(st.text(), st.text())
def test_values_are_never_templates_of_a_single_rendering(before: str, value: str) -> None:
    if not any(mark in before for mark in ("{{", "{%", "{#")) and not before.endswith("{"):
        assert render(before + "{{ value }}", {"value": value}) == before + value


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text(), min_size=2))
def test_a_chat_in_json_stays_json(values: dict[str, str]) -> None:
    chat = '[{"role": "system", "content": "{{a}}"}, {"role": "user", "content": "<{{ b }}>"}]'
    with contextlib.suppress(TemplateProblem):
        messages = json.loads(render_prompt(chat, values))
        assert [message["role"] for message in messages] == ["system", "user"]


@pytest.mark.parametrize(
    ("raw", "values", "text"),
    [
        ("Q: {{a}}", {"a": "one\n"}, "Q: one"),
        ("Q: {{a}}", {"a": "say {{b}}", "b": "hi"}, "Q: say hi"),
        ("Q: {{a}}", {"a": "{{b}}", "b": "{{c}}", "c": "deep"}, "Q: deep"),
        ("Q: {{a}}", {"a": "{{ b | upper }}", "b": "hi"}, "Q: HI"),
        ("Q: {{a}}", {"a": "{{ unknown | upper }}"}, "Q: {{ unknown | upper }}"),
        ("Q: {{a}} {{ open", {"a": "x"}, "Q: {{a}} {{ open"),
        ("Q: {{a}}", {"a": "\\frac{{x"}, "Q: \\frac{{x"),
        ('["{{a}}"]', {"a": 'with "quotes"\nand lines'}, '[\n  "with \\"quotes\\"\\nand lines"\n]'),
        ('{"n": 1.0, "t": "{{ n }}"}', {"n": 2}, '{\n  "n": 1,\n  "t": "2"\n}'),
        ('["{{ a "]', {"a": "x"}, '["{{ a "]'),
    ],
)
def test_prompts_are_filled_as_promptfoo_does(raw: str, values: dict[str, Any], text: str) -> None:
    assert render_prompt(raw, values) == text


def test_variables_that_name_each_other_end() -> None:
    text = render_prompt("{{a}}", {"a": "x{{b}}", "b": "y{{a}}"})
    assert len(text) < 1000


def test_objects_in_a_rubric_are_json() -> None:
    values = {"output": {"n": 1.0, "ok": True}, "rubric": ["short", {"max": 3}]}
    assert render_rubric("{{output}} / {{rubric}}", values) == '{"n":1,"ok":true} / short,{"max":3}'
    assert json.loads(render_rubric('[{"role": "user", "content": "{{output}}"}]', values)) == [
        {"role": "user", "content": '{"n":1,"ok":true}'}
    ]


def test_values_are_rendered_deeply() -> None:
    value = {"a": ["{{ n }}", 2, {"b": "{{ n + 1 }}"}], "{{ n }}": None}
    assert render_value(value, {"n": 1}) == {"a": ["1", 2, {"b": "2"}], "{{ n }}": None}


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    for rendering in (lambda: render("{{ v }}", {"v": value}), lambda: render_value(value, {})):
        with pytest.raises(TemplateProblem, match="nested"):
            rendering()


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("plain", set()),
        ("{{ a.b }} {% for x in xs %}{{ x }}{{ loop.index }}{{ y }}{% endfor %}", {"a", "xs", "y"}),
        ("{% set a = 1 %}{{ a }}{{ _conversation[0].output }}", {"_conversation"}),
        ("{{ a | dump }}{% if b is undefined %}{{ c | nl2br | upper }}{% endif %}", {"a", "b", "c"}),
    ],
)
def test_the_names_that_a_template_reads(template: str, names: set[str]) -> None:
    assert names_in(template) == names
