"""What `headway validate` finds outside the file: tools that cannot run, rows without a column, args that are not filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli import main
from headway.errors import InputError
from headway.flows.flow_file import check_flow, load_flow

FlowFile = Callable[[str], Path]


def errors(path: Path) -> str:
    return "\n".join(one.text("flow.yaml") for one in check_flow(path).problems)


def test_tools_that_cannot_run(flow_file: FlowFile, capsys: pytest.CaptureFixture[str]) -> None:
    path = flow_file(
        "graph:\n  nodes:\n"
        "    - {id: a, kind: tool, impl: './tools/bad.py:main'}\n"
        "    - {id: b, kind: tool, impl: './tools/step.py:mian'}\n"
        "    - {id: c, kind: tool, impl: ./tools/run.sh}\n"
    )
    (path.parent / "tools/bad.py").write_text("x = 1\ndef main(:\n")
    (path.parent / "tools/run.sh").write_text("#!/bin/sh\n")
    found = errors(path)
    assert "flow.yaml:3: node 'a': bad.py cannot be read (line 2): invalid syntax" in found
    assert "flow.yaml:4: node 'b': step.py has no function 'mian' — did you mean 'main'?" in found
    assert "flow.yaml:5: node 'c'" in found
    assert "is not executable — chmod +x" in found
    assert main(["validate", str(path)]) == 2
    with pytest.raises(InputError, match=r"(?s)has no function 'mian'.*is not executable"):
        load_flow(path)


def test_a_program_that_the_system_cannot_start(flow_file: FlowFile) -> None:
    path = flow_file(
        "graph:\n  nodes:\n"
        "    - {id: a, kind: tool, impl: ./tools/bare.sh}\n"
        "    - {id: b, kind: tool, impl: ./tools/gone.sh}\n"
        "    - {id: c, kind: tool, impl: ./tools/good.sh}\n"
        "    - {id: d, kind: tool, impl: ./tools/found.sh}\n"
        "    - {id: e, kind: tool, impl: /bin/cat}\n"
    )
    texts = {
        "bare": "echo 1\n",
        "gone": "#! /no/such/shell -e\necho 1\n",
        "good": "#!/bin/sh\necho 1\n",
        "found": "#!/usr/bin/env -S sh\necho 1\n",
    }
    for name, text in texts.items():
        (path.parent / f"tools/{name}.sh").write_text(text)
        (path.parent / f"tools/{name}.sh").chmod(0o755)
    found = errors(path).splitlines()
    assert "flow.yaml:3: node 'a'" in found[0]
    assert (
        "bare.sh is a text whose first line names no program — begin it with a line such as #!/bin/sh"
        in found[0]
    )
    assert "flow.yaml:4: node 'b'" in found[1]
    assert "gone.sh is run by /no/such/shell, which is not installed" in found[1]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("name", "rows"), [("rows.csv", "question,n\nWhy?,1\n"), ("rows.jsonl", '{"question": "Why?"}\n')]
)
def test_a_prompt_that_names_no_column(flow_file: FlowFile, name: str, rows: str) -> None:
    path = flow_file(
        f"graph:\n  nodes:\n    - {{id: rows, kind: dataset, file: ./{name}, writes: [rows]}}\n"
        "    - {id: ask, kind: agent, prompt: ./prompts/ask.md, for_each: $.rows, writes: [said]}\n".replace(
            "for_each: $.rows", "for_each: {source: $.rows}"
        )
    )
    (path.parent / name).write_text(rows)
    (path.parent / "prompts/ask.md").write_text("{{item.qestion}}")
    assert (
        f"flow.yaml:4: node 'ask': ask.md names '{{{{item.qestion}}}}', but the rows of {name} have no 'qestion' — did you mean 'question'?"
        in errors(path)
    )
    (path.parent / "prompts/ask.md").write_text("{{item.question}}")
    assert errors(path) == ""


def test_an_inner_flow_that_is_given_nothing_and_args_that_are_not_filled_in(flow_file: FlowFile) -> None:
    path = flow_file(
        "graph:\n  nodes:\n    - {id: sub, kind: flow, file: ./inner.yaml, args: {town: '{{item}}', b: $.x}}\n"
    )
    (path.parent / "inner.yaml").write_text(
        "graph:\n  nodes:\n    - {id: a, kind: tool, impl: './tools/step.py:main', reads: [city]}\n"
    )
    found = errors(path)
    assert "flow.yaml:3: node 'sub': inner.yaml needs a value of city" in found
    assert (
        "node 'sub'.args.town: '{{item}}' is passed as it is: args are not filled in — leave it out: the inner flow gets it if a node of it reads 'item'"
        in found
    )
    assert "args.b: '$.x' is passed as it is" in found


def test_wrong_indentation(flow_file: FlowFile) -> None:
    assert "check the indentation of this line and the one before" in errors(
        flow_file("graph:\n  nodes:\n   a: 1\n  - b: 2\n")
    )
