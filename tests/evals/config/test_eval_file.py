"""The whole file: all errors at once, options of the run, what is not supported, and the page of keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.evals.config.written_evals import BASE, PROVIDERS, checked, errors, read, written

from headway.evals.config.eval_file import unsupported

ROOT = Path(__file__).parents[3]


def test_options_of_the_run(tmp_path: Path) -> None:
    text = BASE + (
        "description: compares\ntags: {env: ci, n: 1}\noutputPath: out.json\nsharing: false\n"
        "evaluateOptions: {maxConcurrency: 4, delay: 500, repeat: 3, cache: false, timeoutMs: 1500, maxEvalTimeMs: 60000, showProgressBar: true}\n"
        "commandLineOptions: {repeat: 2, promptPrefix: '>', grader: 'openai:g', verbose: true}\n"
        "derivedMetrics: [{name: f1, value: '2 * p / q'}]\nmetadata: {team: a}\n"
    )
    spec = read(written(tmp_path, text))
    assert (spec.description, spec.tags, spec.outputs) == ("compares", {"env": "ci", "n": "1"}, ("out.json",))
    assert (spec.max_concurrency, spec.delay_s, spec.repeat, spec.cached) == (4, 0.5, 2, False)
    assert (spec.timeout_s, spec.max_duration_s) == (1.5, 60.0)
    assert spec.derived_metrics == {"f1": "2 * p / q"}
    assert spec.tests[0].metadata == {"team": "a"}
    assert spec.tests[0].prefix == ">"
    assert spec.grader is not None
    assert spec.grader.model == "g"


def test_a_derived_metric_is_an_expression(tmp_path: Path) -> None:
    [found] = errors(written(tmp_path, BASE + "derivedMetrics: [{name: f1, value: '2 * ('}]\n"))
    assert found.startswith("3: derivedMetrics[0].value: ")


def test_json_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    path.write_text('{\n\t"prompts": ["a"],\n\t"providers": ["echo"]\n}')
    assert [one.raw for one in read(path).prompts] == ["a"]


def test_all_errors_come_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = "prompts: [file://none.txt]\nproviders: [vertex:x]\ntest: []\nevaluateOptions: {repeat: 0}\nredteam: {purpose: x}\n"
    found = errors(written(tmp_path, text))
    assert [line.partition(":")[0] for line in found] == ["1", "2", "3", "4", "5"]
    assert "did you mean 'tests'?" in found[2]


def test_what_is_not_supported_is_listed(tmp_path: Path) -> None:
    text = (
        BASE
        + "extensions: [file://hook.py:run]\nnunjucksFilters: {}\ntests: [{assert: [{type: is-html}]}, {vras: 1}]\n"
    )
    found = unsupported(written(tmp_path, text))
    assert [(one.line, one.key) for one in found] == [
        (3, "extensions"),
        (5, "tests[0].assert[0].type: is-html"),
    ]
    assert all(one.why for one in found)


def test_a_configuration_is_kept_without_what_may_be_a_key(tmp_path: Path) -> None:
    text = BASE + "metadata: {apiToken: abc, kind: k}\n"
    assert read(written(tmp_path, text)).config["metadata"] == {"apiToken": "(removed)", "kind": "k"}


def test_escapes_in_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    [found] = errors(written(tmp_path, BASE + '"te\\e[31msts": []\n'))
    assert "\x1b" not in found


def test_files_that_name_each_other_end(tmp_path: Path) -> None:
    files = {"a__yaml": "- file://b.yaml\n", "b__yaml": "- file://a.yaml\n"}
    found = errors(written(tmp_path, BASE + "tests: a.yaml\n", **files))
    assert "files name each other more than" in found[0]


def test_no_yaml_no_mapping_and_no_file(tmp_path: Path) -> None:
    assert "not YAML" in errors(written(tmp_path, "a: [\n"))[0]
    assert "expected a mapping with prompts" in errors(written(tmp_path, "- a\n"))[0]
    assert "no such file" in errors(tmp_path / "none.yaml")[0]
    assert checked(written(tmp_path, PROVIDERS + "prompts: []\n")).spec is None


def test_the_page_of_keys_is_current() -> None:
    done = subprocess.run([sys.executable, "tools/draw_eval_keys.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_lists_that_multiply_without_end_are_an_error(tmp_path: Path) -> None:
    letters = ", ".join("abcdefghij" * 10)
    names = ", ".join(f"{name}: [{letters}]" for name in "uvwxyz")
    [found] = errors(written(tmp_path, BASE + f"tests: [{{vars: {{{names}}}}}]\n"))
    assert found.startswith("the eval has 1,000,000,000,000 cells; at most 10,000,000 are run")
