"""Whatever the caller's code raises, and wherever, the run ends: an outcome of its unit, or raised to the caller.

Every test is bounded by its timeout, which shows where all threads are: what hangs fails there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from tests.api.raisers import RAISED, aact, act, cancels_itself, task_act

import headway
from headway import CallsFailed, Retry, UnitError, WorkerPool, WorkerResult, WorkUnit

pytestmark = pytest.mark.timeout(60)

ONCE: Final = Retry(max_attempts=1, base="1ms", cap="1ms", jitter=0)


# -- the fronts, each as a function that gives the errors of its items ------------------------------------------------

Errors = dict[str, BaseException | str | None]


def by_map(call: Any, items: list[str], **choices: Any) -> Errors:
    return errors_of(items, headway.map(call, items, on_error="return", **{"retry": ONCE, **choices}))


def by_amap(call: Any, items: list[str], **choices: Any) -> Errors:
    return errors_of(
        items, asyncio.run(headway.amap(call, items, on_error="return", **{"retry": ONCE, **choices}))
    )


def by_map_in_a_loop(call: Any, items: list[str], **choices: Any) -> Errors:
    async def main() -> Errors:
        return by_map(call, items, **choices)

    return asyncio.run(main())


def by_stream(call: Any, items: list[str], **choices: Any) -> Errors:
    return {done.item: done.error for done in headway.stream(call, items, **{"retry": ONCE, **choices})}


def by_async_stream(call: Any, items: list[str], **choices: Any) -> Errors:
    async def main() -> Errors:
        return {
            done.item: done.error async for done in headway.stream(call, items, **{"retry": ONCE, **choices})
        }

    return asyncio.run(main())


def errors_of(items: list[str], given: list[Any]) -> Errors:
    return {
        item: one if isinstance(one, BaseException) else None for item, one in zip(items, given, strict=True)
    }


def by_pool(call: Any, items: list[str], store: Path | None = None) -> Errors:
    class Doing:
        def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
            return WorkerResult(True, output=call(prompt))

    class ADoing:
        async def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:  # noqa: ASYNC109
            return WorkerResult(True, output=await call(prompt))

    ended: Errors = {}

    def note(unit: str, result: WorkerResult) -> None:
        ended[unit] = None if result.success else result.error

    worker = ADoing() if asyncio.iscoroutinefunction(call) else Doing()
    with WorkerPool(worker, "raised", store, on_unit_complete=note, on_unit_failed=note, retry=ONCE) as pool:
        for item in items:
            assert pool.wait_for_available_slot(20)
            assert pool.submit_work_unit(item, item)
        assert pool.wait_for_completion(20)
    return ended


MAPS: Final[dict[str, Callable[..., Errors]]] = {
    "map": by_map,
    "amap": by_amap,
    "map in a loop": by_map_in_a_loop,
    "stream": by_stream,
    "async stream": by_async_stream,
}
FRONTS: Final = {**MAPS, "pool": by_pool}
CALLS: Final = {"sync": act, "async": aact, "task": task_act}


# -- the work ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", RAISED)
def test_an_exception_of_the_work_fails_only_its_unit(front: str, call: str, what: str) -> None:
    if call == "task" and what in ("exit", "interrupt") and front in ("amap", "async stream"):
        # A loop of the caller's own: asyncio itself ends that with a task that raises these.
        raised(lambda: FRONTS[front](CALLS[call], ["a", what, "b"]), what)
        return
    errors = FRONTS[front](CALLS[call], ["a", what, "b"])
    assert (errors["a"], errors["b"]) == (None, None)
    error = errors[what]
    assert isinstance(error, Exception) or (isinstance(error, str) and error)


@pytest.mark.parametrize("front", MAPS)
@pytest.mark.parametrize("isolation", ["thread", "inline"])
@pytest.mark.parametrize("what", RAISED)
def test_an_exception_on_the_loop_or_in_a_thread_fails_only_its_unit(
    front: str, isolation: str, what: str
) -> None:
    errors = MAPS[front](act, ["a", what, "b"], isolation=isolation)
    assert (errors["a"], errors["b"]) == (None, None)
    assert isinstance(errors[what], Exception)


@pytest.mark.parametrize("call", [act, aact, task_act])
def test_an_exception_in_a_worker_process_fails_only_its_unit(call: Any) -> None:
    items = ["a", *RAISED, "b"]
    errors = by_map(call, items, isolation="process", workers=2)
    assert [name for name, error in errors.items() if error is None] == ["a", "b"]
    assert all(isinstance(error, Exception) for error in errors.values() if error is not None)


@pytest.mark.parametrize("call", [act, aact])
@pytest.mark.parametrize("what", RAISED)
def test_an_exception_in_a_run_pool_fails_only_its_item(call: Any, what: str) -> None:
    counts = headway.run_pool(["a", what, "b"], 2, call, lambda: False, retry=ONCE)
    assert (counts.completed, counts.errored, counts.skipped) == (2, 1, 0)


@pytest.mark.parametrize("front", ["map", "pool"])
@pytest.mark.parametrize("call", [act, aact])
def test_an_exception_of_recorded_work_fails_only_its_unit(front: str, call: Any, tmp_path: Path) -> None:
    items = ["a", *RAISED, "b"]
    for _ in range(2):  # A failed unit may be run again.
        if front == "map":
            errors = by_map(call, items, db=tmp_path / "h.db", key=str, name="raised")
        else:
            errors = by_pool(call, items, tmp_path / "h.db")
        assert [name for name, error in errors.items() if error is None] == ["a", "b"]


@pytest.mark.parametrize("front", FRONTS)
def test_work_that_cancels_itself_fails_and_is_not_retried_forever(front: str) -> None:
    (error,) = FRONTS[front](cancels_itself, ["a"]).values()
    assert "raised CancelledError itself" in str(error)


@pytest.mark.parametrize("call", [act, aact])
def test_a_base_exception_is_wrapped_in_an_exception(call: Any) -> None:
    with pytest.raises(CallsFailed, match="3 of 4 calls failed") as failed:
        headway.map(call, ["panic", "exit", "interrupt", "fine"])
    texts = [str(error) for error in failed.value.exceptions]
    assert texts == [
        "the callable raised Panic: index out of bounds",
        "the callable raised SystemExit: 3",
        "the callable raised KeyboardInterrupt",
    ]
    causes = [type(error.__cause__).__name__ for error in failed.value.exceptions]
    assert causes == ["Panic", "SystemExit", "KeyboardInterrupt"]
    assert [result.value for result in failed.value.results] == [None, None, None, "fine"]


def test_a_panic_can_be_retried() -> None:
    tries: list[str] = []

    async def call(name: str) -> str:
        tries.append(name)
        return act("panic" if len(tries) < 3 else name)

    panic = type(RAISED["panic"]())
    assert headway.map(call, ["a"], retry=Retry(on=(panic,), base="1ms")) == ["a"]
    assert len(tries) == 3


class Wrong:
    """Awaitables that are none."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __await__(self) -> Any:
        if self.how == "no iterator":
            return 5
        if self.how == "raises":
            raise KeyboardInterrupt
        return self._steps()

    def _steps(self) -> Iterator[Any]:
        yield 5 if self.how == "yields a number" else None
        raise SystemExit(1)


