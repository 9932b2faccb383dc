"""The files of a tree as an input: their digest, their routes, their units.

Every request has the text of its file in it. So all axes of a file see the same text, and a request that an earlier review has sent has its answer:
the same text, the same question, the same model.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from headway.config import Config, identity_of
from headway.config.routing import Router, Target
from headway.engine.run_spec import UnitGroups
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.reviews.files.source_bytes import SourceBytes, UnreadableSource, source_lines
from headway.reviews.files.splitting import head_of, part_lines
from headway.reviews.findings.review_prompt import PartPrompt, review_questions
from headway.reviews.findings.rubrics import ReviewAxis, axis_digest
from headway.reviews.records import ReviewedFile
from headway.reviews.running.review_form import (
    FILES,
    LEFT_OUT,
    REVIEW,
    TEXTS,
    KeptFile,
    ReviewForm,
    file_value,
    left_out_value,
    text_value,
)
from headway.reviews.running.review_requests import QuestionRequests
from headway.reviews.running.unit_names import VERIFY, axis_unit
from headway.stores.records import Family, Job, NewUnit, StoredRoute
from headway.stores.store import Store

_DIGEST_BYTES: Final = 32
#: Files that are added in one transaction.
_PAGE: Final = 100
#: The number of the one family of an axis.
_FAMILY: Final = 1
#: The head of a file may take this share of a part.
_HEAD_SHARE: Final = 0.2


class ReviewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is reviewed, and how. `model` and `verifier` are names as rows have them; None: the default model, or no verification.

    `read` returns the content of a file as it is now. `diff`: the change of some lines of a file, if only changes are reviewed.
    """

    root: Path
    files: Sequence[ReviewedFile]
    left_out: Mapping[str, str]
    axes: tuple[ReviewAxis, ...]
    model: str | None
    verifier: str | None = None
    max_tokens: int = 0
    instructions: Callable[[str], str] = lambda path: ""
    read: Callable[[str], SourceBytes]
    diff: Callable[[str, int, int], str] = lambda path, first, last: ""
    part_chars: int = 0
    #: What reports may show.
    settings: Mapping[str, Any] = {}
    #: Whether nothing is taken over from earlier reviews.
    asks_again: bool = False


class ReviewSource:
    """The files of a tree, with the questions about them."""

    kind = REVIEW
    #: No id is only a number.
    row_numbers = ""

    def __init__(self, plan: ReviewPlan) -> None:
        self.plan = plan
        self.digest = _digest(plan)

    @property
    def name(self) -> str:
        return self.plan.root.name or str(self.plan.root)

    @property
    def path(self) -> str:
        return str(self.plan.root)

    @property
    def stem(self) -> str:
        return f"review-{self.name}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def form(self) -> dict[str, Any]:
        plan = self.plan
        form = ReviewForm(
            root=str(plan.root),
            axes=tuple(axis.name for axis in plan.axes),
            model=plan.model or "",
            files=len(plan.files),
            verifies=plan.verifier is not None,
            settings=dict(plan.settings),
        )
        return {"review": msgspec.to_builtins(form)}

    def continues(self, store: Store, job: Job) -> bool:
        return True

    def is_sibling(self, job: Job) -> bool:
        return False

    def is_predecessor(self, job: Job) -> bool:
        """Whether a job is an earlier review in this tree, of the same files or of others."""
        return not self.plan.asks_again and job.kind == REVIEW and job.input == self.path

    def ids(self, config: Config) -> Iterator[str]:
        for file in self.plan.files:
            for part in file.parts:
                yield from (axis_unit(file.path, axis.name, part.number) for axis in self.plan.axes)

    def ingest(
        self,
        sink: Sink,
        config: Config,
        job: int,
        *,
        options: IngestOptions,
        check: RouteCheck,
        ready: Callable[[], None] = lambda: None,
    ) -> int:
        """Add the routes, and all files with their texts and units."""
        intake = _ReviewIntake(self.plan, config, sink, job, check)
        files = iter(self.plan.files)
        while page := list(islice(files, _PAGE)):
            intake.add(page)
            options.progress(intake.units)
        intake.add_left_out()
        intake.add_families()
        ready()
        sink.seal(job, intake.units, intake.models, self.digest)
        return 0


def planned_groups(plan: ReviewPlan, files_at_once: int) -> UnitGroups | None:
    """The units of each file of a plan as a group; None if all files may be in flight at once."""
    if not files_at_once:
        return None
    ends = list(accumulate(len(file.parts) * len(plan.axes) for file in plan.files))
    return UnitGroups(files_at_once, lambda index: bisect_right(ends, index) + 1)


