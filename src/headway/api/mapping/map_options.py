"""The arguments of `map`, `amap` and `stream`, checked. Pools use some of the checks."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar, get_args

import msgspec
import msgspec.inspect

from headway.api.call_errors import note
from headway.api.job_names import check_name
from headway.api.lane_names import LaneNames, caller
from headway.api.mapping.changed_items import ChangedItems
from headway.config import checks
from headway.config.argument_checks import (
    brief,
    must_be_number,
    must_be_recordable,
    must_be_text,
    must_be_whole,
    named,
    path_of,
)
from headway.config.call_settings import Duration, Limits, Retry, limits_of, retry_of, seconds
from headway.config.duration_setting import LONGEST_S
from headway.config.kinds.python import MOST_ON_CLUSTER
from headway.core import model
from headway.core.model import Estimate
from headway.errors import UsageError
from headway.executors.json_values import is_model_type
from headway.executors.limit_evidence import LimitDetector
from headway.providers.call_reports import current_attempt
from headway.stores.sqlite.mounts import network_warning

if TYPE_CHECKING:
    from headway.api.asking.answer_types import AnswerType

T = TypeVar("T")

Isolation = Literal["process", "thread", "inline"]

#: The lane of all items if `lane` is not given.
LANE: Final = "calls"
#: Similarity from which an unknown argument counts as a typing error.
_ALIKE: Final = 0.7
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class MapArguments(TypedDict, Generic[T], total=False):
    """The keyword arguments that `map`, `amap` and `stream` share.

    lane: the name of the lane, or a function of the item that returns it (default: one lane for all).
    limits: of every lane, or by the lane's name. None: 64 calls at once, until refusals teach the lane better.
    tokens: input tokens of an item, or a function that returns them; the length of a text otherwise.
    concurrency: the most calls at once over all lanes; 0 is no cap beyond the lanes' own.
    retry: how often, and with what waits.
    timeout: of one attempt (default ten minutes; 0 is none).
    max_duration: of the whole run; what has not finished by then has the code "deadline".
    max_wait: of an item in the queue, until its first call starts; an item that waits longer has the code "deadline".
    max_cost: in USD, of what the calls of this run report with `headway.usage`. Nothing starts once it is reached, and
        every start sets aside the most that a call of its lane has cost so far.
    isolation: where the callable runs. "process": in worker processes, whose death costs one attempt of one item;
        "thread"; "inline": on the event loop itself. Default: an asynchronous callable inline, any other in threads.
    executor: "ray" runs the callable in worker processes on the nodes of a Ray cluster: the same results, errors and crashes as with
        isolation="process". A connection that the program has made (`ray.init`) is used; otherwise one is made for the run.
    ray_address: the cluster: "auto" (default: one that runs here, or RAY_ADDRESS), "local" (one for this run), "ray://HOST:10001".
    resources: what a call takes of a node: {"num_cpus": 1, "memory": "400MB"} (default: one CPU), and names of the cluster's own.
    workers: the most processes (default: one a core; on Ray as many as the cluster takes).
    recycle_after: units after which a worker process is replaced; 0 is never.
    memory_ceiling: bytes of memory above which it is, between two units; 0 is never.
    memory_limit: bytes of memory above which it is killed in the midst of a unit; 0 is never. Only on Linux.
    env: the variables that a worker process gets, besides PATH, HOME, the language and Python's own (default: all of them).
    failure_logs: a pattern of log files below the working directory (".failed/*/agent/result.json"). Where a call fails,
        what was written to them since the attempt began is searched for a rate limit. Only with isolation="process".
    limit_exit_codes: exit codes that say "a rate limit was reached". Only with isolation="process".
    db: a file that keeps every result, so that a run that was killed continues where it stopped.
    key: the item's name in that file, a text that no other item has. `db` and `key` go together.
    name: of the job in that file (default: the callable's).
    renamed_from: what the callable was called ("module.name") when it made that job. Otherwise a job that another callable
        made is an error.
    returns: the type to read kept values as; plain JSON otherwise.
    progress: a bar on stderr or in the notebook. None: a bar on a terminal or in a notebook, if the run takes over a second;
        elsewhere a line for every wait of more than ten seconds. False: nothing.
    """

    lane: str | Callable[[T], str]
    limits: Limits | Mapping[str, Limits] | None
    tokens: float | Callable[[T], float] | None
    concurrency: int
    retry: Retry | None
    timeout: Duration
    max_duration: Duration
    max_wait: Duration
    max_cost: float
    isolation: Isolation | None
    executor: Literal["ray"] | None
    ray_address: str
    resources: Mapping[str, Any]
    workers: int
    recycle_after: int
    memory_ceiling: int
    memory_limit: int
    env: Iterable[str]
    failure_logs: str | PathLike[str] | None
    limit_exit_codes: Iterable[int]
    db: str | PathLike[str] | None
    key: Callable[[T], str] | None
    name: str
    renamed_from: str
    returns: Any
    progress: bool | None


def check_work(call: Any, items: Any, *, call_name: str = "call", usage: str = "call, items") -> None:
    """Check that there is a callable and an iterable; the error says what is wrong."""
    if not callable(call):
        if callable(items) and _iterable(call):
            hint = f"the function and the items are swapped: ({usage})"
        elif inspect.isawaitable(call):
            call.close() if inspect.iscoroutine(call) else None
            hint = "pass the function itself, without calling it: it is called for every item"
        else:
            hint = "pass a function of one item, plain or async"
        raise UsageError(f"{call_name} is {named(call)}", hint=hint)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise UsageError(
            f"{call_name} is {named(call)}", hint="it is a generator: return one value for each item"
        )
    if not _iterable(items):
        made = inspect.isgeneratorfunction(items) or inspect.isasyncgenfunction(items)
        hint = "call it: it returns the items" if made else "pass a list, a generator or any other iterable"
        raise UsageError(f"items is {named(items)}", hint=hint)


def _iterable(items: Any) -> bool:
    """By its type: iterating may cost work, and may be possible only once."""
    return isinstance(items, Iterable | AsyncIterable) or hasattr(type(items), "__getitem__")


#: Arguments of only some of the functions, and which ones.
_ONLY: Final = {"on_error": "map and amap", "ordered": "stream"}
#: Names that other libraries use.
_ELSEWHERE: Final = {"max_workers": "concurrency", "max_concurrency": "concurrency", "processes": "workers"}


def _unknown(name: str) -> str:
    """The error for an unknown argument. It suggests the nearest one."""
    text = f"there is no argument '{name}'"
    if name in _ONLY:
        return f"{text} here: it belongs to headway.{_ONLY[name]}"
    for kind, argument in ((Limits, "limits"), (Retry, "retry")):
        if name in kind.__slots__ and name not in _ELSEWHERE:
            return f"{text}; did you mean {argument}=headway.{kind.__name__}({name}=…)?"
    names = [*sorted(MapArguments.__annotations__), "schema", *_ONLY]
    meant = _ELSEWHERE.get(name) or next(iter(get_close_matches(name, names, 1, _ALIKE)), None)
    if meant is not None:
        return f"{text}; did you mean '{meant}'?"
    some = ", ".join(f"{each} ({whose})" for each, whose in _ONLY.items())
    return f"{text}: {', '.join(sorted((*MapArguments.__annotations__, 'schema')))}, {some}"


def _check_limits(limits: object) -> None:
    """Check that limits are one `Limits`, or a mapping of lanes to such."""
    if isinstance(limits, Mapping):
        for lane, each in limits.items():
            if not isinstance(lane, str):
                raise UsageError(f"limits has the lane {brief(lane)}", hint="a lane's name is a string")
            if each is not None and not isinstance(each, Limits):
                raise UsageError(
                    f"limits has {brief(each)} for the lane {lane!r}", hint="use headway.Limits(rpm=…)"
                )
    elif limits is not None and not isinstance(limits, Limits):
        raise UsageError(
            f"limits is {brief(limits)}", hint="use headway.Limits(rpm=…), or a mapping of lanes to such"
        )


def _check_type(returns: Any) -> None:
    """Check that stored values can be read as this type."""
    if returns is Any:
        return
    try:
        msgspec.json.Decoder(returns)
        _check_classes(msgspec.inspect.type_info(returns))
    except Exception as error:  # Reading the type hints of a class may raise anything.
        hint = "use a type: int, list[str], a dataclass"
        if isinstance(returns, type):
            hint = f"values cannot be read as it: {error}"
        raise UsageError(f"returns is {brief(returns)}", hint=hint) from None


def _check_classes(info: msgspec.inspect.Type) -> None:
    """Check every class in a type: if JSON could not be read as it, every value would be lost after its call was paid."""
    if isinstance(info, msgspec.inspect.CustomType) and not is_model_type(info.cls):
        raise TypeError(f"JSON has no {info.cls.__name__}")
    for name in ("item_type", "key_type", "value_type"):
        if isinstance(part := getattr(info, name, None), msgspec.inspect.Type):
            _check_classes(part)
    for part in (*getattr(info, "types", ()), *getattr(info, "item_types", ())):
        _check_classes(part)


def _with_note(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function; its exceptions get a note that names the argument and the item."""

    def noted(item: Any) -> Any:
        try:
            return function(item)
        except BaseException as error:
            note(error, f"{name}= raised this for the item {brief(item)}")
            raise

    return noted


def detector_of(failure_logs: object, limit_exit_codes: object) -> LimitDetector:
    """Where rate limits are searched for, besides results and exceptions."""
    made = tuple(limit_exit_codes) if isinstance(limit_exit_codes, Iterable) else (None,)
    if not all(type(code) is int and 0 < code < 256 for code in made):
        raise UsageError(
            f"limit_exit_codes is {brief(limit_exit_codes)}", hint="use exit codes from 1 to 255: (75,)"
        )
    logs = os.fspath(failure_logs) if isinstance(failure_logs, str | PathLike) else failure_logs
    if logs is not None and (not isinstance(logs, str) or not logs):
        raise UsageError(
            f"failure_logs is {brief(failure_logs)}",
            hint='use a pattern of files: ".failed/*/agent/result.json"',
        )
    anchor = Path(logs or ".").anchor
    return LimitDetector(made, (logs or "").removeprefix(anchor), anchor or os.getcwd(), backs_off=True)


def record_path(value: str | PathLike[str] | None, name: str) -> str | None:
    """The file as a text. Warns at the caller's line if it is on a network file system."""
    path = path_of(value, name)
    if path is not None and "://" not in path and (found := network_warning(Path(path))) is not None:
        warnings.warn_explicit("; ".join(found), UserWarning, *caller())
    return path


def _variables(env: object) -> tuple[str, ...]:
    """Check the names of environment variables."""
    names = (
        tuple(env) if isinstance(env, Iterable) and not isinstance(env, str | bytes | Mapping) else (None,)
    )
    if not all(isinstance(name, str) and _VARIABLE.fullmatch(name) for name in names):
        raise UsageError(
            "env is not a list of names of environment variables", hint='for example ["HF_HOME"]'
        )
    return names


def _answer_type(schema: Any) -> AnswerType | None:
    if schema is None:
        return None
    from headway.api.asking.answer_types import answer_type  # Loaded only where it is used.

    return answer_type(schema)


class MapOptions:
    """The checked arguments of one run."""

    def __init__(self, choices: MapArguments[Any], schema: Any = None) -> None:
        for name in sorted(set(choices) - MapArguments.__annotations__.keys()):
            raise TypeError(_unknown(name))
        lane: object = choices.get("lane", LANE)
        if not callable(lane) and not (isinstance(lane, str) and lane):
            raise UsageError(
                f"lane is {brief(lane)}", hint="use a name that is not empty, or a function that returns one"
            )
        #: Whether the program has named its lanes: other calls and jobs that use a lane of the same name share it. Calls inside a call
        #: do not: that one has its place already, and waits for them.
        self.named = "lane" in choices and current_attempt.get() is None
        self._limits = choices.get("limits")
        _check_limits(self._limits)
        tokens = choices.get("tokens")
        self._tokens = _with_note("tokens", tokens) if callable(tokens) else tokens
        self.retry = retry_of(choices.get("retry"), Retry())
        self.timeout_s = seconds(choices.get("timeout", "10m"), "timeout") or LONGEST_S
        self.max_duration_s = seconds(choices.get("max_duration", 0), "max_duration")
        self.max_wait_s = seconds(choices.get("max_wait", 0), "max_wait")
        self.max_cost = choices.get("max_cost", 0.0)
        self.concurrency = choices.get("concurrency", 0)
        self.progress = choices.get("progress")
        if self.progress not in (None, True, False):
            raise UsageError(f"progress is {brief(self.progress)}", hint="use True, False or None")
        self.lane_of: Callable[[Any], Any] = _with_note("lane", lane) if callable(lane) else lambda _: lane
        self.lane_names = LaneNames(self._limits) if isinstance(self._limits, Mapping) else None
        if self._limits and isinstance(self._limits, Mapping) and "lane" not in choices:
            self._must_have_lane(LANE, self._limits)
        self.db = record_path(choices.get("db"), "db")
        self.key = choices.get("key")
        must_be_text(choices.get("name"), "name", "use a string: the name of the job in the file")
        self.name = choices.get("name") or ""
        check_name(choices.get("name"), "name")
        must_be_text(
            choices.get("renamed_from"),
            "renamed_from",
            'use a string: what the function was called, "module.name"',
        )
        self.renamed_from = choices.get("renamed_from") or ""
        must_be_recordable(self.renamed_from, "renamed_from")
        #: Made here, where the caller's line is known.
        self.changes = ChangedItems()
        self.answer_type = _answer_type(schema)
        kept_as = Any if self.answer_type is None else self.answer_type.kept_as
        self.returns = choices.get("returns", kept_as)
        _check_type(self.returns)
        if (self.db is None) != (self.key is None):
            raise UsageError(
                "db and key go together",
                hint="key=lambda item: item.id names an item in the file that db names",
            )
        if self.renamed_from and self.db is None:
            raise UsageError(
                "renamed_from is only for recorded jobs", hint="db=… names the file that stores them"
            )
        if self.key is not None and not callable(self.key):
            raise UsageError(
                f"key is {self.key!r}", hint="use a function of the item: key=lambda item: item.id"
            )
        if self.key is not None:
            self.key = _with_note("key", self.key)
        must_be_number(self.max_cost, "max_cost", "use a number of USD; 0 means no cap")
        must_be_whole(self.concurrency, "concurrency", 0, "use a whole number; 0 means no cap")
        self._isolate(choices)

    @staticmethod
    def _must_have_lane(lane: str, limits: Mapping[str, Limits]) -> None:
        """Without `lane` all items are in one lane, so limits of other lanes would never apply."""
        if lane not in limits:
            raise UsageError(
                f"limits is by lane ({', '.join(map(repr, limits))}), and lane is not given",
                hint="lane=lambda item: … says which of them an item is in; or give one headway.Limits for all",
            )

    def _isolate(self, choices: MapArguments[Any]) -> None:
        self.executor = choices.get("executor")
        if self.executor not in (None, "ray"):
            raise UsageError(f"executor is {brief(self.executor)}", hint='use "ray", or leave it out')
        self._on_ray(choices)
        self.isolation = "process" if self.executor is not None else choices.get("isolation")
        self.workers = choices.get("workers", 0)
        self.recycle_after = choices.get("recycle_after", 0)
        self.memory_ceiling = choices.get("memory_ceiling", 0)
        self.memory_limit = choices.get("memory_limit", 0)
        if self.isolation not in (None, *get_args(Isolation)):
            raise UsageError(f"isolation is {self.isolation!r}", hint="use process, thread or inline")
        for name in ("workers", "recycle_after", "memory_ceiling", "memory_limit"):
            kind = "a number of bytes" if name.startswith("memory") else "a whole number"
            must_be_whole(getattr(self, name), name, 0, f"use {kind}, 0 or more")
            if name in choices and self.isolation != "process":
                raise UsageError(f"{name} is for worker processes", hint='set isolation="process" too')
        if self.executor is not None and choices.get("isolation") not in (None, "process"):
            raise UsageError('executor="ray" uses processes', hint="leave isolation out")
        self.env = _variables(choices["env"]) if "env" in choices else None
        for name in ("env", "failure_logs", "limit_exit_codes"):
            if name in choices and self.isolation != "process":
                raise UsageError(f"{name} is for worker processes", hint='set isolation="process" too')
        self.detector = detector_of(choices.get("failure_logs"), choices.get("limit_exit_codes", ()))
        if self.isolation == "process":
            usual = MOST_ON_CLUSTER if self.executor is not None else os.cpu_count() or 1
            self.workers = self.workers or usual
            # A call that waits for a free process would hold a slot of its lane.
            self.concurrency = min(self.concurrency or self.workers, self.workers)

    def _on_ray(self, choices: MapArguments[Any]) -> None:
        for name in ("ray_address", "resources"):
            if name in choices and self.executor is None:
                raise UsageError(f"{name} is for a Ray cluster", hint='set executor="ray" too')
        try:
            self.ray_address = checks.ray_address(choices.get("ray_address", "auto"))
            self.resources = checks.resources(dict(choices.get("resources", {})))
        except ValueError as error:
            name = "resources" if "resources" in choices else "ray_address"
            raise UsageError(f"{name}: {error}") from None

    def limits_of(self, lane: str) -> model.LaneLimits:
        """The limits of a lane that is used for the first time."""
        if self.lane_names is not None:
            self.lane_names.met(lane)
        return limits_of(self._limits, lane)

    def estimate(self, item: Any) -> dict[str, Any]:
        """The known size of an item, as fields of its `Unit`."""
        if self._tokens is None:
            return {"chars": len(item)} if isinstance(item, str) else {}
        tokens: object = self._tokens(item) if callable(self._tokens) else self._tokens
        if not isinstance(tokens, int | float) or not 0 <= tokens < 1e15:
            raise UsageError(
                f"tokens is {tokens!r}", hint="use a number of 0 or more, or a function that returns one"
            )
        return {"estimate": Estimate(input_tokens=float(tokens))}
