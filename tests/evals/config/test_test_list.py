"""`tests`, `defaultTest` and `scenarios`: forms, files, merging, variables and options."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from textwrap import dedent

import pytest
from tests.evals.config.written_evals import BASE, errors, read, written

from headway.evals.config.matrix import cells
from headway.evals.spec import Code, TestSpec


def cases_of(folder: Path, text: str, **files: str) -> tuple[TestSpec, ...]:
    return read(written(folder, BASE + dedent(text), **files)).tests


def test_without_tests_there_is_one_without_variables(tmp_path: Path) -> None:
    assert cases_of(tmp_path, "") == (TestSpec(),)


def test_tests_are_in_files_of_every_form(tmp_path: Path) -> None:
    text = "tests: [a.yaml, file://b.json, 'c*.jsonl', d.csv, {vars: {x: inline}}]\n"
    found = cases_of(
        tmp_path,
        text,
        a__yaml="- vars: {x: one}\n- {vars: {x: two}, description: named}\n",
        b__json='{"vars": {"x": "three"}}',
        c1__jsonl='{"vars": {"x": "four"}}\n\n{"vars": {"x": "five"}}\n',
        d__csv="x\nsix\n",
    )
    assert [one.vars["x"] for one in found] == ["one", "two", "three", "four", "five", "six", "inline"]
    assert [one.description for one in found] == ["", "named", "", "", "", "Row #1", ""]


def test_defaults_are_merged_key_by_key(tmp_path: Path) -> None:
    text = """
    defaultTest: file://default.yaml
    tests:
      - {vars: {x: own}, assert: [{type: contains, value: b}], threshold: 0, metadata: {m: 2}, options: {suffix: '!', temperature: 1}}
      - {options: {disableDefaultAsserts: true}}
    """
    default = """
    vars: {x: usual, y: kept}
    assert: [{type: contains, value: a}]
    threshold: 0.5
    metadata: {m: 1, n: 1}
    options: {prefix: '<', suffix: '>', runSerially: true, temperature: 0}
    """
    one, other = cases_of(tmp_path, text, default__yaml=default)
    assert one.vars == {"x": "own", "y": "kept"}
    assert [assertion.value for assertion in one.asserts] == ["a", "b"]
    assert (one.threshold, one.metadata) == (0, {"m": 2, "n": 1})
    assert (one.prefix, one.suffix, one.runs_serially, one.options) == ("<", "!", True, {"temperature": 1})
    assert (other.asserts, other.threshold) == ((), 0.5)


def test_scenarios_combine_sets_of_values_with_tests(tmp_path: Path) -> None:
    text = """
    tests: [{vars: {x: first}}]
    scenarios:
      - config:
          - {vars: {lang: de}, assert: [{type: contains, value: set}]}
          - {vars: {lang: fr}, metadata: {conversationId: mine}}
        tests:
          - {vars: {x: a}, assert: [{type: contains, value: test}]}
          - {vars: {x: b}}
    """
    found = cases_of(tmp_path, text)
    assert [(one.vars.get("lang"), one.vars["x"], one.conversation_id) for one in found] == [
        (None, "first", ""),
        ("de", "a", "__scenario_0__"), ("de", "b", "__scenario_0__"), ("fr", "a", "mine"), ("fr", "b", "mine"),
    ]  # fmt: skip
    assert [one.value for one in found[1].asserts] == ["set", "test"]


def test_variables_are_values_lists_and_files(tmp_path: Path) -> None:
    text = """
    tests:
      - vars: {a: [one, file://t.txt], b: 'file://n*.yaml', c: [1, 2], d: {k: v}, e: [], f: file://j.json, g: file://i.png, h: 3}
      - vars: {a: [one, two]}
        options: {disableVarExpansion: true}
      - vars: file://vars.yaml
      - vars: {x: 'file://value.py:make', y: plain}
    """
    one, flat, whole, code = cases_of(
        tmp_path,
        text,
        t__txt=" a text\n",
        n1__yaml="{k: 1}",
        n2__yaml="[x]",
        j__json='{"a": 1}\n',
        i__png="not really",
        vars__yaml="x: [p, q]\ny: 1\n",
        value__py="def make(name, prompt, vars): return {'output': 'x'}\n",
    )
    assert one.vars == {
        "a": ["one", "a text"], "b": ['{"k":1}', '["x"]'], "c": [[1, 2]], "d": {"k": "v"}, "e": [[]], "f": '{"a": 1}',
        "g": "data:image/png;base64,bm90IHJlYWxseQ==", "h": 3,
    }  # fmt: skip
    assert flat.vars == {"a": [["one", "two"]]}
    assert whole.vars == {"x": ["p", "q"], "y": 1}
    assert code.vars == {"y": "plain"}
    assert code.var_code == {"x": Code("python", (tmp_path / "value.py").resolve(), "make")}


def test_options_are_code_graders_and_parameters(tmp_path: Path) -> None:
    text = """
    defaultTest:
      options:
        provider: {text: openai:grader, embedding: openai:embeddings:e}
        rubricPrompt: [{role: user, content: 'Grade {{output}}'}]
    tests:
      - options: {transform: output.trim(), transformVars: 'file://t.js:f', storeOutputAs: s, repeat: 2, maxTokens: 5, response_format: file://r.json}
        assert: [{type: similar, value: v}, {type: llm-rubric, value: r, provider: "openai:chat:gpt-x"}, {type: factuality, value: f}]
      - options: {provider: {embedding: 'openai:embeddings:other'}, factuality: {subset: 0.5}}
        assert: [{type: assert-set, assert: [{type: similar, value: v}, {type: factuality, value: f}]}]
    """
    spec = read(written(tmp_path, BASE + dedent(text), t__js="", r__json='{"type": "json_object"}'))
    one, other = spec.tests
    assert spec.grader is not None
    assert spec.embedder is not None
    assert (spec.grader.model, spec.embedder.model, spec.embedder.endpoint) == ("grader", "e", "embeddings")
    assert one.transform == Code("javascript", source="output.trim()")
    assert one.transform_vars == Code("javascript", (tmp_path / "t.js").resolve(), "f")
    assert (one.store_output_as, one.repeat) == ("s", 2)
    assert one.options == {"max_tokens": 5, "response_format": {"type": "json_object"}}
    assert one.rubric_prompt == '[{"role":"user","content":"Grade {{output}}"}]'
    assert [None if part.grader is None else part.grader.model for part in one.asserts] == [
        None,
        "gpt-x",
        None,
    ]
    assert [part.rubric_prompt == one.rubric_prompt for part in one.asserts] == [False, True, True]
    assert one.asserts[1].grader == spec.providers[0]
    similar, factuality = other.asserts[0].children
    assert similar.grader is not None
    assert similar.grader.model == "other"
    assert factuality.config == {"factuality": {"subset": 0.5}}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{vras: {x: 1}}", "tests[0].vras: unknown key — did you mean 'vars'?"),
        ("{provider: echo}", "tests[0].provider: not supported: a test has no provider of its own"),
        ("{assertScoringFunction: 'file://x.js'}", "not supported: scores are not joined by code"),
        ("{vars: {x: 'file://none.txt'}}", "tests[0].vars.x: there is no file 'none.txt'"),
        ("{vars: {x: 'file://*.none'}}", "no file matches '*.none'"),
        ("{threshold: high}", "expected a number, not 'high'"),
        ("{options: {temprature: 1}}", "did you mean 'temperature'?"),
        ("{options: {transform: 'file://t.ts'}}", "TypeScript is not run"),
        ("{assert: [{type: contians, value: x}]}", "there is no assertion 'contians' — did you mean 'contains'?"),
        ("{assert: [{type: webhook, value: x}]}", "not supported: there is no such check — use python"),
        ("{assert: [{type: contains}]}", "needs a 'value'"),
        ("{assert: [{type: latency}]}", "needs a 'threshold'"),
        ("{assert: [{value: x}]}", "tests[0].assert[0]: 'type' is missing"),
        ("{assert: [{type: not-select-best, value: x}]}", "select-best cannot be negated"),
        ("{assert: [{type: assert-set}]}", "has no assertions under 'assert'"),
        ("{assert: [{type: python, value: 'file://none.py'}]}", "there is no file 'none.py'"),
        ("{providers: [nobody]}", "a test names the provider 'nobody', which does not exist"),
        ("{prompts: []}", "an empty list: nothing would run"),
        ("make.py", "not supported: tests are not made by code"),
        ("'https://docs.google.com/spreadsheets/d/x'", "not supported: tests are not fetched from https://"),
        ("cases.xlsx", "not supported: Excel files are not read"),
        ("7", "expected a test or the name of a file with tests, not 7"),
    ],
)  # fmt: skip
def test_errors_name_the_key_and_the_line(entry: str, message: str, tmp_path: Path) -> None:
    [found] = errors(written(tmp_path, BASE + f"tests:\n  - {entry}\n"))
    assert message in found
    assert found.startswith("4:")


def test_an_error_in_another_file_names_both_lines(tmp_path: Path) -> None:
    path = written(tmp_path, BASE + "tests: cases.yaml\n", cases__yaml="- vars: {x: 1}\n- vras: {x: 1}\n")
    [found] = errors(path)
    assert found == "3: cases.yaml:2: tests[1].vras: unknown key — did you mean 'vars'?"


def test_tables(tmp_path: Path) -> None:
    table = (
        "\ufeffq,__expected,__expected2,__config:__expected2:threshold,__metric,__description,__threshold,"
        "__metadata:kind,__metadata:tags[],__prefix\n"
        'one,"contains-any: a, ""b, c""",similar(0.7): text,0.9,m,named,0.5,k,"x, y\\, z",<\n'
        "two,Paris,,,,,,,,\n"
        '"three\nlines",not-icontains:Q,is-json,,,,,,,\n'
        "\n"
        "four,python: len(output) < 9,llm-rubric: is polite,,,,,,,\n"
    )
    one, two, three, four = cases_of(tmp_path, "tests: file://t.csv\n", t__csv=table)
    assert (one.vars, one.description, one.threshold, one.prefix) == ({"q": "one"}, "named", 0.5, "<")
    assert one.metadata == {"kind": "k", "tags": ["x", "y, z"]}
    assert [(part.type, part.value, part.threshold, part.metric) for part in one.asserts] == [
        ("contains-any", ["a", "b, c"], None, "m"), ("similar", "text", 0.9, "m"),
    ]  # fmt: skip
    assert [(part.type, part.value) for part in two.asserts] == [("equals", "Paris")]
    assert (two.description, three.vars) == ("Row #2", {"q": "three\nlines"})
    assert [(part.name, part.value) for part in three.asserts] == [("not-icontains", "Q"), ("is-json", None)]
    assert four.asserts[0].code == Code("python", source="len(output) < 9")
    assert (four.asserts[1].type, four.asserts[1].value) == ("llm-rubric", " is polite")


def test_errors_of_tables(tmp_path: Path) -> None:
    table = "q,__expcted,__threshold\na,b,high\nc,d\n"
    found = errors(written(tmp_path, BASE + "tests: t.csv\n", t__csv=table))
    assert [line.partition(" ")[2].partition(":")[0] for line in found] == ["t.csv"] * 3
    assert "did you mean '__expected'?" in str(found)
    assert "t.csv:2: __threshold: expected a number, not 'high'" in str(found)
    assert "t.csv:3: expected 3 cells, not 2" in str(found)


def test_a_cell_may_be_a_long_document(tmp_path: Path) -> None:
    [one] = cases_of(tmp_path, "tests: t.csv\n", t__csv="q\n" + "long " * 100_000 + "\n")
    assert len(one.vars["q"]) == 500_000


def test_10000_rows_are_read_in_two_seconds(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "lang", "__expected", "__expected2", "__metadata:kind"])
        rows.writerows(
            [f"question {n}", "de", f"contains: answer {n}", "similar(0.8): yes", "k"] for n in range(10_000)
        )
    path = written(tmp_path, BASE + "tests: t.csv\ndefaultTest: {assert: [{type: latency, threshold: 9}]}\n")
    started = time.process_time()
    spec = read(path)
    assert time.process_time() - started < 2.0
    assert sum(1 for _ in cells(spec)) == 10_000
