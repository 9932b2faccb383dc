"""The results of a review's files, as a fold of the records of their units. Nothing is stored of them.

A file is DONE only if all its axes are: one without an answer is named, and the file runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from headway.batch.answer_text import answer_of
from headway.core.unit_states import GOOD
from headway.reviews.findings.answer_schema import Unreadable
from headway.reviews.findings.checking import AxisAnswer, read_answer, read_correction
from headway.reviews.findings.merging import merged
from headway.reviews.findings.silencing import silenced
from headway.reviews.findings.source_text import SourceText
from headway.reviews.findings.verification import after_verdicts, must_be_verified
from headway.reviews.records import FileReview, FileStatus, Finding
from headway.reviews.running.review_form import KeptFiles, form_of, kept_text
from headway.reviews.running.unit_names import VERIFY, verify_unit
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store

#: Units that are read at once.
_PAGE: Final = 500
#: From the state of a unit to that of its axis. A unit that was skipped or cancelled has not been reviewed.
_STATUS: Final[Mapping[str, FileStatus]] = {
    "pending": "PENDING",
    "assigned": "IN_PROGRESS",
    "running": "IN_PROGRESS",
    "succeeded": "DONE",
    "cached": "CACHED",
    "timed_out": "TIMEOUT",
    "failed": "ERROR",
    "skipped": "PENDING",
    "cancelled": "PENDING",
}
_ANSWERED: Final[frozenset[FileStatus]] = frozenset({"DONE", "CACHED"})
#: Of several states the first of these is the state of all together.
_WORST_FIRST: Final[Sequence[FileStatus]] = ("IN_PROGRESS", "PENDING", "ERROR", "TIMEOUT", "DONE", "CACHED")


def status_of_all(states: Iterable[FileStatus]) -> FileStatus:
    """The state of a file by those of its axes: CACHED if all are, DONE if all have an answer."""
    present = set(states)
    return next(status for status in _WORST_FIRST if status in present)


class FileResults:
    """Reads the results of one job."""

    def __init__(self, store: Store, job: Job) -> None:
        self.store, self._job = store, job
        self._form = form_of(job)
        self.files = KeptFiles(store, job)

    def all(self) -> Iterator[FileReview]:
        """Every file, in order."""
        numbers: list[int] = []
        size = 0
        for number, file in enumerate(self.files):
            numbers.append(number)
            size += self.files.count(file)
            if size >= _PAGE:
                yield from self.of(numbers)
                numbers, size = [], 0
        yield from self.of(numbers)

    def of(self, numbers: Sequence[int]) -> Iterator[FileReview]:
        """The results of some files, by their numbers, in order."""
        units = self._units(numbers)
        verdicts = self._verdicts(numbers)
        firsts = self.store.first_answers(self._job.id, [unit.index for unit in units.values()])
        for number in numbers:
            file = self.files[number]
            own = [units[index] for index in range(file.first, file.first + self.files.count(file))]
            yield self._review(number, own, verdicts.get(verify_unit(file.path)), firsts)

    def findings(self, number: int) -> tuple[Finding, ...] | None:
        """The findings of a file before they are verified; None if an axis has no answer."""
        file = self.files[number]
        own = list(self._units([number]).values())
        if any(unit.status not in GOOD for unit in own):
            return None
        firsts = self.store.first_answers(self._job.id, [unit.index for unit in own])
        return self._findings(SourceText(file.path, kept_text(self.store, self._job.id, number)), own, firsts)

    def _units(self, numbers: Sequence[int]) -> dict[int, UnitResult]:
        """The units of files by index. Files that are next to each other are read together."""
        units: dict[int, UnitResult] = {}
        runs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
        for _, run in runs:
            files = [self.files[number] for _, number in run]
            count = sum(map(self.files.count, files))
            page = self.store.results(self._job.id, files[0].first - 1, count)
            units.update((unit.index, unit) for unit in page)
        return units

    def _verdicts(self, numbers: Sequence[int]) -> dict[str, UnitResult]:
        if not self._form.verifies:
            return {}
        ids = [verify_unit(self.files[number].path) for number in numbers]
        return {unit.custom_id: unit for unit in self.store.results_by_id(self._job.id, ids)}

    def _review(
        self,
        number: int,
        units: Sequence[UnitResult],
        verdict: UnitResult | None,
        firsts: Mapping[int, bytes],
    ) -> FileReview:
        file = self.files[number]
        axes = self._axes(units)
        everything = [*units, *([verdict] if verdict is not None else [])]
        findings: tuple[Finding, ...] = ()
        if any(unit.status in GOOD for unit in units):
            source = SourceText(file.path, kept_text(self.store, self._job.id, number))
            findings = self._findings(source, units, firsts)
        if verdict is not None:
            axes[VERIFY] = _STATUS[verdict.status]
            if verdict.status in GOOD:
                findings = _after_verdicts(findings, answer_of(verdict.body or b""))
        elif self._form.verifies and must_be_verified(findings) and set(axes.values()) <= _ANSWERED:
            axes[VERIFY] = "PENDING"
        return FileReview(
            path=file.path,
            hash=file.hash,
            status=status_of_all(axes.values()),
            updated_utc=max((unit.finished_utc for unit in everything if unit.finished_utc), default=None),
            error=_error_of(everything),
            axes=axes,
            findings=findings,
            cost_usd=_cost_of(everything),
            tokens=sum((unit.input_tokens or 0) + (unit.output_tokens or 0) for unit in everything),
        )

    def _axes(self, units: Sequence[UnitResult]) -> dict[str, FileStatus]:
        """The state of each axis. Units of a part are in the order of the axes."""
        names = self._form.axes
        states = {name: units[place :: len(names)] for place, name in enumerate(names)}
        return {name: status_of_all(_STATUS[unit.status] for unit in own) for name, own in states.items()}

    def _findings(
        self, source: SourceText, units: Sequence[UnitResult], firsts: Mapping[int, bytes]
    ) -> tuple[Finding, ...]:
        """The findings of all axes and parts, merged."""
        names = self._form.axes
        found = [
            finding
            for place, unit in enumerate(units)
            if unit.status in GOOD
            for finding in _answer(unit, source, names[place % len(names)], firsts).all_findings
        ]
        return silenced(merged(found, names), source)


def _answer(unit: UnitResult, source: SourceText, axis: str, firsts: Mapping[int, bytes]) -> AxisAnswer:
    """What a unit's answer says, together with the one that it corrects."""
    text = answer_of(unit.body or b"")
    if unit.index not in firsts:
        return read_answer(text, source, axis)
    return read_correction(read_answer(answer_of(firsts[unit.index]), source, axis), text, source, axis)


def _after_verdicts(findings: tuple[Finding, ...], text: str) -> tuple[Finding, ...]:
    """The findings with what an answer refutes. One that cannot be read refutes nothing."""
    try:
        return after_verdicts(findings, text)
    except Unreadable:
        return findings


def _cost_of(units: Sequence[UnitResult]) -> float | None:
    """None: no price is known."""
    costs = [unit.cost_usd for unit in units if unit.cost_usd is not None]
    return sum(costs) if costs else None


def _error_of(units: Sequence[UnitResult]) -> str:
    """Why the first unit that has no answer has none."""
    return next(
        (unit.message or str(unit.code or "") for unit in units if unit.status in ("failed", "timed_out")), ""
    )