@pytest.mark.parametrize("how", ["no iterator", "raises", "yields a number", "yields nothing"])
@pytest.mark.parametrize("front", MAPS)
def test_awaitables_that_misbehave_fail_their_unit(front: str, how: str) -> None:
    async def call(item: str) -> Any:
        return await Wrong(how) if item == "bad" else item

    errors = MAPS[front](call, ["a", "bad", "b"])
    assert [item for item, error in errors.items() if error is not None] == ["bad"]


# -- the caller's other code ------------------------------------------------------------------------------------------


def raised(run: Callable[[], object], what: str) -> None:
    """The run ends with the exception, or with one that stands for it."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - all of them are tried
        run()
    expected, error = type(RAISED[what]()), caught.value
    if not isinstance(error, expected):
        assert isinstance(error, RuntimeError)
        assert isinstance(error.__cause__, expected), f"{error!r} from {error.__cause__!r}"


class Items:
    """Items that raise at one place."""

    def __init__(self, where: str, what: str, after: int = 0) -> None:
        self.where, self.what, self.after = where, what, after

    def __iter__(self) -> Iterator[str]:
        if self.where == "__iter__":
            act(self.what)
        return self

    def __next__(self) -> str:
        if self.after:
            self.after -= 1
            return "a"
        if self.where == "__next__":
            act(self.what)
        raise StopIteration


class Sized(Items):
    def __len__(self) -> int:
        act(self.what)
        return 3

    __length_hint__ = __len__

    def __contains__(self, item: object) -> bool:
        return False


class AItems:
    def __init__(self, where: str, what: str, after: int = 0) -> None:
        self.where, self.what, self.after = where, what, after

    def __aiter__(self) -> AsyncIterator[str]:
        if self.where == "__aiter__":
            act(self.what)
        return self

    async def __anext__(self) -> str:
        if self.after:
            self.after -= 1
            return "a"
        if self.where == "__anext__":
            act(self.what)
        raise StopAsyncIteration


def on_a_loop(make: Callable[[], Any]) -> list[Any]:
    """On a loop of the caller's own. `asyncio.run` asks for the repr of its task, which asks for that of its exception."""
    values: list[Any] = []
    errors: list[BaseException] = []

    async def main() -> None:
        try:
            values.extend(await make())
        except BaseException as error:
            errors.append(error)

    asyncio.run(main())
    for error in errors:
        raise error
    return values


