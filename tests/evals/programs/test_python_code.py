"""Python assertions and transforms run in worker processes, bounded, and never in this one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.evals.programs.running_code import SECRET, Codes, code_workers, details, error, send, value
from tests.executors.conftest import gone_within

from headway.core.model import Kind
from headway.evals.programs.code_requests import variable_request
from headway.evals.spec import Code


@pytest.fixture
async def python(tmp_path: Path) -> AsyncIterator[Codes]:
    async with code_workers("python", tmp_path) as adapter:
        yield Codes(adapter, "python", tmp_path)


# -- what code gets and returns ---------------------------------------------------------------------------------------


async def test_an_expression_is_evaluated(python: Codes) -> None:
    assert value(await python.asserts("len(output) / 10")) == 0.5
    assert value(await python.asserts("'ell' in output  # a comment")) is True
    assert value(await python.asserts("(len(output) > 3 and\n  output[0] == 'h')\n")) is True


async def test_several_lines_are_the_body_of_a_function(python: Codes) -> None:
    body = "import math\nif output:\n  word = '''a\n  b'''\n  return math.floor(2.5)\nreturn 0\n"
    assert value(await python.asserts(body)) == 2


async def test_code_gets_the_context(python: Codes) -> None:
    source = "[context['vars']['who'], context['config']['limit'], json.dumps(output)]"
    assert value(await python.asserts(source, {"a": 1}, vars={"who": "Zoë 😀"}, config={"limit": 3})) == [
        "Zoë 😀", 3, '{"a": 1}',
    ]  # fmt: skip


async def test_code_in_the_eval_file_is_a_template(python: Codes) -> None:
    assert value(await python.asserts("output == '{{ word }}'", vars={"word": "hello"})) is True


async def test_code_runs_in_another_process_in_the_folder_of_the_eval(python: Codes) -> None:
    pid, folder = value(await python.asserts("import os\nreturn [os.getpid(), os.getcwd()]"))
    assert pid != os.getpid()
    assert folder == str(python.folder)


async def test_a_file_has_get_assert_or_the_named_function(python: Codes) -> None:
    text = "def get_assert(output, context):\n    return context['vars']['n']\n\nclass A:\n    @staticmethod\n    def b(output, context):\n        return output\n"
    assert value(await python.asserts_file("graders.py", text, vars={"n": 0.25})) == 0.25
    assert value(await python.asserts_file("graders.py", text, "A.b")) == "hello"


async def test_an_asynchronous_function_is_awaited(python: Codes) -> None:
    text = "import asyncio\nasync def get_assert(output, context):\n    await asyncio.sleep(0)\n    return True\n"
    assert value(await python.asserts_file("graders.py", text)) is True


async def test_python_names_of_a_result_become_those_of_promptfoo(python: Codes) -> None:
    result = (
        "{'pass_': True, 'score': 0.5, 'named_scores': {'a_b': 1}, 'component_results': [{'pass_': False}]}"
    )
    assert value(await python.asserts(result)) == {
        "pass": True, "score": 0.5, "namedScores": {"a_b": 1}, "componentResults": [{"pass": False}],
    }  # fmt: skip


async def test_transforms_return_any_value_but_none(python: Codes) -> None:
    assert value(await python.transforms("output['a']", {"a": [1]})) == [1]
    assert error(await python.transforms("None", "x")) == "the code of this transform returned nothing"


async def test_a_transform_of_variables_returns_an_object(python: Codes) -> None:
    assert value(await python.transforms_vars("{**vars, 'b': 2}", {"a": 1})) == {"a": 1, "b": 2}
    assert "must return an object" in error(await python.transforms_vars("[vars]", {"a": 1}))


async def test_a_function_computes_a_variable(python: Codes) -> None:
    file = python.folder / "value.py"
    file.write_text(
        "def get_var(name, prompt, other):\n"
        "    return {'output': f'{name} {prompt} {other}'} if other else {'error': 'no others'}\n"
    )
    code = Code("python", file=file)
    answer = await send(python.adapter, variable_request(code, "title", "p", {"a": 1}))
    assert value(answer) == "title p {'a': 1}"
    assert error(await send(python.adapter, variable_request(code, "title", "p", {}))) == "no others"


# -- failures ---------------------------------------------------------------------------------------------------------


async def test_an_exception_names_the_line_and_keeps_its_traceback(python: Codes) -> None:
    answer = await python.asserts("a = 1\nreturn a / 0\n")
    assert error(answer) == "the code of this assertion, line 2: ZeroDivisionError: division by zero"
    answer = await python.asserts_file(
        "graders.py", "def get_assert(output, context):\n\n    return output.nope\n"
    )
    assert error(answer).startswith("graders.py, line 3: AttributeError")
    assert "graders.py" in details(answer)["trace"]
    await python.works()


async def test_code_that_is_no_python_says_where(python: Codes) -> None:
    assert "SyntaxError" not in error(await python.asserts("output ==="))
    assert "in line 2" in error(await python.asserts("a = 1\nif a =\n  return a"))


async def test_a_file_without_the_function_names_it(python: Codes) -> None:
    assert "it has no function 'get_assert'" in error(await python.asserts_file("graders.py", "x = 1\n"))
    assert "it has no function 'fluent'" in error(
        await python.asserts_file("graders.py", "x = 1\n", "fluent")
    )


async def test_an_import_that_fails_is_an_error_of_the_unit(python: Codes) -> None:
    assert "No module named 'nowhere'" in error(await python.asserts_file("graders.py", "import nowhere\n"))
    await python.works()


async def test_a_hang_is_ended_at_its_deadline_with_all_that_it_started(tmp_path: Path) -> None:
    async with code_workers("python", tmp_path, timeout_s=1.5) as adapter:
        python = Codes(adapter, "python", tmp_path)
        await python.works()
        source = (
            "import subprocess, time, os\nchild = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
            "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\ntime.sleep(1000)\nreturn 1\n"
        )
        assert "no result within 1.5 s" in error(await python.asserts(source), Kind.TIMEOUT)
        assert all(gone_within(int(pid), 3.0) for pid in (tmp_path / "pids").read_text().split())
        await python.works()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os\nos._exit(3)", "it exited with code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import sys\nsys.exit(2)", "sys.exit(2)"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    ],
)
async def test_a_crash_is_named_and_the_rest_is_unharmed(python: Codes, source: str, said: str) -> None:
    assert said in error(await python.asserts(source), Kind.CRASH)
    await python.works()


async def test_megabytes_of_output_neither_block_nor_are_kept(python: Codes) -> None:
    answer = await python.asserts(
        "import sys\nprint('x' * 5_000_000)\nsys.stderr.write('y' * 5_000_000)\nreturn 1"
    )
    assert value(answer) == 1
    assert len(answer.note) < 50_000


async def test_a_result_of_megabytes_is_an_error(python: Codes) -> None:
    assert "2,000,002 bytes" in error(await python.asserts("'x' * 2_000_000"))
    await python.works()


async def test_a_result_that_is_no_json_is_an_error(python: Codes) -> None:
    assert "not JSON" in error(await python.asserts("object()"))
    assert "returned nothing" in error(await python.asserts("None"))


async def test_secrets_are_blotted_out_of_values_and_errors(python: Codes) -> None:
    assert value(await python.asserts(f"'<{SECRET}>'")) == "<***>"
    answer = await python.asserts(f"print('{SECRET}')\nraise ValueError('bad: {SECRET}')")
    assert "bad: ***" in error(answer)
    assert SECRET.encode() not in answer.note
