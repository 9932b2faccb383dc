"""The jobs that Python programs make: `headway.map` and `headway.stream` with `db=`, and `headway.WorkerPool`.

Their units are calls: values and exceptions, keys and lanes, no HTTP. The program adds and runs the units (`headway.api`). No
command can resume the job, and there is no output file.
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

#: `headway.map` stores a value that contains bytes as the paths of the bytes, and the value with base64 in their places.
_BYTES: Final = "$bytes"
#: The same for NaN and infinities, which are stored as texts.
_FLOATS: Final = "$floats"
#: Fields of a worker's result that its attempts show: the first three always, the others if the attempt has notes.
_SHOWN_BY_ATTEMPTS: Final = (
    "success", "execution_time", "cost_usd", "rendered_prompt", "conversation", "session_id", "output_files",
)  # fmt: skip
#: Results are exported in the format of a batch.
_BATCH: Final = BatchKind()


class ProgramKind(JobKind):
    """The common part of both kinds."""

    sends_requests = False
    #: The public function or class that makes these jobs.
    made_by: ClassVar[str]

    def input_name(self, job: Job) -> str:
        """The function that is called: "headway.map of reviews.ask"."""
        return f"{self.made_by} of {job.input}"

    def origin(self, job: Job) -> str:
        """The same as `input_name`: there is no output file."""
        return self.input_name(job)

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """Run the program again: it continues where it stopped."""
        what = "retry the failed calls" if state == "failed" and job.ended == job.total else "resume"
        return f"to {what}, run its program again: finished calls are not repeated"

    def command_refusal(self, job: Job) -> UsageError:
        """A Python program reacts to signals only."""
        return UsageError(
            f"job {job.name} belongs to a Python program ({job.kind} of {job.input}), which takes no commands",
            hint="stop that program with Ctrl-C or SIGTERM: finished calls are kept",
        )

    def resume_refusal(self, job: Job) -> UsageError:
        """The store has the results, but not the function and its items."""
        return UsageError(
            f"job {job.name} belongs to a Python program ({job.kind} of {job.input})",
            hint="run that program again: finished calls are not repeated",
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
        """The input, and the value or the exception."""
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
        """The input, if it is recorded."""
        return []

    def _value_sections(self, value: Any, *, attempts_shown: bool) -> list[Section]:
        """The value. `attempts_shown`: prompts and conversations are shown with the attempts."""
        value, base64 = _unmarked(value)
        return [Section(f"value{base64}", _text(value))]


class MapKind(ProgramKind):
    """`headway.map` and `headway.stream`. Their items are not recorded, only the results."""

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
        shown = _SHOWN_BY_ATTEMPTS if attempts_shown else _SHOWN_BY_ATTEMPTS[:3]
        return _sections({name: part for name, part in value.items() if name not in shown})


def _unmarked(value: Any) -> tuple[Any, str]:
    """The value without the marks of bytes and floats, and a note of where it has base64."""
    if not (isinstance(value, dict) and list(value) in ([_BYTES, "value"], [_BYTES, "value", _FLOATS])):
        return value, ""
    places = [".".join(map(str, path)) for path in value[_BYTES]]
    base64 = f" (base64: {', '.join(place or 'all of it' for place in places)})" if places else ""
    return value["value"], base64


def _sections(values: dict[str, Any]) -> list[Section]:
    """One section for each value that is not empty."""
    return [Section(name, _text(value)) for name, value in values.items() if value not in (None, "", [], {})]


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    )
