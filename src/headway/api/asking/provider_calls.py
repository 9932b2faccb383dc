"""The configured providers of this process, for questions of Python programs: their lanes and connections, shared by all calls.

One event loop in a background thread serves all threads and loops of the process, from the first question to the end of the
process. The settings are read again at most once a second. A forked process begins anew.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
import time
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from headway.api.asking.answer_types import AnswerType
from headway.batch.rows import BadRow, Row, from_fields
from headway.batch.schema_adapter import SchemaAdapter
from headway.config import Config, dotenv_of, key_to_send, keys_of, kind_of, load
from headway.config.routing import NAME_ONE, NO_MODEL, Router
from headway.core.model import Estimate, Hint, LaneSpec, Outcome, Settings, Usage
from headway.engine.calls import DONE, CallEnd, Calls, SubmittedCall
from headway.errors import ConfigError, UnitError, UsageError
from headway.providers.adapter import Adapter, Answer, Request
from headway.providers.dialects.structured_output import SchemaRequests
from headway.providers.scrubber import Scrubber, secrets_in_environment
from headway.runtime import loops
from headway.runtime.loops import Background
from headway.wiring.builders import builder_of
from headway.wiring.run_plan import lane_for

#: Settings are read again after so long.
FRESH_S: Final = 1.0

V = TypeVar("V")


class PythonQuestion(msgspec.Struct, frozen=True):
    """One question: the fields of a short row, and what its answer must be."""

    fields: dict[str, Any]
    answer_type: AnswerType | None = None
    timeout_s: float | None = None
    config: str | None = None


class ProviderCalls:
    """The lanes and adapters of one configuration. Lives on one event loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._router = Router(config)
        self._salt = secrets.token_bytes(32)
        self._specs: dict[str, LaneSpec] = {}
        self._adapters: dict[tuple[str, str], Adapter] = {}
        #: Models that were warned about.
        self._suspected: set[str] = set()
        self._opening = asyncio.Lock()
        self._calls = Calls(
            self._specs.__getitem__,
            Settings(
                concurrency=config.run.concurrency,
                max_hold_s=config.run.max_hold_s,
                max_identical_invalid=0,
            ),
            Scrubber.of_environment(),
        )

    async def ask(self, question: PythonQuestion) -> Answer:
        """Send a question, and try again as its lane's settings say. Raises `UnitError` if there is no answer."""
        row = self._row(question)
        dotenv = dotenv_of(self.config)
        provider = self.config.providers[row.provider]
        key = key_to_send(provider, os.environ, dotenv)
        spec, _ = lane_for(self.config, provider, row.model, key, self._salt)
        self._specs.setdefault(spec.key, spec)
        adapter = await self._adapter(row.provider, key)
        if question.answer_type is not None:
            adapter = SchemaAdapter(adapter, provider.kind, question.answer_type)
        timeout_s = self.config.run.timeout_s if question.timeout_s is None else question.timeout_s
        return await _Exchange(self._calls, adapter, row, timeout_s).answer(spec.key)

    def warn_of(self, model: object) -> None:
        """Warn once about a model whose provider is probably misspelt."""
        if isinstance(model, str) and model not in self._suspected:
            warning = self._router.suspected_mistake(model)
            if warning is not None:
                self._suspected.add(model)
                warnings.warn(warning, UserWarning, stacklevel=5)

    def _row(self, question: PythonQuestion) -> Row:
        kind = question.answer_type
        schema = None if kind is None else SchemaRequests(kind.schema)
        row = from_fields(1, dict(question.fields), self._router, schema)
        if isinstance(row, BadRow):
            raise UsageError(
                row.message.replace(NO_MODEL, "no model is named").replace(NAME_ONE, "give model=…")
            )
        provider = self.config.providers[row.provider]
        if not kind_of(provider).is_server:
            raise UsageError(
                f"provider '{row.provider}' is of kind {provider.kind}, which answers no single questions",
                hint="name a model of another provider",
            )
        return row

    async def _adapter(self, name: str, key: str) -> Adapter:
        async with self._opening:
            adapter = self._adapters.get((name, key))
            if adapter is None:
                config, dotenv = self.config, dotenv_of(self.config)
                hidden = secrets_in_environment({**dotenv, **os.environ}, keys_of(config, os.environ, dotenv))
                provider = config.providers[name]
                adapter = builder_of(provider).build(config, provider, key, hidden).adapter
                await adapter.open()
                self._adapters[name, key] = adapter
            return adapter

    async def close(self) -> None:
        """Cancel what is under way, and close every connection."""
        await self._calls.close()
        for adapter in self._adapters.values():
            await adapter.close()


