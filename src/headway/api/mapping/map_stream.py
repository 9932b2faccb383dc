"""`headway.map`, `headway.amap` and `headway.stream`, for scripts, notebooks and event loops."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
)
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

from headway.api.call_errors import as_exception
from headway.api.failure_text import failure_summary, shorten_tracebacks
from headway.api.interrupts import Interrupts, unfinished
from headway.api.mapping.map_options import MapArguments, MapOptions, check_work
from headway.api.mapping.map_run import MapRun
from headway.api.mapping.page_task import PageTask
from headway.api.results import CallsFailed, R, Result, T
from headway.errors import UsageError
from headway.runtime.loops import Background, in_a_loop, run_here

S = TypeVar("S")

Items = Iterable[T] | AsyncIterable[T]
OnError = Literal["raise", "return"]


@overload
def map(
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["raise"] = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[R]: ...
@overload
def map(
    call: Callable[[T], R],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["raise"] = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[R]: ...
@overload
def map(
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["return"],
    **choices: Unpack[MapArguments[T]],
) -> list[R | BaseException]: ...
@overload
def map(
    call: Callable[[T], R],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["return"],
    **choices: Unpack[MapArguments[T]],
) -> list[R | BaseException]: ...
@overload
def map(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: type[S],
    on_error: Literal["raise"] = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[S]: ...
@overload
def map(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: type[S],
    on_error: Literal["return"],
    **choices: Unpack[MapArguments[T]],
) -> list[S | BaseException]: ...
@overload
def map(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: Any,
    on_error: OnError = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[Any]: ...
def map(
    call: Callable[[Any], Any],
    items: Items[Any],
    *,
    schema: Any = None,
    on_error: OnError = "raise",
    **choices: Unpack[MapArguments[Any]],
) -> list[Any]:
    """Call a function for every item, at the pace that its lane allows. Returns the results in the order of the items.

    A synchronous callable runs in threads, an asynchronous one on an event loop. A call that meets a rate limit waits and is
    tried again. With `schema` (a Pydantic model, a dataclass, a msgspec struct, or a JSON Schema as a dict) results are
    instances of it; for what does not fit, the function is called again, as `retry` allows. With `on_error="return"` exceptions take the place of results; otherwise `CallsFailed` is raised at the end,
    with all results in it.

    >>> import headway
    >>> headway.map(str.upper, ["north", "south"])
    ['NORTH', 'SOUTH']
    >>> headway.map(int, ["1", "x"], on_error="return")
    [1, ValueError("invalid literal for int() with base 10: 'x'")]
    """
    check_work(call, items)
    _check(on_error)
    options = MapOptions(choices, schema)
    if in_a_loop():
        with Background() as background:
            run: MapRun[Any, Any] = background.make(lambda: MapRun(call, items, options))
            with Interrupts(run) as interrupts:
                results = background.wait(_collected(run, interrupts), interrupts)
    else:
        results = run_here(lambda: _ended(call, items, options))
    return _values(results, on_error)


@overload
async def amap(
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["raise"] = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[R]: ...
@overload
async def amap(
    call: Callable[[T], R],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["raise"] = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[R]: ...
@overload
async def amap(
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["return"],
    **choices: Unpack[MapArguments[T]],
) -> list[R | BaseException]: ...
@overload
async def amap(
    call: Callable[[T], R],
    items: Items[T],
    *,
    schema: None = None,
    on_error: Literal["return"],
    **choices: Unpack[MapArguments[T]],
) -> list[R | BaseException]: ...
@overload
async def amap(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: type[S],
    on_error: Literal["raise"] = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[S]: ...
@overload
async def amap(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: type[S],
    on_error: Literal["return"],
    **choices: Unpack[MapArguments[T]],
) -> list[S | BaseException]: ...
@overload
async def amap(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: Any,
    on_error: OnError = "raise",
    **choices: Unpack[MapArguments[T]],
) -> list[Any]: ...
async def amap(
    call: Callable[[Any], Any],
    items: Items[Any],
    *,
    schema: Any = None,
    on_error: OnError = "raise",
    **choices: Unpack[MapArguments[Any]],
) -> list[Any]:
    """`map` on the running event loop.

    >>> import asyncio, headway
    >>> async def double(number: int) -> int:
    ...     return 2 * number
    >>> asyncio.run(headway.amap(double, range(3)))
    [0, 2, 4]
    """
    check_work(call, items)
    _check(on_error)
    return _values(await _ended(call, items, MapOptions(choices, schema)), on_error)


def _check(on_error: str) -> None:
    if on_error not in ("raise", "return"):
        raise UsageError(f"on_error is {on_error!r}", hint='use "raise" or "return"')


async def _ended(
    call: Callable[[Any], Any], items: Items[Any], options: MapOptions
) -> list[Result[Any, Any]]:
    """How every item ended, on the running loop."""
    run: MapRun[Any, Any] = MapRun(call, items, options)
    with Interrupts(run) as interrupts:
        return await _collected(run, interrupts)


async def _collected(run: MapRun[Any, Any], interrupts: Interrupts) -> list[Result[Any, Any]]:
    results: dict[int, Result[Any, Any]] = {}
    try:
        async for page in run.pages():
            for result in page:
                results[result.index] = result
    finally:
        if interrupts.count:
            in_order = (results[index] for index in sorted(results))
            interrupts.results = [result for result in in_order if not unfinished(result)]
    await interrupts.others()
    return [results[index] for index in range(len(results))]


def _values(results: list[Result[Any, Any]], on_error: OnError) -> list[Any]:
    """What `map` returns or raises for these results."""
    errors = [result.error for result in results if result.error is not None]
    if errors and on_error == "raise":
        shorten_tracebacks(errors)
        raise CallsFailed(failure_summary(results), [as_exception(each) for each in errors], results)
    return [result.value if result.error is None else result.error for result in results]


_T = TypeVar("_T")
_R = TypeVar("_R")


class Stream(Generic[_T, _R]):
    """Results one by one: `for` in a script, `async for` on an event loop. It can be read once."""

    def __init__(
        self, call: Callable[[_T], Any], items: Items[_T], options: MapOptions, *, ordered: bool
    ) -> None:
        self._call, self._items, self._options, self._ordered = call, items, options, ordered
        self._taken = False

    def __aiter__(self) -> AsyncIterator[Result[_T, _R]]:
        self._take()
        return self._results(MapRun(self._call, self._items, self._options, handed=True))

    def _take(self) -> None:
        if self._taken:
            raise UsageError(
                "this stream has already been read", hint="call headway.stream again for another run"
            )
        self._taken = True

    def __iter__(self) -> Iterator[Result[_T, _R]]:
        self._take()
        with Background() as background:
            run: MapRun[_T, _R] = background.make(
                lambda: MapRun(self._call, self._items, self._options, handed=True)
            )
            with Interrupts(run, outside=True):
                yield from background.iterate(self._results(run, counted=False), run.took)

    async def _results(
        self, run: MapRun[_T, _R], *, counted: bool = True
    ) -> AsyncGenerator[Result[_T, _R], None]:
        """`counted`: taken results are counted here; otherwise in the thread that they go to."""
        pages = PageTask(run.pages())
        order: _Order[_T, _R] | None = _Order() if self._ordered else None
        away = False
        try:
            with Interrupts(run, outside=True) as interrupts:
                while (page := await pages.next()) is not None:
                    away = True
                    for result in page if order is None else order.sorted(page):
                        # An item that Ctrl-C left unfinished has no result: KeyboardInterrupt follows.
                        if not (run.stopped and unfinished(result)):
                            yield result
                        if counted:
                            run.took(1)
                    away = False
                await interrupts.others()
        except BaseException as error:
            pages.cancel()
            if not (
                away and isinstance(error, asyncio.CancelledError)
            ):  # The loop ends: it waits for tasks itself.
                await pages.wait_ended()
            raise


class _Order(Generic[_T, _R]):
    """Results that came early."""

    def __init__(self) -> None:
        self._early: dict[int, Result[_T, _R]] = {}
        self._due = 0

    def sorted(self, page: list[Result[_T, _R]]) -> Iterator[Result[_T, _R]]:
        """The results that are next in order."""
        for result in page:
            self._early[result.index] = result
            while self._due in self._early:
                self._due += 1
                yield self._early.pop(self._due - 1)


@overload
def stream(
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Items[T],
    *,
    schema: None = None,
    ordered: bool = False,
    **choices: Unpack[MapArguments[T]],
) -> Stream[T, R]: ...
@overload
def stream(
    call: Callable[[T], R],
    items: Items[T],
    *,
    schema: None = None,
    ordered: bool = False,
    **choices: Unpack[MapArguments[T]],
) -> Stream[T, R]: ...
@overload
def stream(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: type[S],
    ordered: bool = False,
    **choices: Unpack[MapArguments[T]],
) -> Stream[T, S]: ...
@overload
def stream(
    call: Callable[[T], Any],
    items: Items[T],
    *,
    schema: Any,
    ordered: bool = False,
    **choices: Unpack[MapArguments[T]],
) -> Stream[T, Any]: ...
def stream(
    call: Callable[[Any], Any],
    items: Items[Any],
    *,
    schema: Any = None,
    ordered: bool = False,
    **choices: Unpack[MapArguments[Any]],
) -> Stream[Any, Any]:
    """The results of `map` as they end: `Result`s with the item, its value or error, its lane and its attempts.

    A slow consumer slows the run down: items are read at most a thousand ahead of the results that were taken. Leaving the
    loop cancels what is in flight.

    >>> import headway
    >>> for done in headway.stream(len, ["a", "bb"], ordered=True):
    ...     print(done.index, done.item, done.value)
    0 a 1
    1 bb 2
    """
    check_work(call, items)
    return Stream(call, items, MapOptions(choices, schema), ordered=ordered)
