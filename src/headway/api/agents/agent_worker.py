"""`headway.AgentWorker`: an agent CLI, or any program, as the worker of a pool and as a function for `map`.

It runs programs by the adapter of `kind = "claude"` and its siblings, so all rules are the same: the prompt on standard input, the
last event decides, refusals by their kinds and resets, nothing outlives its owner.
"""

from __future__ import annotations

import os
import time
import uuid
import weakref
from collections.abc import Mapping
from typing import Any, Final, Generic, Literal, TypeVar, Unpack, overload

import msgspec

from headway.api.agents.agent_options import AgentKind, AgentWorkerOptions, config_of
from headway.api.agents.agent_result import AgentError, AgentRunResult
from headway.api.agents.directory_groups import DirectoryGroups
from headway.api.agents.worker_name import worker_name
from headway.config.argument_checks import brief
from headway.config.duration_setting import LONGEST_S
from headway.config.kinds.programs import AGENT_NAMES, command_of
from headway.core.model import Hint, Kind, Outcome, Usage
from headway.engine.calls import SubmittedCall
from headway.errors import ConfigError, UsageError
from headway.executors.attempt_details import AttemptDetails, encode_details
from headway.executors.commands.command_adapter import CommandAdapter
from headway.providers.adapter import Answer, Request
from headway.providers.call_reports import current_attempt
from headway.providers.scrubber import Scrubber, secrets_in_environment
from headway.wiring.agent_work import writes_to
from headway.wiring.builders.command_builder import CommandBuilder

R_co = TypeVar("R_co", covariant=True)
_encode: Final = msgspec.json.encode
_details: Final = msgspec.json.Decoder(AttemptDetails).decode


