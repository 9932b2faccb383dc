"""JavaScript assertions and transforms run in a node process that a worker keeps."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.evals.programs.running_code import (
    SECRET,
    Codes,
    code_workers,
    details,
    error,
    needs_node,
    send,
    value,
)
from tests.executors.conftest import gone_within

from headway.core.model import Kind
from headway.evals.programs.code_requests import variable_request
from headway.evals.spec import Code

pytestmark = needs_node


@pytest.fixture
async def javascript(tmp_path: Path) -> AsyncIterator[Codes]:
    async with code_workers("javascript", tmp_path) as adapter:
        yield Codes(adapter, "javascript", tmp_path)


# -- what code gets and returns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("output.length > 3", True),
        ("output.length / 10;", 0.5),
        ("const n = output.length; n > 9", False),
        ("const s = ';'; s + output", ";hello"),
        ("let n = 1; return n + 1", 2),
        ("return output", "hello"),
        ("output.split('').map((c) => { return c.charCodeAt(0); }).length === 5", True),
        ("const a = output;\nif (a) {\n  return { pass: true, score: 0.5 };\n}\nreturn false;\n", {"pass": True, "score": 0.5}),
        ("(output, context) => context.vars.n", 7),
        ("Promise.resolve('later')", "later"),
        ("process.mainModule.require('path').basename('/a/b')", "b"),
        ("'Zoë 😀 ' + output", "Zoë 😀 hello"),
    ],
)  # fmt: skip
async def test_code_is_an_expression_or_the_body_of_a_function(
    javascript: Codes, source: str, expected: object
) -> None:
    assert value(await javascript.asserts(source, vars={"n": 7})) == expected


async def test_all_calls_share_one_node_process_in_the_folder_of_the_eval(javascript: Codes) -> None:
    first, folder = value(await javascript.asserts("[process.pid, process.cwd()]"))
    again, _ = value(await javascript.asserts("[process.pid, 0]"))
    assert first == again != os.getpid()
    assert folder == str(javascript.folder)


@pytest.mark.parametrize(
    ("name", "text", "function"),
    [
        ("a.js", "module.exports = (output, context) => context.vars.n", ""),
        ("b.cjs", "module.exports = { grade: (output, context) => context.vars.n }", "grade"),
        ("c.mjs", "export default async (output, context) => context.vars.n", ""),
        ("d.mjs", "export function grade(output, context) { return context.vars.n }", "grade"),
    ],
)
async def test_a_file_exports_its_function(javascript: Codes, name: str, text: str, function: str) -> None:
    assert value(await javascript.asserts_file(name, text, function, vars={"n": 0.75})) == 0.75


async def test_transforms(javascript: Codes) -> None:
    assert value(
        await javascript.transforms("output.items.map((one) => one.name)", {"items": [{"name": "a"}]})
    ) == ["a"]
    assert value(await javascript.transforms_vars("({ ...vars, b: 2 })", {"a": 1})) == {"a": 1, "b": 2}
    assert (
        error(await javascript.transforms("output.nothing", {}))
        == "the code of this transform returned nothing"
    )


async def test_a_function_computes_a_variable(javascript: Codes) -> None:
    file = javascript.folder / "value.cjs"
    file.write_text("module.exports = (name, prompt, other) => ({ output: name + prompt + other.a });")
    body = variable_request(Code("javascript", file=file), "title", "p", {"a": 1})
    assert value(await send(javascript.adapter, body)) == "titlep1"


# -- failures ---------------------------------------------------------------------------------------------------------


async def test_an_exception_names_the_line_and_keeps_its_stack(javascript: Codes) -> None:
    assert error(await javascript.asserts("nowhere.x")) == "ReferenceError: nowhere is not defined"
    answer = await javascript.asserts_file(
        "grade.cjs", "module.exports = () => {\n  throw new TypeError('no');\n};\n"
    )
    assert error(answer) == "grade.cjs, line 2: TypeError: no"
    assert "grade.cjs:2" in details(answer)["trace"]
    await javascript.works()


async def test_code_that_is_no_javascript(javascript: Codes) -> None:
    assert "the code of this assertion cannot be used: SyntaxError" in error(
        await javascript.asserts("output ==== 1")
    )
    assert "it exports no function" in error(await javascript.asserts_file("e.cjs", "exports.a = 1"))
    assert "no function 'grade'" in error(await javascript.asserts_file("f.cjs", "exports.a = 1", "grade"))
    await javascript.works()


@pytest.mark.parametrize("source", ["while (true) {\n}\nreturn 1", "new Promise(() => {})"])
async def test_a_hang_is_ended_at_its_deadline(tmp_path: Path, source: str) -> None:
    async with code_workers("javascript", tmp_path, timeout_s=1.5) as adapter:
        javascript = Codes(adapter, "javascript", tmp_path)
        node = value(await javascript.asserts("process.pid"))
        assert "no result within 1.5 s" in error(await javascript.asserts(source), Kind.TIMEOUT)
        assert gone_within(node, 3.0)
        await javascript.works()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("process.exit(3)", "it exited with code 3"),
        ("process.kill(process.pid, 'SIGKILL') && new Promise(() => {})", "SIGKILL"),
        ("setTimeout(() => { throw new Error('stray'); }, 0) && new Promise(() => {})", "stray"),
    ],
)
async def test_a_crash_is_named_and_the_rest_is_unharmed(javascript: Codes, source: str, said: str) -> None:
    assert said in error(await javascript.asserts(source), Kind.CRASH)
    await javascript.works()


async def test_megabytes_of_output_neither_block_nor_are_kept(javascript: Codes) -> None:
    source = "console.log('x'.repeat(5e6));\nconsole.error('y'.repeat(5e6));\nreturn 1"
    answer = await javascript.asserts(source)
    assert value(answer) == 1
    assert len(answer.note) < 50_000


async def test_results_that_are_too_large_or_no_json(javascript: Codes) -> None:
    assert "2,000,002 bytes" in error(await javascript.asserts("'x'.repeat(2e6)"))
    assert "BigInt" in error(await javascript.asserts("10n"))
    assert "returned nothing" in error(await javascript.asserts("undefined"))
    assert "returned nothing" in error(await javascript.asserts("0 / 0"))
    assert "which JSON cannot hold" in error(await javascript.asserts("Symbol('a')"))
    await javascript.works()


async def test_secrets_are_blotted_out_of_values_and_errors(javascript: Codes) -> None:
    assert value(await javascript.asserts(f"'<{SECRET}>'")) == "<***>"
    answer = await javascript.asserts(f"console.log('{SECRET}');\nthrow new Error('bad: {SECRET}')")
    assert "bad: ***" in error(answer)
    assert SECRET.encode() not in answer.note


async def test_node_ends_with_its_worker(tmp_path: Path) -> None:
    async with code_workers("javascript", tmp_path) as adapter:
        node = value(await Codes(adapter, "javascript", tmp_path).asserts("process.pid"))
    assert gone_within(node, 3.0)


async def test_without_node_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with code_workers("javascript", tmp_path) as adapter:
        answer = await Codes(adapter, "javascript", tmp_path).asserts("1")
    assert "install Node.js 20 or newer" in error(answer, Kind.AUTH)