def whole(front: str, items: Any, **choices: Any) -> list[Any]:
    """The run of a front over any items."""
    if front == "map":
        return headway.map(str.upper, items, **choices)
    if front == "amap":
        return on_a_loop(lambda: headway.amap(aact, items, **choices))
    if front == "map in a loop":

        async def main() -> list[Any]:
            return headway.map(aact, items, **choices)

        return on_a_loop(main)
    if front == "stream":
        return [done.get() for done in headway.stream(str.upper, items, **choices)]

    async def consume() -> list[Any]:
        return [done.get() async for done in headway.stream(aact, items, **choices)]

    return on_a_loop(consume)


#: What ends an iteration, and is no fault of it.
ENDS: Final = {"__next__": "stop", "__anext__": "async stop"}


@pytest.mark.parametrize("front", MAPS)
@pytest.mark.parametrize("where", ["__iter__", "__next__", "__aiter__", "__anext__"])
@pytest.mark.parametrize("what", RAISED)
@pytest.mark.parametrize("after", [0, 3])
def test_an_exception_of_items_is_raised(front: str, where: str, what: str, after: int) -> None:
    items = (Items if where in ("__iter__", "__next__") else AItems)(where, what, after)
    if ENDS.get(where) == what:
        assert len(whole(front, items)) == after
    else:
        raised(lambda: whole(front, items), what)


@pytest.mark.parametrize("front", MAPS)
@pytest.mark.parametrize("what", RAISED)
def test_a_length_that_raises_counts_as_unknown(front: str, what: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "headway.api.progress_bar.ProgressWatch",
            lambda *_: type("Watch", (), {"close": lambda _: None})(),
        )
        assert len(whole(front, Sized("", what, 3), progress=True)) == 3


@pytest.mark.parametrize("what", RAISED)
def test_an_exception_of_items_is_raised_in_a_run_pool(what: str) -> None:
    counts = headway.run_pool(Sized("", what, 3), 2, str.upper)
    assert (counts.completed, counts.errored, counts.skipped) == (3, 0, 0)


@pytest.mark.parametrize("front", MAPS)
@pytest.mark.parametrize("where", ["lane", "tokens", "key"])
@pytest.mark.parametrize("what", RAISED)
def test_an_exception_of_a_function_of_the_item_is_raised(
    front: str, where: str, what: str, tmp_path: Path
) -> None:
    choices: dict[str, Any] = {
        where: lambda item: act(what) if item == "b" else "1" if where != "tokens" else 1
    }
    if where == "key":
        choices["db"] = tmp_path / "h.db"
        choices["key"] = lambda item: act(what) if item == "b" else item
    raised(lambda: whole(front, ["a", "b", "c"], name="n", **choices), what)


class Asking(type):
    """A class that raises when it is asked what belongs to it."""

    what = ""

    def __instancecheck__(cls, instance: object) -> bool:
        act(Asking.what)
        return False


class Asked(Exception, metaclass=Asking):
    """For `retry.on`."""


@pytest.mark.parametrize("front", MAPS)
@pytest.mark.parametrize("what", RAISED)
def test_a_class_to_retry_on_that_raises_fails_the_units(front: str, what: str) -> None:
    async def call(item: str) -> str:
        if item == "b":
            raise ValueError("oh")
        return item

    Asking.what = ""
    choices: Any = {"retry": Retry(on=(Asked,), max_attempts=5)}
    Asking.what = what
    errors = MAPS[front](call, ["a", "b"], **choices)
    Asking.what = ""
    assert errors["a"] is None
    assert isinstance(errors["b"], ValueError)


_post: list[str] = [""]


@dataclass
class Made:
    """For `returns`."""

    n: int = 1

    def __post_init__(self) -> None:
        act(_post[0])


@pytest.mark.parametrize("what", RAISED)
@pytest.mark.parametrize("again", [False, True])
def test_a_type_of_values_that_raises_fails_its_units(what: str, again: bool, tmp_path: Path) -> None:
    def run() -> list[Any]:
        return headway.map(
            lambda _: {"n": 1},
            ["a"],
            db=tmp_path / "h.db",
            key=str,
            name="n",
            returns=Made,
            on_error="return",
        )

    _post[0] = ""
    if again:
        assert run() == [Made()]
    _post[0] = what
    try:
        if again and not isinstance(RAISED[what](), Exception):
            raised(run, what)
        else:
            (error,) = run()
            assert isinstance(error, Exception)
    finally:
        _post[0] = ""


