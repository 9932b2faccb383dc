"""Which requests ask the same thing: the same template, schema and parameters, with other contents."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headway.batch.prompt_families import FEW, MOST, Families, alike, traits_of
from headway.stores.records import Family

WORDS = (
    "river",
    "stone",
    "table",
    "garden",
    "silver",
    "window",
    "market",
    "honest",
    "purple",
    "engine",
    "winter",
)


def topic(chance: Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 5)))


def family(template: str, rows: int = 100, seed: int = 1, **settings: Any) -> Family:
    chance, families = Random(seed), Families()
    for number in range(rows):
        text = template.format(topic=topic(chance), number=number)
        body = {
            "model": "m",
            "user": f"u{number}",
            "messages": [*settings.get("before", []), {"role": "user", "content": text}],
        }
        body |= {name: value for name, value in settings.items() if name != "before"}
        most = settings.get("max_tokens", 0)
        families.number(1, traits_of("/v1/chat/completions", body, ("max_tokens",), most, templated=False))
    [found] = families.all()
    return found


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


ESSAY = "Write an essay about {topic}"
YES = "Is {topic} a good thing? Answer yes or no."
FREE = "{topic}"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
GENERIC = [{"role": "system", "content": "You are a helpful assistant."}]
TELLING = [{"role": "system", "content": "Rate how polite the text is. " * 10}]


@pytest.mark.parametrize("rows", [1, 3, FEW, 40, 500])
@pytest.mark.parametrize("template", [ESSAY, YES, "{number}: {topic} in one word", "Translate: {topic}"])
def test_the_same_template_is_one_family_whatever_the_contents(template: str, rows: int) -> None:
    before, now = family(template, 300), family(template, rows, seed=2)
    assert alike(now, before)
    assert alike(before, now)


@pytest.mark.parametrize("rows", [3, 40])
def test_another_template_is_another_family(rows: int) -> None:
    assert not alike(family(YES, rows), family(ESSAY))
    assert not alike(family(ESSAY, rows), family(YES))


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 1.0},
        {"max_tokens": 900},
        {"before": GENERIC},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_other_parameters_are_another_family(changed: dict[str, Any]) -> None:
    assert not alike(family(ESSAY, **changed), family(ESSAY))


def test_labels_and_slightly_different_limits_do_not_change_the_family() -> None:
    assert alike(family(ESSAY, seed=3, max_tokens=300), family(ESSAY, max_tokens=400, metadata={"a": "b"}))


def test_texts_that_share_nothing_are_like_no_others() -> None:
    """Nothing tells free questions from free essays, and "You are a helpful assistant" does not either."""
    assert family(FREE).words == ()
    assert not alike(family(FREE), family(FREE, seed=2))
    assert not alike(family(FREE, before=GENERIC), family(FREE, seed=2, before=GENERIC))


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": json_schema(SCHEMA)},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"generationConfig": {"responseSchema": SCHEMA}},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL, TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tools": [TOOL, TOOL], "tool_choice": {"type": "tool", "name": "f"}},
        {"toolConfig": {"tools": [TOOL], "toolChoice": {"any": {}}}},
    ],
)
def test_a_schema_or_a_forced_tool_makes_free_texts_one_family(form: dict[str, Any]) -> None:
    assert alike(family(FREE, **form), family(FREE, seed=2, **form))
    assert not alike(family(ESSAY, **form), family(YES, **form)), (
        "but other templates are others with it, too"
    )


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "text"}},
        {"response_format": json_schema({"type": "object"})},
        {"text": {"verbosity": "low"}},
        {"text": {"format": {"type": "json_object"}}},
        {"output_config": {"effort": "low"}},
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "auto"},
        {"tools": [TOOL, TOOL], "tool_choice": "required"},
        {"toolConfig": {"tools": [TOOL]}},
        {"generationConfig": {"responseMimeType": "application/json"}},
    ],
)
def test_json_mode_or_free_choice_of_tools_does_not_identify_a_family(form: dict[str, Any]) -> None:
    assert not alike(family(FREE, **form), family(FREE, seed=2, **form))
    assert not alike(family(ESSAY, **form), family(YES, **form))
    assert alike(family(ESSAY, **form), family(ESSAY, seed=2, **form))


RUBRIC = (
    "You are given a text by a pupil of the eighth grade. Read it with care and consider its structure, its vocabulary, "
    "its grammar, the strength of its argument and how well it answers the question that was asked. Do not judge the "
    "opinion itself, only how it is argued. Be fair and consistent between pupils. "
)
GRADE, REPORT = "Return only the grade, one letter.", "Write a detailed essay that reports your judgement."


@pytest.mark.parametrize("form", [{}, {"response_format": json_schema(SCHEMA)}])
@pytest.mark.parametrize("rows", [FEW, 100])
@pytest.mark.parametrize("rubric", [RUBRIC, 12 * RUBRIC, "".join(f"Rule {word}. " for word in WORDS) * 90])
@pytest.mark.parametrize(
    "template",
    ["{rubric} Text: {{topic}}\n{tail}", "{rubric}\n{tail}\nText: {{topic}}", "{tail} {{topic}} {rubric}"],
)
def test_one_other_sentence_in_a_long_prompt_makes_another_family(
    template: str, rubric: str, rows: int, form: dict[str, Any]
) -> None:
    long, short = (template.format(rubric=rubric, tail=tail) for tail in (REPORT, GRADE))
    assert not alike(family(long, rows, **form), family(short, seed=2, **form))
    assert not alike(family(short, rows, **form), family(long, seed=2, **form))
    assert alike(family(long, rows, **form), family(long, seed=2, **form))


def test_words_common_in_contents_are_not_part_of_the_template() -> None:
    """Pairs of words such as "of the" are in most long texts, now in a few more of them and now in a few less."""

    def essay(seed: int) -> Family:
        chance, families = Random(seed), Families()
        for _ in range(200):
            words = [f"the {word}" for word in WORDS if chance.random() < 0.82]
            body = {"messages": [{"role": "user", "content": f"Grade this: {' '.join(words)} End."}]}
            families.number(1, traits_of("/p", body, (), 0.0, templated=False))
        return families.all()[0]

    first = essay(0)
    assert all(alike(first, essay(seed)) for seed in range(1, 12))


def mixed(shares: dict[str, int], seed: int = 1) -> Family:
    chance, families = Random(seed), Families()
    templates = [template for template, rows in shares.items() for _ in range(rows)]
    chance.shuffle(templates)
    for template in templates:
        body = {"messages": [{"role": "user", "content": template.format(topic=topic(chance))}]}
        families.number(1, traits_of("/p", body, (), 0.0, templated=False))
    return families.all()[0]


def test_a_mixture_is_like_neither_of_its_templates() -> None:
    essay = "Please write a long essay about the following topic: {topic}"
    yes = "Answer only with yes or no, is the following phrase about nature: {topic}"
    for seed in range(6):
        both = mixed({essay: 150, yes: 150}, seed)
        assert not alike(both, mixed({essay: 20}))
        assert not alike(both, mixed({yes: 200}))
        assert not alike(both, mixed({essay: 45, yes: 255}, seed + 1))
        assert alike(mixed({essay: 195, yes: 5}, seed), mixed({essay: 200})), "a few odd rows do not matter"


def test_a_long_system_prompt_identifies_a_family() -> None:
    assert alike(family(FREE, before=TELLING), family(FREE, seed=2, before=TELLING))


def test_a_template_that_is_known_needs_no_words() -> None:
    def of_table(template: str, text: str) -> Family:
        families = Families(template)
        body = {"messages": [{"role": "system", "content": text}, {"role": "user", "content": text}]}
        families.number(1, traits_of("/p", body, (), 0.0, templated=True))
        return families.all()[0]

    assert alike(of_table("{{a}}", "one"), of_table("{{a}}", "two words"))
    assert not alike(of_table("{{a}}", "one"), of_table("{{a}}?", "one"))


def test_the_number_of_families_of_a_route_is_limited() -> None:
    families = Families()
    numbers = [
        families.number(1, traits_of("/p", {"temperature": n / 100}, (), 0.0, templated=False))
        for n in range(MOST + 9)
    ]
    assert numbers == [*range(1, MOST + 1), *[0] * 9]
    assert len(families.all()) == MOST


@pytest.mark.parametrize(
    "body",
    [
        {"contents": [{"role": "user", "parts": [{"text": "Say it: one"}]}], "generationConfig": {"maxOutputTokens": 300}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Say it: one"}]}], "system": "x"},
        {"input": "Say it: one"},
        {"messages": [{"role": "user"}, "odd"], "input": None},
    ],
)  # fmt: skip
def test_every_form_of_request_has_a_family(body: dict[str, Any]) -> None:
    traits = traits_of("/p", body, ("maxOutputTokens",), 300, templated=False)
    assert traits.shape
    assert traits.text in ("Say it: one", "")
