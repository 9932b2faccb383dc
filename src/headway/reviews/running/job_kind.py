"""The kind of job that `headway review` makes: a unit for each part of each file on each axis.

The job keeps the files with their texts, so `headway resume` and reports need no file of the tree. Its results are a `ReviewView`; `wiring`
writes them as reports and as a review for each file, because the formats are in `display`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from headway.batch.answer_text import answer_of
from headway.config import Config
from headway.engine.run_spec import RouteAnswerCheck, UnitGroups
from headway.errors import UsageError
from headway.jobs.base import JobOutput, JobSource, OutputOptions, ReportKind, RoutePolicy
from headway.jobs.run_settings import limits_of
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.reviews.files.own_reports import holds_own_report
from headway.reviews.records import ReviewView
from headway.reviews.running.answer_check import route_check
from headway.reviews.running.file_results import FileResults
from headway.reviews.running.review_form import REVIEW, first_units, form_of
from headway.reviews.running.review_requests import turns_in
from headway.reviews.running.unit_names import VERIFY
from headway.reviews.running.verification_units import VerificationUnits
from headway.reviews.running.view import review_view
from headway.stores.records import Job, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow

#: The waits of retries, unless the settings of a provider have others (DESIGN §2).
_PATIENT: Final = RoutePolicy(base_s=5.0, cap_s=120.0, replaces_default=True)


class ReviewKind(ReportKind):
    """Files × axes."""

    name = REVIEW
    reports = "reviews"

    # -- files into a job -------------------------------------------------------------------------------------------------

    def reads(self, path: str) -> bool:
        """None: a review has a command of its own."""
        return False

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """`headway review` opens its files itself: it needs the settings."""
        raise UsageError(f"{path} is a review", hint=f"run it with 'headway review {path}'")

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """The command names the folder: it is beside the database."""
        raise AssertionError("the output of a review is always named")

    # -- while it runs ----------------------------------------------------------------------------------------------------

    def route_check(self, job: Job, routes: Sequence[StoredRoute]) -> RouteAnswerCheck:
        return route_check(routes)

    def growth(self, job: Job) -> Grow | None:
        return VerificationUnits(job) if form_of(job).verifies else None

    def unit_groups(self, store: Store, job: Job) -> UnitGroups | None:
        """The units of a file are a group. Those that verify have none: their file is judged already."""
        most = limits_of(job).concurrency
        if not most:
            return None
        files = first_units(store, job)
        return UnitGroups(most, lambda index: files.number_of(index) + 1 if index < files.units else 0)

    def with_providers(self, config: Config, job: Job) -> Config:
        """In input order, so that files are finished one after the other."""
        return msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, order="input"))

    def route_policies(self, job: Job) -> Mapping[str, RoutePolicy]:
        return dict.fromkeys((*form_of(job).axes, VERIFY), _PATIENT)

    def locked_folder(self, job: Job) -> Path:
        """One review runs at a time in a tree, whatever its records and its folder of reviews are."""
        return Path(form_of(job).root)

    # -- results ----------------------------------------------------------------------------------------------------------

    def view(self, store: Store, job: Job) -> ReviewView:
        return review_view(store, job)

    def check_output(self, options: OutputOptions) -> None:
        """A folder; reports are further files."""
        if options.form != "folder":
            raise UsageError("the reviews of files go into a folder", hint="name it with --out-dir")

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Reviews of files are replaced, whatever review they are of: they are about the same tree. So are reports of reviews."""
        if make:
            options.path.mkdir(parents=True, exist_ok=True)
        if store is None or options.force:
            return
        own = {path for one in store.jobs() if one.kind == REVIEW for path in _reports_of(one, job)}
        for path in options.more:
            if path.exists() and str(path) not in own and not holds_own_report(path):
                raise UsageError(
                    f"{path} already exists and is no report of a review", hint="replace it with --force"
                )

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        """Reports are made by `wiring`."""
        raise AssertionError("reviews are written by wiring.reviews.review_folder")

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """Every file as it is now, a line of JSON each, whatever units are asked for."""
        for review in FileResults(store, job).all():
            yield msgspec.json.encode(review) + b"\n"

    def check_export(self, path: Path) -> None:
        """JSON lines; other formats are reports."""
        if path.suffix != ".jsonl":
            raise UsageError(f"{path}: files are written as .jsonl", hint="name a .jsonl file")

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        file.writelines(self.rows(store, job, 0, 0))

    # -- texts ------------------------------------------------------------------------------------------------------------

    def input_name(self, job: Job) -> str:
        return f"{Path(job.input).name}/"

    def origin(self, job: Job) -> str:
        form = form_of(job)
        files = "1 file" if form.files == 1 else f"{form.files:,} files"
        return f"review {job.input}, {files}, {', '.join(form.axes)}; results {job.out}"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """What was asked, and what came back."""
        result = msgspec.json.decode(unit.result)
        asked = "\n\n".join(text for _, text in turns_in(bytes(unit.request.body)))
        sections = [Section("question", asked)]
        if result["response"]:
            body = msgspec.json.encode(result["response"]["body"])
            sections.append(Section("answer", answer_of(body)))
        else:
            sections.append(Section("error", msgspec.json.encode(result["error"])))
        return UnitText(where=f"{unit.provider}/{unit.model}", sections=sections, remarks=[])


def _reports_of(one: Job, job: str) -> list[str]:
    """The reports that a review has written. The job itself has written none before its first run."""
    if one.name == job and one.started_utc is None:
        return []
    return list(one.settings.get("more_outputs", ()))