def _digest(plan: ReviewPlan) -> str:
    """Covers all that a request depends on, and the tree."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    asked = [str(plan.root), [[axis.name, axis_digest(axis)] for axis in plan.axes]]
    digest.update(msgspec.json.encode([*asked, plan.model, plan.verifier, plan.max_tokens]))
    for file in plan.files:
        changes = [plan.diff(file.path, part.first_line, part.last_line) for part in file.parts]
        own = (plan.instructions(file.path), changes)
        digest.update(msgspec.json.encode([file.path, file.hash, file.parts, own]))
    return digest.hexdigest()


class _ReviewIntake:
    """Adds the files of a job. Routes are labelled with their axis."""

    def __init__(self, plan: ReviewPlan, config: Config, sink: Sink, job: int, check: RouteCheck) -> None:
        self._plan, self._sink, self._job = plan, sink, job
        self._left_out = dict(plan.left_out)
        self._files = self.units = 0
        #: The targets by the names of their models, as the job keeps them.
        self.models: dict[str, tuple[str, str, str]] = {}
        target = self._target(config, plan.model, check)
        self._requests = QuestionRequests(target, plan.max_tokens)
        self._routes = [self._route(target, axis.name) for axis in plan.axes]
        if plan.verifier is not None:
            self._route(self._target(config, plan.verifier, check), VERIFY)

    def add(self, files: Sequence[ReviewedFile]) -> None:
        """Add a page of files."""
        kept: list[bytes] = []
        texts: list[bytes] = []
        units: list[NewUnit] = []
        for file in files:
            lines = self._lines(file)
            if lines is None:
                continue
            first = self.units + len(units)
            kept.append(file_value(KeptFile(file.path, file.size, file.hash, first, file.parts)))
            texts.append(text_value(_text(lines)))
            units += self._units(file, lines)
        self._sink.add_values(self._job, FILES, self._files, kept)
        self._sink.add_values(self._job, TEXTS, self._files, texts)
        self._sink.add_units(self._job, self.units, units)
        self._files += len(kept)
        self.units += len(units)

    def add_left_out(self) -> None:
        """Add the files that are not reviewed, with their reasons."""
        values = [left_out_value(path, reason) for path, reason in sorted(self._left_out.items())]
        self._sink.add_values(self._job, LEFT_OUT, 0, values)

    def add_families(self) -> None:
        """The answers on one axis are alike: forecasts learn from them, axis by axis."""
        parts = sum(len(file.parts) for file in self._plan.files)
        shapes = (
            int.from_bytes(blake2b(axis_digest(axis).encode(), digest_size=7).digest())
            for axis in self._plan.axes
        )
        self._sink.add_families(
            self._job,
            [
                Family(route, _FAMILY, shape, firm=True, rows=parts)
                for route, shape in zip(self._routes, shapes, strict=True)
            ],
        )

    def _lines(self, file: ReviewedFile) -> Sequence[str] | None:
        """The lines of a file; None if it is not the file that was chosen any more."""
        try:
            source = self._plan.read(file.path)
            if source.hash == file.hash:
                return source_lines(source.data)
            self._left_out[file.path] = "it changed while the review began: run it again"
        except UnreadableSource as error:
            self._left_out[file.path] = str(error)
        return None

    def _units(self, file: ReviewedFile, lines: Sequence[str]) -> Iterator[NewUnit]:
        for prompt in _prompts(self._plan, file, lines):
            questions = review_questions(self._plan.axes, prompt)
            for axis, route, question in zip(self._plan.axes, self._routes, questions, strict=True):
                unit = axis_unit(file.path, axis.name, prompt.part - 1)
                row = self._requests.row(unit, question)
                yield NewUnit(unit, route, row.path, row.body, row.chars, int(row.max_tokens), family=_FAMILY)

    def _target(self, config: Config, model: str | None, check: RouteCheck) -> Target:
        target = Router(config).route(model)
        check(target.provider, target.model)
        identity = identity_of(config.providers[target.provider])
        self.models[model or ""] = (target.provider, identity, target.model)
        return target

    def _route(self, target: Target, label: str) -> int:
        return self._sink.add_route(
            self._job, StoredRoute(target.provider, target.kind, target.model, label=label)
        )


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""


def _prompts(plan: ReviewPlan, file: ReviewedFile, lines: Sequence[str]) -> Iterator[PartPrompt]:
    """The parts of a file as questions show them."""
    head = ""
    if len(file.parts) > 1:
        head = "\n".join(head_of(file.path, lines, int(plan.part_chars * _HEAD_SHARE)))
    for part in file.parts:
        yield PartPrompt(
            path=file.path,
            text=_text(part_lines(lines, part)),
            first_line=part.first_line,
            part=part.number + 1,
            parts=len(file.parts),
            head=head if part.number else "",
            instructions=tuple(filter(None, [plan.instructions(file.path)])),
            diff=plan.diff(file.path, part.first_line, part.last_line),
        )