# -- pools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("what", RAISED)
@pytest.mark.parametrize("after", [0, 2])
def test_an_exception_of_is_interrupted_is_raised(what: str, asynchronous: bool, after: int) -> None:
    asked = 0

    def question() -> bool:
        nonlocal asked
        asked += 1
        if asked > after:
            act(what)
        return False

    async def aquestion() -> bool:
        return question()

    raised(lambda: headway.run_pool(["a", "b", "c"], 1, aact, aquestion if asynchronous else question), what)


class Unsure:
    """An answer without a truth."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __bool__(self) -> bool:
        act(self.what)
        return False


@pytest.mark.parametrize("what", RAISED)
def test_an_is_interrupted_without_a_truth_value_is_an_error(what: str) -> None:
    raised(lambda: headway.run_pool(["a"], 1, act, lambda: Unsure(what)), what)  # type: ignore[arg-type, return-value]


class Fine:
    def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
        return WorkerResult(prompt != "fail", output=prompt, error="" if prompt != "fail" else "no")


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("what", RAISED)
def test_an_exception_of_a_callback_is_logged(
    what: str, asynchronous: bool, kept: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def callback(unit: Any, result: WorkerResult) -> None:
        act(what)

    async def acallback(unit: Any, result: WorkerResult) -> None:
        await aact(what)

    told: Any = acallback if asynchronous else callback
    store = tmp_path / "h.db" if kept else None
    caplog.set_level(logging.CRITICAL, "asyncio")
    with (
        caplog.at_level(logging.ERROR, "headway"),
        WorkerPool(Fine(), "job", store, on_unit_complete=told, on_unit_failed=told) as pool,
    ):
        for unit in ("fine", "fail"):
            assert pool.submit_work_unit(unit, unit)
        assert pool.wait_for_completion(20)
    assert sum("a callback of the worker pool failed" in line for line in caplog.messages) == 2


class Payload:
    """What cannot be written down."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return act(self.what)


@pytest.mark.parametrize("what", RAISED)
def test_payloads_and_outputs_that_raise_end_their_units(what: str, tmp_path: Path) -> None:
    class Odd:
        def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
            return WorkerResult(True, output=Payload(what) if prompt == "output" else prompt)

    ended: list[str] = []
    with WorkerPool(
        Odd(),
        "job",
        tmp_path / "h.db",
        on_unit_complete=lambda unit, _: ended.append(unit.id),
        on_unit_failed=lambda unit, _: ended.append(unit.id),
    ) as pool:
        assert pool.submit_work_unit(WorkUnit("payload", Payload(what)), "payload")
        assert pool.submit_work_unit(WorkUnit("output"), "output")
        assert pool.submit_work_unit(WorkUnit("fine"), "fine")
        assert pool.wait_for_completion(20)
    assert sorted(ended) == ["fine", "output", "payload"]


class Stubborn(WorkUnit):
    """A unit that takes no status."""

    what = ""

    def __setattr__(self, name: str, value: Any) -> None:
        if self.what and name in ("status", "result"):
            act(self.what)
        super().__setattr__(name, value)


class OddResult(WorkerResult):
    """A result whose time cannot be set, and whose error is no text."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "execution_time" and value:
            raise ValueError(name)
        super().__setattr__(name, value)


def test_units_and_results_of_odd_classes_end(tmp_path: Path) -> None:
    class Odd:
        def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
            return OddResult(prompt == "good", error=ValueError("oh"))  # type: ignore[arg-type]

    unit = Stubborn("a")
    unit.what = "exception"
    with WorkerPool(Odd(), "job", tmp_path / "h.db", max_workers=1) as pool:
        for name, prompt in (("a", "good"), ("b", "bad"), ("c", "good")):
            assert pool.wait_for_available_slot(20)
            assert pool.submit_work_unit(unit if name == "a" else name, prompt)
        assert pool.wait_for_completion(20)


def test_no_thread_is_left_behind() -> None:
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    by_pool(aact, ["panic", "exit", "a"])
    by_stream(aact, ["panic", "exit", "a"])
    assert {thread for thread in threading.enumerate() if not thread.daemon} == before


def test_an_item_without_an_exception_of_its_own_says_so() -> None:
    (error,) = headway.map(aact, ["cancelled"], on_error="return")
    assert isinstance(error, UnitError)
