"""The kind of job that `headway eval CONFIG` makes: a unit for each cell of a matrix, and one for everything that has to be run to judge it.

The job keeps the checked eval with its tests, so `headway resume` needs no file again except those with code. Its results are an `EvalView`;
`wiring` writes them as reports, because the formats of reports are in `display`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from headway.batch.answer_text import answer_of
from headway.batch.outputs.ownership import wrote
from headway.config import Config
from headway.engine.run_spec import Render
from headway.errors import UsageError
from headway.evals.records import EvalView
from headway.evals.running.cell_requests import LateCellRequests
from headway.evals.running.eval_form import form_of, with_own
from headway.evals.running.eval_source import ANSWERS, CODE, EVAL, EvalSource, with_eval_providers
from headway.evals.running.planned_units import UnitPlan
from headway.evals.running.target_requests import prompt_of
from headway.evals.running.view import cell_results, eval_view
from headway.jobs.base import JobOutput, JobSource, OutputOptions, ReportKind, RoutePolicy
from headway.jobs.run_settings import limits_of
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.stores.records import Job
from headway.stores.store import Store

#: An attempt at code is its last: what failed fails again.
_ONCE: Final = RoutePolicy(attempts=1)


class EvalKind(ReportKind):
    """Prompts × providers × tests."""

    name = EVAL
    reports = "evals"

    # -- a file into a job ------------------------------------------------------------------------------------------------

    def reads(self, path: str) -> bool:
        """None: an eval has a command of its own."""
        return False

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """`headway eval` opens its files itself: a configuration needs the settings."""
        raise UsageError(f"{path} is an eval", hint=f"run it with 'headway eval {path}'")

    def with_named_providers(self, config: Config, source: JobSource) -> Config:
        assert isinstance(source, EvalSource)
        return with_eval_providers(config, source.spec)

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """promptfooconfig.yaml → promptfooconfig.results.json"""
        named = f"{flags['name']}." if flags.get("name") else ""
        return Path(path).with_name(f"{Path(path).stem}.{named}results.json")

    # -- while it runs ----------------------------------------------------------------------------------------------------

    def renderer(self, job: Job) -> Render:
        return LateCellRequests(job)

    def with_providers(self, config: Config, job: Job) -> Config:
        """With the providers of the eval, and the limits of the whole run that its file sets and nothing else does."""
        limits, run = limits_of(job), config.run
        run = msgspec.structs.replace(
            run,
            concurrency=run.concurrency or limits.concurrency,
            max_duration_s=run.max_duration_s or limits.max_duration_s,
        )
        own = with_own(config, job)
        return msgspec.structs.replace(own, run=run)

    def route_policies(self, job: Job) -> Mapping[str, RoutePolicy]:
        """The timeout of the file is for answers; code is run once."""
        return {ANSWERS: RoutePolicy(timeout_s=limits_of(job).timeout_s or None), CODE: _ONCE}

    def delay_s(self, job: Job) -> float:
        return limits_of(job).delay_s

    # -- results ------------------------------------------------------------------------------------------------------------

    def view(self, store: Store, job: Job) -> EvalView:
        return eval_view(store, job)

    def check_output(self, options: OutputOptions) -> None:
        """Files; `wiring` knows the formats."""
        if options.form != "file":
            raise UsageError("the results of an eval are files", hint="name a file with --out")

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Reports of any eval are replaced: a changed eval is a new job, and its reports stay where they were. Other files are not."""
        if store is None or options.force:
            return
        for path in (options.path, *options.more):
            if path.exists() and wrote(store, str(path)) is None:
                raise UsageError(
                    f"{path} already exists and is no report of an eval", hint="replace it with --force"
                )

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        """The cells as JSON lines; reports are made by `wiring`."""
        raise AssertionError("reports are written by wiring.report_files")

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """Every cell as it is now, a line of JSON each, whatever units are asked for."""
        for cell in cell_results(store, job):
            yield msgspec.json.encode(cell) + b"\n"

    def check_export(self, path: Path) -> None:
        """JSON lines; other formats are reports."""
        if path.suffix != ".jsonl":
            raise UsageError(f"{path}: cells are written as .jsonl", hint="name a .jsonl file")

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        file.writelines(self.rows(store, job, 0, 0))

    # -- texts ----------------------------------------------------------------------------------------------------------------

    def input_name(self, job: Job) -> str:
        return Path(job.input).name

    def origin(self, job: Job) -> str:
        form = form_of(job)
        rows = f"{form.rows:,} row{'s' * (form.rows != 1)}"
        return f"eval {job.input}, {rows}, {form.cells:,} cell{'s' * (form.cells != 1)}, results {job.out}"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """What was asked, and what came back."""
        result = msgspec.json.decode(unit.result)
        sections = [_asked(unit)]
        if result["response"]:
            body = msgspec.json.encode(result["response"]["body"])
            sections.append(Section("answer", answer_of(body)))
        else:
            sections.append(Section("error", msgspec.json.encode(result["error"])))
        return UnitText(
            where=f"{_purpose(unit.custom_id)} {unit.provider}/{unit.model}",
            sections=sections,
            remarks=[_source_text(unit)] if unit.answer_of is not None else [],
        )


def _asked(unit: UnitReport) -> Section:
    """The prompt; what a unit is for, if its request was not made yet."""
    body = bytes(unit.request.body)
    try:
        plan = msgspec.json.decode(body, type=UnitPlan)
    except msgspec.DecodeError:
        return Section("prompt", prompt_of(body))
    return Section("request", f"not made yet: it is made when what it waits for has ended ({plan.role})")


def _source_text(unit: UnitReport) -> str:
    source = unit.answer_of
    assert source is not None
    whose = "a job that is gone" if source.job is None else f"job {source.job}"
    return f"answered without a call: it has the answer of {source.custom_id or source.index} in {whose}"


def _counted(index: str) -> str:
    """Rows and columns count from 1 for people, and from 0 in names of units."""
    return str(int(index) + 1) if index.isdecimal() else index


def _purpose(unit: str) -> str:
    """A unit in words."""
    first, _, rest = unit.partition("/")
    second, _, part = rest.partition("/")
    row, column = _counted(first), _counted(second)
    if rest == "vars":
        return f"variables of row {row}:"
    if rest.startswith("var."):
        return f"variable {rest.removeprefix('var.')} of row {row}:"
    if rest.startswith("select-best"):
        return f"best answer of row {row}:"
    return f"{part} of row {row}, column {column}:" if part else f"row {row}, column {column}:"
