"""`headway.map(..., isolation="process")`: what a callable does to its process costs one attempt of one item."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench import deaths

import headway
from headway.errors import UsageError

HERE = Path(__file__).parent
QUICK = headway.Retry(base="10ms", cap="20ms")


@pytest.fixture(autouse=True)
def _acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def act(name: str) -> Any:
    import isolated_acts  # type: ignore[import-not-found]  # beside this file, on the path of its workers too

    return getattr(isolated_acts, name)


def test_values_come_back_in_order() -> None:
    assert headway.map(act("double"), range(50), isolation="process", workers=2) == [2 * n for n in range(50)]


def test_an_asynchronous_callable_works_too() -> None:
    assert headway.map(act("adouble"), [1, 2], isolation="process", workers=1) == [2, 4]


def test_exceptions_are_the_same_as_without_isolation() -> None:
    given = headway.map(act("picky"), [1, -1], isolation="process", workers=1, on_error="return")
    assert given[0] == 1
    assert isinstance(given[1], ValueError)
    assert str(given[1]) == "-1 is negative"
    assert any("in picky" in note for note in given[1].__notes__)


def test_what_cannot_be_pickled_is_an_outcome() -> None:
    results = list(
        headway.stream(act("unpicklable"), ["value", "error"], isolation="process", workers=1, ordered=True)
    )
    assert [result.code for result in results] == ["invalid", "invalid"]
    assert "cannot be sent to another process" in str(results[0].error)
    assert "this cannot be pickled" in str(results[1].error)
    items = [threading.Lock()]
    (lock,) = headway.stream(act("double"), items, isolation="process", workers=1)
    assert lock.code == "invalid"


def _nested() -> Any:
    def inner(item: Any) -> Any:
        return item

    return inner


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda item: item, "a lambda has no name that a worker could import"),
        (_nested(), "inner is defined inside _nested, from where a worker cannot import it"),
        (functools.partial(_nested()), "inner is defined inside _nested"),
        (functools.partial(print, threading.Lock()), "TypeError: cannot pickle '_thread.lock' object"),
    ],
)
def test_a_callable_that_cannot_be_pickled_is_an_error_before_a_worker_starts(call: Any, why: str) -> None:
    with pytest.raises(
        UsageError, match=re.escape(f"the callable cannot be sent to a worker process: {why}")
    ):
        headway.map(call, [1], isolation="process")


MAIN = """
import functools, headway, operator

def double(item): return 2 * item

class Doubler:
    def __call__(self, item): return 2 * item
    def double(self, item): return 2 * item

for call in (double, functools.partial(double), Doubler(), Doubler().double, functools.partial(operator.mul, 2)):
    try:
        print(headway.map(call, [3], isolation="process", workers=1))
    except headway.HeadwayError as error:
        print(error)
(done,) = headway.stream(str, [Doubler()], isolation="process", workers=1)
print(done.error)
"""
NOWHERE = (
    "is defined in {}, from where a worker cannot import it — "
    'define it at the top level of a module and import it from there, or use isolation="thread"'
)


@pytest.mark.parametrize(
    ("given", "place"), [(["-c", MAIN], "'python -c'"), (["-"], "a script on standard input")]
)
def test_a_program_without_a_file_gets_a_hint_and_imported_callables_work(
    given: list[str], place: str
) -> None:
    ran = subprocess.run(
        [sys.executable, *given], input=MAIN, capture_output=True, text=True, timeout=60, check=False
    )
    lines = ran.stdout.splitlines()
    said = NOWHERE.format(place)
    sent = "cannot be sent to a worker process:"
    assert lines == [
        f"the callable {sent} double {said}",
        f"the callable {sent} double {said}",
        f"the callable {sent} Doubler {said}",
        f"the callable {sent} Doubler {said}",
        "[6]",
        f"the item {sent} Doubler {said}",
    ], ran.stderr


def test_the_main_of_a_package_is_no_module_to_import(tmp_path: Path) -> None:
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import headway\ndef call(item): return item\n"
        "if __name__ == '__main__': headway.map(call, [1], isolation='process', workers=1)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "tool"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert f"call {NOWHERE.format('tool.__main__')}" in ran.stderr


def test_a_module_that_workers_cannot_import_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def call(item): return item\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]  # written above

    (tmp_path / "only_here.py").write_text("import no_such_package\n")
    with pytest.raises(UsageError, match=r"cannot be run in a worker process: .*'no_such_package'"):
        headway.map(only_here.call, range(1000), isolation="process", workers=2)
    assert headway.map(only_here.call, [], isolation="process") == []


def test_usage_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    (done,) = headway.stream(act("paid_and_dead"), [7], isolation="process", workers=1, retry=QUICK)
    assert done.code == "crash"
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.cost_usd) == (7, 0.5)


def test_memory_has_a_limit() -> None:
    (done,) = headway.stream(
        act("hungry"), [0], isolation="process", workers=1, retry=QUICK, memory_limit=200_000_000
    )
    assert done.code == "crash"
    assert "out of memory (memory_limit is 200 MB)" in str(done.error)


def test_usage_and_rate_limits_come_from_worker_processes() -> None:
    (done,) = headway.stream(act("counted"), [7], isolation="process", workers=1)
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.cost_usd) == (7, 0.5)


def test_a_limit_is_waited_for(tmp_path: Path) -> None:
    items = [str(tmp_path / "a")]
    (done,) = headway.stream(act("limited_once"), items, isolation="process", workers=1)
    assert (done.ok, done.attempts) == (True, 2)


def test_a_timeout_ends_the_process() -> None:
    (done,) = headway.stream(
        act("sleep"),
        [60],
        isolation="process",
        workers=1,
        timeout="300ms",
        retry=headway.Retry(max_attempts=1),
    )
    assert (done.code, done.status) == ("timeout", "timed_out")
    assert isinstance(done.error, TimeoutError)


def test_a_unit_that_kills_three_times_is_quarantined_with_its_evidence(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    items = [(n, log, 13) for n in range(40)]
    results = list(
        headway.stream(act("deadly"), items, isolation="process", workers=2, retry=QUICK, ordered=True)
    )
    assert [result.index for result in results if not result.ok] == [13]
    bad = results[13]
    assert bad.code == "crash"
    assert "quarantined: it killed its worker 3 times, the last time alone" in str(bad.error)
    assert re.search(r"killed by SIGSEGV in tests/api/isolated_acts\.py:\d+ deadly after", str(bad.error))
    begun = Counter(Path(log).read_text().split())
    assert begun["13"] == 3
    assert all(times == 1 for unit, times in begun.items() if unit != "13")


@pytest.mark.parametrize(
    ("kills", "at_once"),
    [(deaths.KILLS, 1), (2 * deaths.WORKERS, deaths.WORKERS)],
    ids=["forty at random", "the whole pool twice"],
)
def test_only_killed_units_run_again(kills: int, at_once: int) -> None:
    """400 units on four processes: all finish, and the attempts are exactly the units and the kills."""
    went = deaths.deaths(kills, at_once)
    assert (went.finished, went.quarantined, went.killed) == (deaths.UNITS, 0, kills), went.errors
    assert (went.wrong, went.repeats, went.attempts) == (0, kills, deaths.UNITS + kills)


def test_a_unit_that_always_kills_its_worker_fails_alone() -> None:
    went = deaths.deaths(0, deadly=1)
    assert (went.finished, went.quarantined, went.wrong) == (deaths.UNITS - 1, 1, 0)
    assert (went.repeats, went.attempts) == (2, deaths.UNITS + 2)
    assert "quarantined: it killed its worker 3 times, the last time alone" in went.errors[0]
    assert "killed by SIGKILL" in went.errors[0]


SCRIPT = """
import headway, sys

