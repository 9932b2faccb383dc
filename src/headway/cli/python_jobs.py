"""Words for jobs that Python programs made (`headway.map`, `headway.WorkerPool`): values and exceptions, keys and lanes.

They have no requests and no HTTP, and no command can resume them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.display.terminal import echo, echo_text
from headway.display.usage_text import cost_of
from headway.display.words import count
from headway.reports.usage import use_report
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


def origin_lines(job: Job) -> list[str]:
    """Where it comes from, and what it came to."""
    parts = [count(job.attempts, "attempt")]
    if job.input_tokens or job.output_tokens:
        parts.append(f"{job.input_tokens:,} tokens in, {job.output_tokens:,} out")
    if job.refused:
        parts.append(f"{job.refused:,} met a rate limit")
    if cost := cost_of(use_report(job)):
        parts.append(cost)
    return [made_by(job), ", ".join(parts)]


def next_step(job: Job, state: str) -> str:
    """What to do, as a line for people."""
    what = "try the failed ones again" if state == "failed" and job.ended == job.total else "go on"
    return f"to {what}, run its program again: what is finished stays finished"


def unit_fields(job: Job, key: str, result: dict[str, Any]) -> dict[str, Any]:
    """What the JSON of a unit has beside what every unit has."""
    fields: dict[str, Any] = {"kind": job.kind, "key": key}
    if result["response"]:
        return {**fields, "value": result["response"]["body"]}
    return {**fields, "exception": result["error"]["message"]}


def show_unit(job: Job, request: bytes, result: dict[str, Any], *, attempts_shown: bool) -> None:
    """What went in, and what came out. `attempts_shown`: the attempts have shown their prompts and conversations."""
    work = msgspec.json.decode(request)
    if isinstance(work, dict) and job.kind == "pool":
        for name in ("payload",) if attempts_shown else ("prompt", "payload"):
            _show(name, work.get(name))
    if not result["response"]:
        error = result["error"]
        echo(f"{'error' if job.kind == 'pool' else 'exception'} ({error['code']}):")
        echo_text(error["message"] or "none")
        return
    value = result["response"]["body"]
    base64 = ""
    if isinstance(value, dict) and list(value) in ([_BYTES, "value"], [_BYTES, "value", _FLOATS]):
        places = [".".join(map(str, path)) for path in value[_BYTES]]
        base64 = f" (base64: {', '.join(place or 'all of it' for place in places)})" if places else ""
        value = value["value"]
    if job.kind == "pool" and isinstance(value, dict):
        for name, part in value.items():
            if name not in (_OF_ATTEMPTS if attempts_shown else _OF_ATTEMPTS[:3]):
                _show(name, part)
        return
    echo(f"value{base64}:")
    echo_text(_text(value))


def _show(name: str, value: Any) -> None:
    if value not in (None, "", [], {}):
        echo(f"{name}:")
        echo_text(_text(value))


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    )