class AgentWorker(Generic[R_co]):
    """An agent CLI ("claude", "codex", "gemini-cli", "opencode"), or any program ("command"), as a worker.

    In `WorkerPool` and `run_pool` it is the worker. In `map`, `amap` and `stream` it is the function: an item is a prompt, or
    `{"prompt": …, "agent": {…}}` with options for this item alone; a result is the text of the answer. With `output="json"` or
    `"jsonl"` a program's output is read as JSON. `model`, `directory`, `permission_mode` and the other options: see `AgentWorkerOptions`.

    Agents that may write to one directory run there one at a time, within one `map` or pool, unless `shared_directory=True`.

    A refusal holds the lane until its reset, and the item is tried again. A program is killed with everything that it started when its
    call is cancelled or times out, and when this process ends, even after SIGKILL.

    >>> import headway
    >>> headway.map(headway.AgentWorker("command", command=["tr", "a-z", "A-Z"]), ["north", "south"])
    ['NORTH', 'SOUTH']
    """

    #: Pools and `map` leave the timeout to the worker, which ends the program and reports what it has done so far.
    keeps_timeout: Final = True

    @overload
    def __init__(
        self: AgentWorker[str],
        kind: AgentKind,
        *,
        output: Literal["text"] = "text",
        **options: Unpack[AgentWorkerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: AgentWorker[Any],
        kind: Literal["command"],
        *,
        output: Literal["json", "jsonl"],
        **options: Unpack[AgentWorkerOptions],
    ) -> None: ...
    def __init__(self, kind: str, *, output: str = "text", **options: Unpack[AgentWorkerOptions]) -> None:
        self._arguments = (kind, output, dict(options))
        settings: dict[str, Any] = dict(options)
        self._shares_directory = _checked(settings.pop("shared_directory", False))
        if kind == "command" or output != "text":
            settings["output"] = output
        config, provider = config_of(kind, settings)
        self._root, self._provider = config.root, provider
        secrets = tuple(secrets_in_environment(os.environ))
        try:
            adapter = CommandBuilder().build(config, provider, "", secrets).adapter
        except ConfigError as error:
            text = error.message.rpartition(": ")[2]
            raise UsageError(f"AgentWorker: {text}", hint="install it, or name it: command=[…]") from None
        assert isinstance(adapter, CommandAdapter)
        self._adapter = adapter
        self._scrub = Scrubber(secrets)
        self._is_text = kind != "command" or command_of(provider).output == "text"
        #: What it asks: a job in a database belongs to a worker of this name (`job_names`).
        self.headway_name = worker_name(type(self).__qualname__, provider, self._scrub)
        weakref.finalize(self, adapter.end_guardian)

    def __repr__(self) -> str:
        kind, _, options = self._arguments
        return f"AgentWorker({', '.join([repr(kind), *(f'{name}={value!r}' for name, value in options.items())])})"

    def directory_groups(self) -> DirectoryGroups | None:
        """The calls of one `map` or pool that run one at a time; None if all may run side by side."""
        if self._provider.kind not in AGENT_NAMES or self._shares_directory:
            return None
        return DirectoryGroups(lambda row: writes_to(self._root, self._provider, row))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, self._arguments

    async def execute(self, prompt: str, payload: Any = None, timeout: float = 600.0) -> AgentRunResult:  # noqa: ASYNC109 - the contract of a pool's worker
        """Run the program once, for a pool. `payload` may have an `"agent"` with options for this unit. Never raises for a failure."""
        own = payload.get("agent") if isinstance(payload, Mapping) else None
        began_at = time.monotonic()
        result = self._result(prompt, await self._send(prompt, own, timeout or LONGEST_S))
        result.execution_time = time.monotonic() - began_at
        return result

    async def __call__(self, item: str | Mapping[str, Any]) -> R_co:
        """Run the program once, for `map`: returns its answer, or raises `AgentError`."""
        return await self.call_within(LONGEST_S, item)

    async def call_within(self, timeout_s: float, item: str | Mapping[str, Any]) -> R_co:
        """The same with a timeout, at which the program is ended."""
        prompt, own = _prompt_of(item)
        answer = await self._send(prompt, own, timeout_s)
        result = self._result(prompt, answer)
        flight = current_attempt.get()
        if isinstance(flight, SubmittedCall):
            flight.usage, flight.rate_limit = answer.outcome.usage, answer.rate_limit
            if flight.keeps_details:
                flight.details = await encode_details(
                    msgspec.structs.replace(result.details, prompt=prompt), self._scrub
                )
        if not result.success:
            raise AgentError(result)
        value: R_co = result.output
        return value

    async def _send(self, prompt: str, own: Any, timeout_s: float) -> Answer:
        row = {"prompt": prompt} if own is None else {"prompt": prompt, "agent": own}
        flight = current_attempt.get()
        session, attempt = uuid.uuid4().hex, 1
        if isinstance(flight, SubmittedCall):
            # One conversation for all attempts of a call.
            session = flight.session = flight.session or session
            attempt = flight.attempts
        try:
            body = _encode(row)
        except (TypeError, UnicodeError) as error:
            text = f"the prompt and the options cannot be written as JSON: {error}"
            return Answer(Outcome(Kind.INVALID, message=text))
        request = Request("agent", body, session=session, attempt=attempt)
        return await self._adapter.send(request, timeout_s, _Admitted())

    def _result(self, prompt: str, answer: Answer) -> AgentRunResult:
        outcome, usage = answer.outcome, answer.outcome.usage or Usage()
        details = _details(answer.note) if answer.note else AttemptDetails()
        return AgentRunResult(
            outcome.kind is None,
            self._output(answer.body) if outcome.kind is None else None,
            outcome.message,
            output_files=details.files,
            rendered_prompt=prompt,
            conversation=details.messages,
            session_id=details.session_id,
            cost_usd=usage.cost_usd or 0.0,
            outcome=outcome,
            rate_limit=answer.rate_limit,
            details=details,
        )

    def _output(self, body: bytes) -> Any:
        value = msgspec.json.decode(body)
        return value["content"][0]["text"] if self._is_text else value


class _Admitted:
    """Nothing is to be reported: a call has no other units that wait for it."""

    def __call__(self, hint: Hint | None, usage: Usage | None, /) -> None:
        """The program runs."""

    def delayed(self) -> None:
        """Programs need no connection."""

    def written(self) -> None:
        """Programs need no connection."""


def _prompt_of(item: object) -> tuple[str, Any]:
    """The prompt of an item of `map`, and its own options."""
    prompt, own = (item.get("prompt"), item.get("agent")) if isinstance(item, Mapping) else (item, None)
    if isinstance(prompt, str):
        return prompt, own
    given = f"one whose prompt is {brief(prompt)}" if isinstance(item, Mapping) else brief(item)
    raise UsageError(
        f'an item for an AgentWorker is a prompt (a text), or {{"prompt": "…", "agent": {{…}}}}; not {given}'
    )


def _checked(shared_directory: object) -> bool:
    if not isinstance(shared_directory, bool):
        raise UsageError(f"AgentWorker: shared_directory is {shared_directory!r}", hint="use True or False")
    return shared_directory


def _made(kind: Any, output: Any, options: AgentWorkerOptions) -> AgentWorker[Any]:
    return AgentWorker(kind, output=output, **options)
