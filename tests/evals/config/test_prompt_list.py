"""`prompts`: texts, files, patterns, messages and objects."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from tests.evals.config.written_evals import PROVIDERS, errors, read, written

from headway.evals.spec import PromptSpec


def prompts_of(folder: Path, text: str, **files: str) -> tuple[PromptSpec, ...]:
    return read(written(folder, PROVIDERS + dedent(text), **files)).prompts


def test_a_text_is_its_own_label(tmp_path: Path) -> None:
    [one, other] = prompts_of(tmp_path, "prompts: ['yes/no: {{x}}', \"a.b *c* {{x}}\\nsecond line\"]\n")
    assert (one.raw, one.label, one.form) == ("yes/no: {{x}}", "yes/no: {{x}}", "text")
    assert other.raw == "a.b *c* {{x}}\nsecond line"


def test_without_prompts_the_variable_prompt_is_sent(tmp_path: Path) -> None:
    assert [one.raw for one in prompts_of(tmp_path, "description: none\n")] == ["{{prompt}}"]


def test_a_text_file_has_several_prompts_between_lines_of_dashes(tmp_path: Path) -> None:
    found = prompts_of(tmp_path, "prompts: file://p.txt\n", p__txt="one\n---\n\n  two\nlines\n---\n")
    assert [one.raw for one in found] == ["one", "two\nlines"]
    assert [one.label for one in found] == ["p.txt: one", "p.txt: two\nlines"]


def test_a_file_needs_no_scheme_and_a_pattern_names_several(tmp_path: Path) -> None:
    files = {
        "b__txt": "second",
        "a__md": "# first\n---\nstill first",
        "c__json": '[{"role": "user", "content": "{{x}}"}]',
    }
    found = prompts_of(tmp_path, "prompts: [a.md, 'file://*.txt', file://c.json]\n", **files)
    assert [one.raw for one in found] == [
        "# first\n---\nstill first",
        "second",
        '[{"role":"user","content":"{{x}}"}]',
    ]
    assert [one.form for one in found] == ["text", "text", "chat"]


def test_messages_may_be_yaml_inline_or_json_that_is_complete_only_when_rendered(tmp_path: Path) -> None:
    inline = (
        "prompts:\n  - |-\n    - role: user\n      content: '{{x}}'\n  - file://t.json\n  - file://y.yaml\n"
    )
    found = prompts_of(
        tmp_path,
        inline,
        t__json='[{% for turn in _conversation %}{"role": "user", "content": "{{ turn.input }}"},{% endfor %}]',
        y__yaml="- role: system\n  content: file://system.txt\n",
        system__txt="Be brief.\n",
    )
    assert [one.form for one in found] == ["chat", "chat", "chat"]
    assert found[2].raw == '[{"role":"system","content":"Be brief."}]'


def test_objects_have_labels_parameters_and_texts_around(tmp_path: Path) -> None:
    text = """
    prompts:
      - {label: brief, raw: 'Say {{x}}', config: {maxTokens: 5, prefix: '<', temperature: 0}, suffix: '>'}
      - {id: file://p.txt, label: long}
      - {id: own, raw: plain}
    """
    one, other, third = prompts_of(tmp_path, text, p__txt="from a file")
    assert one == PromptSpec(
        raw="Say {{x}}",
        label="brief",
        config={"max_tokens": 5, "temperature": 0},
        prefix="<",
        suffix=">",
        line=4,
    )
    assert (other.label, other.id, other.raw) == ("long: p.txt: from a file", "", "from a file")
    assert (third.label, third.id) == ("plain", "own")


def test_tables_lines_of_json_and_the_older_mapping(tmp_path: Path) -> None:
    files = {
        "p__csv": 'prompt,label\n"a, b",first\nc,\n',
        "q__jsonl": '[{"role":"user","content":"1"}]\n"two"\n',
    }
    found = prompts_of(tmp_path, "prompts: {p.csv: '', q.jsonl: lines}\n", **files)
    assert [one.raw for one in found] == ["a, b", "c", '[{"role":"user","content":"1"}]', '"two"']
    assert [one.label for one in found][:2] == ["first", "Prompt 2 - c"]
    assert found[3].label == 'lines: "two"'


def test_the_same_text_counts_once(tmp_path: Path) -> None:
    assert len(prompts_of(tmp_path, "prompts: [a, b, a]\n")) == 2


def test_code_services_and_missing_files_are_errors_with_their_lines(tmp_path: Path) -> None:
    text = "prompts:\n  - file://make.py:create\n  - exec:./make.sh\n  - langfuse://x\n  - file://promt.txt\n  - 7\n  - {lable: x, raw: y}\n"
    found = errors(written(tmp_path, PROVIDERS + text, prompt__txt="x"))
    assert [line.partition(":")[0] for line in found] == ["3", "4", "5", "6", "7", "8"]
    assert "makes prompts by code — write its prompts into a file" in found[0]
    assert "did you mean 'prompt.txt'?" in found[3]
    assert "did you mean 'label'?" in found[5]
