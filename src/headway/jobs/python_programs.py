"""The jobs that Python programs make: `headway.map` and `headway.stream` with `db=`, and `headway.WorkerPool`.

Their units are calls: values and exceptions, keys and lanes, no HTTP. The program adds the units and runs them (`headway.api`);
no command can resume the job, and there is no output file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

import msgspec

from headway.batch.job_kind import BatchKind
from headway.errors import UsageError
from headway.jobs.base import JobKind
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.stores.records import Job
from headway.stores.store import Store

#: How `headway.map` marks a value with bytes in it: where they are, and the value with base64 in their places.
_BYTES: Final = "$bytes"
#: The same for NaN and infinities, which stand as texts.
_FLOATS: Final = "$floats"
#: What a worker's result has that its attempt shows: always, and with its conversation.
_OF_ATTEMPTS: Final = (
    "success", "execution_time", "cost_usd", "rendered_prompt", "conversation", "session_id", "output_files",
)  # fmt: skip
#: Results are exported as those of a batch are.
_BATCH: Final = BatchKind()


class ProgramKind(JobKind):
    """What the jobs of all programs have in common."""

    sends_requests = False
    #: The function or class that makes them.
    made_by: ClassVar[str]

    def input_name(self, job: Job) -> str:
        """What is called: "headway.map of reviews.ask"."""
        return f"{self.made_by} of {job.input}"

    def origin(self, job: Job) -> str:
        """The same."""
        return self.input_name(job)

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """The program goes on by itself when it is run again."""
        what = "try the failed ones again" if state == "failed" and job.ended == job.total else "go on"
        return f"to {what}, run its program again: what is finished stays finished"

    def command_refusal(self, job: Job) -> UsageError:
        """Only signals reach a program."""
        return UsageError(
            f"job {job.name} is a Python program's ({job.kind} of {job.input}), which hears no commands",
            hint="stop that program with Ctrl-C or SIGTERM: what is finished stays finished",
        )

    def resume_refusal(self, job: Job) -> UsageError:
        """The store has results, but not the function and its items."""
        return UsageError(
            f"job {job.name} is a Python program's ({job.kind} of {job.input})",
            hint="run that program again: what is finished stays finished",
        )

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """As for a batch: a value is the body of the response."""
        return _BATCH.rows(store, job, first, last)

    def check_export(self, path: Path) -> None:
        """As for a batch."""
        _BATCH.check_export(path)

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        """As for a batch."""
        _BATCH.export(file, name, store, job, safe_cells=safe_cells)

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """What went in, and the value or the exception that came out."""
        result = msgspec.json.decode(unit.result)
        fields: dict[str, Any] = {"kind": job.kind, "key": unit.custom_id}
        if result["response"]:
            value = result["response"]["body"]
            fields["value"] = value
            out = self._value_sections(value, attempts_shown=bool(unit.notes))
        else:
            error = result["error"]
            fields["exception"] = error["message"]
            out = [Section(f"{self._error_name} ({error['code']})", error["message"] or "none")]
        return UnitText(
            where=f"lane {unit.provider}",
            sections=[*self._input_sections(unit), *out],
            fields=fields,
        )

    _error_name: ClassVar[str] = "exception"

    def _input_sections(self, unit: UnitReport) -> list[Section]:
        """What went in, where the records have it."""
        return []

    def _value_sections(self, value: Any, *, attempts_shown: bool) -> list[Section]:
        """What came out. `attempts_shown`: the attempts have shown their prompts and conversations."""
        value, base64 = _unmarked(value)
        return [Section(f"value{base64}", _text(value))]


class MapKind(ProgramKind):
    """`headway.map` and `headway.stream`. Their items are not recorded, only what came of them."""

    name = "map"
    made_by = "headway.map"


class PoolKind(ProgramKind):
    """`headway.WorkerPool`: a unit is a prompt and a payload, its value a worker's result."""

    name = "pool"
    made_by = "headway.WorkerPool"
    _error_name = "error"

    def _input_sections(self, unit: UnitReport) -> list[Section]:
        work = msgspec.json.decode(unit.request.body)
        if not isinstance(work, dict):
            return []
        names = ("payload",) if unit.notes else ("prompt", "payload")
        return _sections({name: work.get(name) for name in names})

    def _value_sections(self, value: Any, *, attempts_shown: bool) -> list[Section]:
        value, base64 = _unmarked(value)
        if not isinstance(value, dict):
            return [Section(f"value{base64}", _text(value))]
        shown = _OF_ATTEMPTS if attempts_shown else _OF_ATTEMPTS[:3]
        return _sections({name: part for name, part in value.items() if name not in shown})


def _unmarked(value: Any) -> tuple[Any, str]:
    """A value as it was before bytes and floats in it were marked, and where base64 stands for bytes."""
    if not (isinstance(value, dict) and list(value) in ([_BYTES, "value"], [_BYTES, "value", _FLOATS])):
        return value, ""
    places = [".".join(map(str, path)) for path in value[_BYTES]]
    base64 = f" (base64: {', '.join(place or 'all of it' for place in places)})" if places else ""
    return value["value"], base64


def _sections(values: dict[str, Any]) -> list[Section]:
    """One for each value that is not empty."""
    return [Section(name, _text(value)) for name, value in values.items() if value not in (None, "", [], {})]


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    )