class _Exchange:
    """One question and its attempts, with a repair if the answer does not fit."""

    def __init__(self, calls: Calls, adapter: Adapter, row: Row, timeout_s: float) -> None:
        self._calls, self._adapter, self._timeout_s = calls, adapter, timeout_s
        self._row = row
        self._request = Request(row.path, row.body)
        self._end: asyncio.Future[CallEnd] = asyncio.get_running_loop().create_future()

    async def answer(self, lane: str) -> Answer:
        """The answer. A cancellation cancels the attempt that is under way."""
        self._calls.reopen(lane)  # The reason why it stopped may be gone: a question tries.
        flight = self._calls.submit(
            lane,
            self._attempt,
            self._ended,
            estimate=Estimate(max_output_tokens=self._row.max_tokens),
            chars=self._row.chars,
        )
        try:
            end = await self._end
        except asyncio.CancelledError:
            self._calls.cancel(flight)
            raise
        if end is not DONE:
            raise UnitError(end.code or str(end.status), end.message)
        answer: Answer = flight.value
        return answer

    async def _attempt(self, flight: SubmittedCall) -> Outcome:
        admitted = _CallReports(self._calls, flight)
        answer = await self._adapter.send(self._request, self._timeout_s, admitted)
        flight.value, flight.usage, flight.rate_limit = answer, answer.outcome.usage, answer.rate_limit
        if answer.complaint is not None:
            flight.rejected = answer.complaint.message.replace("--max-tokens", "max_tokens")
            if answer.complaint.again is None:
                flight.final = True
            else:
                self._request = answer.complaint.again
        return answer.outcome

    def _ended(self, flight: SubmittedCall, end: CallEnd) -> None:
        if not self._end.done():
            self._end.set_result(end)


class _CallReports:
    """What the adapter reports of one attempt (`adapter.Admitted`)."""

    def __init__(self, calls: Calls, flight: SubmittedCall) -> None:
        self._calls, self._flight = calls, flight

    def __call__(self, hint: Hint | None, usage: Usage | None, /) -> None:
        self._calls.admitted(self._flight, hint, usage)

    def delayed(self) -> None:
        self._calls.delayed(self._flight)

    def written(self) -> None:
        self._calls.written(self._flight)


# -- one a process ------------------------------------------------------------------------------------------------


class _Shared:
    """The background loop, and the calls of each configuration that was used on it."""

    def __init__(self) -> None:
        self.loop_factory = loops.virtual_loop_factory
        self.background = Background().__enter__()
        self._by_place: dict[tuple[object, ...], tuple[float, ProviderCalls]] = {}
        self._all: list[ProviderCalls] = []
        self._lock = threading.Lock()

    def calls(self, config: str | None) -> ProviderCalls:
        """The calls of the settings that hold here and now."""
        place = (config, os.getcwd(), os.environ.get("HEADWAY_CONFIG"))
        with self._lock:
            read_at, calls = self._by_place.get(place, (0.0, None))
            if calls is None or time.monotonic() - read_at > FRESH_S:
                calls = self._of(_loaded(config))
                self._by_place[place] = (time.monotonic(), calls)
            return calls

    def _of(self, config: Config) -> ProviderCalls:
        for calls in self._all:
            if calls.config == config:
                return calls
        made = self.background.make(lambda: ProviderCalls(config))
        self._all.append(made)
        return made

    def close(self) -> None:
        """Close everything, and end the thread."""
        if self.background.alive:
            for calls in self._all:
                self.background.run(calls.close())
            self.background.__exit__(None, None, None)


def _loaded(path: str | None) -> Config:
    try:
        config = load(None if path is None else Path(path), Path.cwd(), os.environ)
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from None
    if not config.providers:
        raise UsageError(
            "no provider is configured",
            hint="write a headway.toml with 'headway init', or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
        )
    return config


_lock = threading.Lock()
_shared: _Shared | None = None


def _running() -> _Shared:
    global _shared  # noqa: PLW0603 - one a process
    with _lock:
        if _shared is None or _shared.loop_factory is not loops.virtual_loop_factory:
            if _shared is None:
                atexit.register(close_shared)
            _shared = _Shared()
        return _shared


def close_shared() -> None:
    """Close the connections of all questions so far. The next question opens its own."""
    global _shared
    with _lock:
        shared, _shared = _shared, None
    atexit.unregister(close_shared)
    if shared is not None:
        shared.close()


def _forget() -> None:
    """In a forked process: the thread was not copied, and a lock may be held for ever."""
    global _shared, _lock
    _shared, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _asked(question: PythonQuestion) -> tuple[Background, Coroutine[Any, Any, Answer]]:
    shared = _running()
    calls = shared.calls(question.config)
    calls.warn_of(question.fields.get("model"))
    return shared.background, calls.ask(question)


def ask_here(question: PythonQuestion) -> Answer:
    """The answer, for a caller that waits in its thread."""
    background, work = _asked(question)
    return background.wait_or_cancel(work)


async def ask_on_loop(question: PythonQuestion) -> Answer:
    """The answer, for a caller on an event loop."""
    background, work = _asked(question)
    return await background.shared(work)
