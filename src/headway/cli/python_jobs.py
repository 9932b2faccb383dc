"""Jobs that Python programs made (`headway.map`, `headway.WorkerPool`), in the words that fit them: values and exceptions,
keys and lanes; no requests, no HTTP, and nothing that a command could go on with.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.display.account import cost_of
from headway.display.terminal import echo
from headway.display.words import count
from headway.stores.records import Job

_MADE_BY: Final = {"map": "headway.map", "pool": "headway.WorkerPool"}
#: How `headway.map` marks a value with bytes in it: where they are, and the value with base64 in their places.
_BYTES: Final = "$bytes"
#: What a worker's result has that its attempt shows: always, and with its conversation.
_OF_ATTEMPTS: Final = (
    "success", "execution_time", "cost_usd", "rendered_prompt", "conversation", "session_id", "output_files",
)  # fmt: skip
#: The same for NaN and infinities, which stand as texts.
_FLOATS: Final = "$floats"


def is_python_job(job: Job) -> bool:
    """Whether a program made it."""
    return job.kind in _MADE_BY


def made_by(job: Job) -> str:
    """What is in the place of an input: "headway.map of reviews.ask"."""
    return f"{_MADE_BY[job.kind]} of {job.input}"


def status_lines(job: Job) -> list[str]:
    """Where it comes from, and what it came to."""
    parts = [count(job.attempts, "attempt")]
    if job.input_tokens or job.output_tokens:
        parts.append(f"{job.input_tokens:,} tokens in, {job.output_tokens:,} out")
    if job.refused:
        parts.append(f"{job.refused:,} met a rate limit")
    if cost := cost_of(job):
        parts.append(cost)
    return [f"  {made_by(job)}", f"  {', '.join(parts)}"]


def next_step(job: Job, state: str) -> str:
    """What to do, as a line for people."""
    what = "try the failed ones again" if state == "failed" and job.ended == job.total else "go on"
    return f"to {what}, run its program again: what is finished stays finished"


def facts(job: Job, key: str, result: dict[str, Any]) -> dict[str, Any]:
    """What a program is told of a unit beside what every unit has."""
    told: dict[str, Any] = {"kind": job.kind, "key": key}
    if result["response"]:
        return {**told, "value": result["response"]["body"]}
    return {**told, "exception": result["error"]["message"]}


def show_unit(job: Job, asked: bytes, result: dict[str, Any], *, told: bool) -> None:
    """What went in, and what came out. `told`: the attempts have shown their prompts and conversations."""
    work = msgspec.json.decode(asked)
    if isinstance(work, dict) and job.kind == "pool":
        for name in ("payload",) if told else ("prompt", "payload"):
            _show(name, work.get(name))
    if not result["response"]:
        error = result["error"]
        echo(f"{'error' if job.kind == 'pool' else 'exception'} ({error['code']}):")
        echo(error["message"] or "none")
        return
    value = result["response"]["body"]
    base64 = ""
    if isinstance(value, dict) and list(value) in ([_BYTES, "value"], [_BYTES, "value", _FLOATS]):
        places = [".".join(map(str, path)) for path in value[_BYTES]]
        base64 = f" (base64: {', '.join(place or 'all of it' for place in places)})" if places else ""
        value = value["value"]
    if job.kind == "pool" and isinstance(value, dict):
        for name, part in value.items():
            if name not in (_OF_ATTEMPTS if told else _OF_ATTEMPTS[:3]):
                _show(name, part)
        return
    echo(f"value{base64}:")
    echo(_text(value))


def _show(name: str, value: Any) -> None:
    if value not in (None, "", [], {}):
        echo(f"{name}:")
        echo(_text(value))


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    )
