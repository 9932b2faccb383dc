"""What a caller may choose, checked once."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from os import PathLike, fspath
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar, get_args

from headway.api.changes import Changes
from headway.api.lane_names import LaneNames
from headway.api.settings import Duration, Limits, Retry, limits_of, retry_of, seconds
from headway.config.durations import LONGEST_S
from headway.core import model
from headway.core.model import Estimate
from headway.errors import UsageError

T = TypeVar("T")

Isolation = Literal["process", "thread", "inline"]

#: The lane of items that no function sorts.
LANE: Final = "calls"


class Choices(TypedDict, Generic[T], total=False):
    """The keyword arguments that `map`, `amap` and `stream` share.

    lane: the name of the lane, or a function of the item that gives it (default: one lane for all).
    limits: of every lane, or by the lane's name. None: 64 calls at once, until refusals teach the lane better.
    tokens: input tokens of an item, or a function that gives them; the length of a text otherwise.
    concurrency: the most calls at once over all lanes; 0 is no cap beyond the lanes' own.
    retry: how often, and with what waits.
    timeout: of one attempt (default ten minutes; 0 is none).
    max_duration: of the whole run; what has not finished by then has the code "deadline".
    max_cost: in USD, of what the calls of this run report with `headway.usage`. Nothing starts once it is reached, and
        every start sets aside the most that a call of its lane has cost so far.
    isolation: where the callable runs. "process": in worker processes, whose death costs one attempt of one item;
        "thread"; "inline": on the event loop itself. Default: an asynchronous callable inline, any other in threads.
    workers: the most processes (default: one a core).
    recycle_after: units after which a worker process is replaced; 0 is never.
    memory_ceiling: bytes of memory above which it is, between two units; 0 is never.
    memory_limit: bytes of memory above which it is killed in the midst of a unit; 0 is never. Only on Linux.
    db: a file that keeps every result, so that a run which was killed goes on where it stopped.
    key: the item's name in that file, a text that no other item has. `db` and `key` go together.
    name: of the job in that file (default: the callable's).
    returns: the type to read kept values as; plain JSON otherwise.
    progress: a bar on stderr or in the notebook. None: where there is somebody to see it and it takes over a second;
        elsewhere a line for every wait of more than ten seconds. False: nothing.
    """

    lane: str | Callable[[T], str]
    limits: Limits | Mapping[str, Limits] | None
    tokens: float | Callable[[T], float] | None
    concurrency: int
    retry: Retry | None
    timeout: Duration
    max_duration: Duration
    max_cost: float
    isolation: Isolation | None
    workers: int
    recycle_after: int
    memory_ceiling: int
    memory_limit: int
    db: str | PathLike[str] | None
    key: Callable[[T], str] | None
    name: str
    returns: Any
    progress: bool | None


def check_work(call: Any, items: Any, *, call_name: str = "call", usage: str = "call, items") -> None:
    """That there is something to call, and something to call it for; otherwise a line that says what is wrong."""
    if not callable(call):
        if callable(items) and _iterable(call):
            hint = f"the function and the items changed places: ({usage})"
        elif inspect.isawaitable(call):
            call.close() if inspect.iscoroutine(call) else None
            hint = "name the function and do not call it: it is called for every item"
        else:
            hint = "it is a function of one item, plain or async"
        raise UsageError(f"{call_name} is {_shown(call)}", hint=hint)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise UsageError(
            f"{call_name} is {_shown(call)}", hint="it yields: let it return one value for its item"
        )
    if not _iterable(items):
        made = inspect.isgeneratorfunction(items) or inspect.isasyncgenfunction(items)
        hint = (
            "call it: it gives the items"
            if made
            else "give a list, a generator, anything that can be iterated"
        )
        raise UsageError(f"items is {_shown(items)}", hint=hint)


def _iterable(items: Any) -> bool:
    """By its looks: to begin with it may be work, and only once."""
    return isinstance(items, Iterable | AsyncIterable) or hasattr(type(items), "__getitem__")


def _shown(thing: Any) -> str:
    """An argument in a message: short, and never whatever a large one holds."""
    if isinstance(thing, str | int | float | None):
        text = repr(thing)
        return text if len(text) <= 40 else f"{text[:39]}…"
    name = getattr(thing, "__name__", None)
    return f"the {type(thing).__name__} {name}" if name else f"a {type(thing).__name__}"


class Options:
    """The same in the scheduler's words, checked."""

    def __init__(self, choices: Choices[Any]) -> None:
        unknown = sorted(set(choices) - Choices.__annotations__.keys())
        if unknown:
            raise TypeError(
                f"there is no argument '{unknown[0]}': {', '.join(sorted(Choices.__annotations__))}"
            )
        lane = choices.get("lane", LANE)
        self._limits = choices.get("limits")
        found = self._limits.values() if isinstance(self._limits, Mapping) else [self._limits]
        for limits in found:
            if limits is not None and not isinstance(limits, Limits):
                raise UsageError(
                    f"limits has {limits!r} in it", hint="Limits(rpm=…), or a mapping of lanes to such"
                )
        self._tokens = choices.get("tokens")
        self.retry = retry_of(choices.get("retry"), Retry())
        self.timeout_s = seconds(choices.get("timeout", "10m"), "timeout") or LONGEST_S
        self.max_duration_s = seconds(choices.get("max_duration", 0), "max_duration")
        self.max_cost = choices.get("max_cost", 0.0)
        self.concurrency = choices.get("concurrency", 0)
        self.progress = choices.get("progress")
        self.lane_of: Callable[[Any], str] = lane if callable(lane) else lambda _: lane
        self.lane_names = LaneNames(self._limits) if isinstance(self._limits, Mapping) else None
        if self._limits and isinstance(self._limits, Mapping) and "lane" not in choices:
            self._must_have_lane(LANE, self._limits)
        db = choices.get("db")
        self.db = None if db is None else fspath(db)
        self.key = choices.get("key")
        self.name = choices.get("name", "")
        #: Made here, where the caller's line is known.
        self.changes = Changes()
        self.returns = choices.get("returns", Any)
        if (self.db is None) != (self.key is None):
            raise UsageError(
                "db and key go together",
                hint="key=lambda item: item.id names an item in the file that db names",
            )
        if self.key is not None and not callable(self.key):
            raise UsageError(
                f"key is {self.key!r}", hint="it is a function of the item: key=lambda item: item.id"
            )
        self._must_count("max_cost", int | float, "0 is no cap, otherwise USD")
        self._must_count("concurrency", int, "0 is no cap, otherwise 1 or more")
        self._isolate(choices)

    def _must_count(self, name: str, kind: Any, hint: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, kind) or not value >= 0:
            raise UsageError(f"{name} is {value!r}", hint=hint)

    @staticmethod
    def _must_have_lane(lane: str, limits: Mapping[str, Limits]) -> None:
        """Without `lane` every item is in the same: limits of others can never count."""
        if lane not in limits:
            raise UsageError(
                f"limits is by lane ({', '.join(map(repr, limits))}), and lane is not given",
                hint="lane=lambda item: … says which of them an item is in; or give one headway.Limits for all",
            )

    def _isolate(self, choices: Choices[Any]) -> None:
        self.isolation = choices.get("isolation")
        self.workers = choices.get("workers", 0)
        self.recycle_after = choices.get("recycle_after", 0)
        self.memory_ceiling = choices.get("memory_ceiling", 0)
        self.memory_limit = choices.get("memory_limit", 0)
        if self.isolation not in (None, *get_args(Isolation)):
            raise UsageError(f"isolation is {self.isolation!r}", hint="it is process, thread or inline")
        for name in ("workers", "recycle_after", "memory_ceiling", "memory_limit"):
            self._must_count(name, int, "it is 0 or more")
            if name in choices and self.isolation != "process":
                raise UsageError(f"{name} is for worker processes", hint='set isolation="process" too')
        if self.isolation == "process":
            self.workers = self.workers or os.cpu_count() or 1
            # A call that waits for a free process would hold a slot of its lane.
            self.concurrency = min(self.concurrency or self.workers, self.workers)

    def limits_of(self, lane: str) -> model.Limits:
        """The limits of one lane, which is met for the first time."""
        if self.lane_names is not None:
            self.lane_names.met(lane)
        return limits_of(self._limits, lane)

    def estimate(self, item: Any) -> dict[str, Any]:
        """What is known of a unit's size."""
        if self._tokens is None:
            return {"chars": len(item)} if isinstance(item, str) else {}
        tokens: object = self._tokens(item) if callable(self._tokens) else self._tokens
        if not isinstance(tokens, int | float) or not 0 <= tokens < 1e15:
            raise UsageError(
                f"tokens is {tokens!r}", hint="a number of 0 or more, or a function that gives one"
            )
        return {"estimate": Estimate(input_tokens=float(tokens))}