class Pair:
    def __init__(self, a, b): self.a, self.b = a, b
    def __eq__(self, other): return (self.a, self.b) == (other.a, other.b)

def swap(pair): return Pair(pair.b, pair.a)

{guard}print(headway.map(swap, [Pair(1, 2)], isolation="process", workers=1) == [Pair(2, 1)])
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_can_use_what_it_defines(tmp_path: Path, guarded: bool) -> None:
    script = tmp_path / "script.py"
    guard = 'if __name__ == "__main__": ' if guarded else ""
    script.write_text(SCRIPT.replace("{guard}", guard))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    if guarded:
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    else:
        assert done.returncode == 1
        assert done.stderr.endswith('put what starts work below: if __name__ == "__main__"\n')


BELOW = """
import headway

if __name__ == "__main__":
    def swap(item):
        return item

    headway.map(swap, [1], isolation="process", workers=1)
"""


def test_a_function_below_the_main_guard_gets_a_hint(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(BELOW, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "'swap'" in done.stderr
    assert done.stderr.endswith(
        '— a worker imports the script without what is below if __name__ == "__main__": define it above that\n'
    )


def test_inline_runs_on_the_loop_and_thread_in_a_thread() -> None:
    here = threading.get_ident()

    def where(item: int) -> int:
        return threading.get_ident()

    assert headway.map(where, [1], isolation="inline") == [here]
    assert headway.map(where, [1], isolation="thread") != [here]

    async def later(item: int) -> int:
        return threading.get_ident()

    assert headway.map(later, [1], isolation="inline") == [here]
    assert headway.map(later, [1], isolation="thread") != [here]


def test_asynchronous_calls_in_threads_report_their_own_usage_and_errors() -> None:
    barrier = threading.Barrier(3)

    async def call(n: int) -> int:
        headway.usage(input_tokens=n)
        await asyncio.to_thread(barrier.wait, 20)
        if n == 2:
            raise ValueError("two")
        return n

    done = list(headway.stream(call, [1, 2, 3], isolation="thread", ordered=True, timeout="30s"))
    assert [each.usage and each.usage.input_tokens for each in done] == [1, 2, 3]
    assert [str(each.error or "") for each in done] == ["", "two", ""]


def test_usage_of_an_asynchronous_call_in_a_worker_process_is_its_own_items() -> None:
    done = headway.stream(act("told"), [1, 2, 3], isolation="process", workers=1, ordered=True)
    assert [each.usage and each.usage.input_tokens for each in done] == [1, 2, 3]


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"isolation": "fork"}, "isolation is 'fork' — use process, thread or inline"),
        ({"workers": 2}, 'workers is for worker processes — set isolation="process" too'),
        ({"isolation": "process", "workers": -1}, "workers is -1 — use a whole number, 0 or more"),
    ],
)
def test_wrong_arguments_are_errors(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as told:
        headway.map(len, ["a"], **choices)
    assert str(told.value) == said
