"""Tools of flows: what they get, what they print, how they fail, hang and meet limits, and what they may import."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from tests.flows.running.conftest import FlowFolder

from headway.config.settings import ToolWorkersConfig
from headway.executors.tool_adapter import ToolAdapter
from headway.executors.tool_function import ToolFunction
from headway.executors.work_result import last_words
from headway.providers.adapter import Request


def one(folder: FlowFolder, impl: str, more: str = "") -> None:
    """A flow with one tool, which writes `out`."""
    folder.flow(f"  - {{id: t, kind: tool, impl: '{impl}', writes: [out]{more}}}\n")


@pytest.mark.parametrize("start", ["def main(given):", "async def main(given):"])
def test_a_python_function_may_print_and_imports_what_is_beside_it(folder: FlowFolder, start: str) -> None:
    folder.write(
        "tools/fetch.py",
        f"import beside\n\n{start}\n    print('hello')\n    return [given['node'], beside.VALUE]\n",
    )
    folder.write("tools/beside.py", "VALUE = 7\n")
    one(folder, "./tools/fetch.py:main")
    assert folder.headway("run", "flow.yaml").code == 0
    assert folder.results()["state"]["out"] == ["t", 7]


def test_programs_get_json_on_standard_input(folder: FlowFolder) -> None:
    text = "let s = ''; for await (const c of process.stdin) s += c; console.error('noise'); console.log(JSON.stringify(Object.keys(JSON.parse(s))))\n"
    folder.write("tools/keys.mjs", text)
    one(folder, "./tools/keys.mjs")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"]["out"] == ["state", "args", "item", "index", "node", "job"]


def test_any_executable_is_a_tool_and_works_in_the_folder_of_the_flow(folder: FlowFolder) -> None:
    folder.write("tools/where.sh", '#!/bin/sh\ncat > /dev/null\necho "\\"$(pwd -P)\\""\n', 0o755)
    one(folder, "./tools/where.sh")
    os.makedirs("elsewhere")
    os.chdir("elsewhere")
    assert folder.headway("run", "../flow.yaml", "--config", "../headway.toml").code == 0
    assert folder.results()["state"]["out"] == str(folder.root.resolve())


def test_python_tools_work_in_the_folder_of_the_flow(folder: FlowFolder) -> None:
    folder.write("tools/where.py", "import os\ndef main(given): return os.getcwd()\n")
    one(folder, "./tools/where.py:main")
    os.makedirs("elsewhere")
    os.chdir("elsewhere")
    assert folder.headway("run", "../flow.yaml", "--config", "../headway.toml").code == 0
    assert folder.results()["state"]["out"] == str(folder.root.resolve())


def test_nothing_is_imported_from_the_working_directory(folder: FlowFolder) -> None:
    trap = "open('trap', 'w').close()\nraise SystemExit('trapped')\n"
    for name in ("msvcrt", "json", "work_helper", "sitecustomize"):
        folder.write(f"{name}.py", trap)
    folder.write(
        "tools/fetch.py",
        "import json\ndef main(given):\n    import sys\n    return [p for p in sys.path if p in ('', given['args']['cwd'])]\n",
    )
    one(folder, "./tools/fetch.py:main", f", args: {{cwd: '{folder.root}'}}")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"]["out"] == []
    assert not (folder.root / "trap").exists()


# -- before anything starts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("impl", "error"),
    [
        ("./tools/fetch.py:missing", "flow.yaml:3: node 't': fetch.py has no function 'missing'"),
        ("./tools/broken.py:main", "flow.yaml:3: node 't': broken.py cannot be read (line 2)"),
        ("./tools/plain.sh", "is not executable — chmod +x"),
        ("./tools/a.mjs", "a.mjs needs 'node', which is not installed"),
    ],
)
def test_a_tool_that_cannot_run_is_an_error_before_anything_starts(
    folder: FlowFolder, impl: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("tools/fetch.py", "raise SystemExit('imported')\ndef main(given): return 1\n")
    folder.write("tools/broken.py", "def main(given):\n    return (\n")
    folder.write("tools/plain.sh", "#!/bin/sh\n")
    folder.write("tools/a.mjs", "")
    monkeypatch.setenv("PATH", str(folder.root))
    one(folder, impl)
    done = folder.headway("run", "flow.yaml")
    assert (done.code, error in done.err, len(done.err.splitlines())) == (2, True, 1), done.err


def test_a_tool_that_is_gone_is_an_error_of_resume(folder: FlowFolder) -> None:
    folder.write("tools/fail.py", "def main(given): raise ValueError('no')\n")
    one(folder, "./tools/fail.py:main")
    assert folder.headway("run", "flow.yaml").code == 1
    (folder.root / "tools" / "fail.py").unlink()
    done = folder.headway("resume")
    assert (done.code, "t.impl: there is no file" in done.err) == (2, True)


# -- failures -------------------------------------------------------------------------------------------------------------

COUNTED = "def main(given):\n    with open('tries', 'a') as file: file.write('x')\n    {body}\n"


def tries(folder: FlowFolder) -> int:
    return len((folder.root / "tries").read_text())


def test_an_exception_is_final_unless_the_node_retries(folder: FlowFolder) -> None:
    folder.write("tools/fail.py", COUNTED.format(body="raise ValueError('no')"))
    one(folder, "./tools/fail.py:main")
    done = folder.headway("run", "flow.yaml")
    assert (done.code, tries(folder)) == (1, 1)
    assert "ValueError: no" in folder.results()["nodes"]["t"]["reason"]
    one(folder, "./tools/fail.py:main", ", on_error: {policy: retry, attempts: 3, base_ms: 1}")
    assert folder.headway("run", "flow.yaml").code == 1
    assert tries(folder) == 4


def test_an_exit_code_is_final_unless_the_node_retries(folder: FlowFolder) -> None:
    folder.write("tools/fail.sh", "#!/bin/sh\nprintf x >> tries\necho 'out of paper' >&2\nexit 3\n", 0o755)
    one(folder, "./tools/fail.sh")
    done = folder.headway("run", "flow.yaml")
    assert (done.code, tries(folder)) == (1, 1)
    assert "it exited with code 3; last on standard error: out of paper" in done.err
    one(folder, "./tools/fail.sh", ", on_error: {policy: retry, attempts: 2, base_ms: 1, backoff: linear}")
    assert folder.headway("run", "flow.yaml").code == 1
    assert tries(folder) == 3


@pytest.mark.parametrize(("policy", "calls"), [("skip", 1), ("{policy: retry, attempts: 2, base_ms: 1}", 2)])
def test_sys_exit_is_final_like_an_exception(folder: FlowFolder, policy: str, calls: int) -> None:
    folder.write(
        "tools/leave.py",
        "import sys\ndef main(given):\n    open('calls.txt', 'a').write('leave\\n')\n    sys.exit('bye')\n",
    )
    folder.flow(f"  - {{id: leave, kind: tool, impl: './tools/leave.py:main', on_error: {policy}}}\n")
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.calls()) == (1, ["leave"] * calls)
    assert folder.results()["nodes"]["leave"]["reason"] == "it called sys.exit('bye')"


def test_a_retry_that_works_is_a_success(folder: FlowFolder) -> None:
    folder.write("tools/once.py", COUNTED.format(body="return 1 / (len(open('tries').read()) - 1)"))
    one(folder, "./tools/once.py:main", ", on_error: {policy: retry, attempts: 2, base_ms: 1}")
    assert (folder.headway("run", "flow.yaml").code, tries(folder)) == (0, 2)


def test_a_tool_that_hangs_is_killed_with_what_it_started(folder: FlowFolder) -> None:
    folder.write("tools/hang.sh", "#!/bin/sh\nsleep 300 &\necho $! > child\nwait\n", 0o755)
    one(folder, "./tools/hang.sh", ", timeout: 1s, on_error: {policy: retry, attempts: 1}")
    began = time.monotonic()
    done = folder.headway("run", "flow.yaml")
    assert (done.code, time.monotonic() - began < 20) == (1, True)
    assert "no result within 1 s" in done.err
    child = int((folder.root / "child").read_text())
    assert not Path(f"/proc/{child}").exists() or "(zombie)" in Path(f"/proc/{child}/status").read_text()


def test_a_python_tool_that_hangs_is_killed(folder: FlowFolder) -> None:
    folder.write("tools/hang.py", "import time\ndef main(given): time.sleep(300)\n")
    one(folder, "./tools/hang.py:main", ", timeout: 1s, on_error: {policy: retry, attempts: 1}")
    done = folder.headway("run", "flow.yaml")
    assert (done.code, "no result within 1 s" in done.err) == (1, True)


def test_a_rate_limit_is_waited_for_and_costs_no_attempt(folder: FlowFolder) -> None:
    body = "import headway\n    if len(open('tries').read()) < 3: raise headway.RateLimited(retry_after=0.01)\n    return 'done'"
    folder.write("tools/limited.py", COUNTED.format(body=body))
    one(folder, "./tools/limited.py:main", ", on_error: {policy: retry, attempts: 1}")
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.results()["state"]["out"], tries(folder)) == (0, "done", 3), done.err


def test_an_answer_that_is_no_json_is_a_failure(folder: FlowFolder) -> None:
    folder.write("tools/text.sh", "#!/bin/sh\necho hello\n", 0o755)
    one(folder, "./tools/text.sh")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 1
    reason = folder.results()["nodes"]["t"]["reason"]
    assert reason.startswith('its output is not JSON ("hello"): ')
    assert reason.endswith("; print logs on standard error")


def test_the_error_of_a_javascript_tool_is_named_and_not_its_stack() -> None:
    frames = "    at run (file:///tools/fetch.mjs:3:9)\n" * 40
    stderr = f"file:///tools/fetch.mjs:3\n  throw new TypeError('no')\n  ^\n\nTypeError: no\n{frames}\nNode.js v22.1.0\n"
    assert last_words(stderr.encode()) == "TypeError: no"
    coded = f"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'\n{frames}"
    assert last_words(coded.encode()) == "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'"


# -- workers that stay ----------------------------------------------------------------------------------------------------


class _Ignored:
    def __call__(self, *facts: object) -> None: ...
    def delayed(self) -> None: ...
    def written(self) -> None: ...


async def test_a_worker_stays_for_all_tools_of_a_folder_and_a_call_is_quick(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\ndef main(given): return [os.getpid(), os.getcwd()]\n")
    (tmp_path / "b.py").write_text("import os\ndef main(given): return [os.getpid(), os.getcwd()]\n")
    settings = ToolWorkersConfig(target=str(tmp_path), workers=1, preflight="none", directory=str(tmp_path))
    adapter = ToolAdapter(settings, 1, "tools")
    try:
        bodies = set()
        for name in ("a.py", "b.py", "a.py"):
            request = Request(ToolFunction(str(tmp_path / name), "main").path, b"{}")
            bodies.add((await adapter.send(request, 30.0, _Ignored())).body)
        assert len(bodies) == 1
        began = time.perf_counter()
        for _ in range(200):
            await adapter.send(request, 30.0, _Ignored())
        took_s = (time.perf_counter() - began) / 200
        assert took_s < 0.005  # 0.16 ms on an idle machine; a new process takes 100 ms.
    finally:
        await adapter.close()
    assert str(tmp_path) not in sys.path


def test_a_tool_that_can_no_longer_be_started_says_so(folder: FlowFolder) -> None:
    folder.write("late.sh", "#!/bin/sh\necho 1\n", 0o755)
    folder.write(
        "tools/lock.py", "import os\ndef main(given):\n    os.chmod('late.sh', 0o644)\n    return 1\n"
    )
    folder.flow(
        "  - {id: lock, kind: tool, impl: './tools/lock.py:main', writes: [x]}\n"
        "  - {id: late, kind: tool, impl: ./late.sh, reads: [x], writes: [y]}\n"
    )
    done = folder.headway("run", "flow.yaml")
    assert done.code == 1
    assert "stopped: auth" not in done.err
    assert f"stopped: {folder.root}/late.sh cannot be started: permission denied" in done.err
    for command in ("status", "lanes"):
        out = folder.headway(command).out
        assert "stopped: auth" not in out
        assert "late.sh cannot be started: permission denied" in out
