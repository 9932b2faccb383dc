"""A checked eval as an input: its digest, its routes, its units, and the answers that an earlier version of it has.

The digest covers what is asked and how it is graded, with the content of code files. Concurrency, delays, timeouts and output files are not
part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import groupby, islice
from typing import Any, Final, Self

import msgspec

from headway.config import Config, identity_of
from headway.config.routing import Router, Target
from headway.errors import HeadwayError, UsageError
from headway.evals.config.matrix import cells as cells_of
from headway.evals.programs.code_providers import with_code
from headway.evals.programs.code_requests import code_target
from headway.evals.programs.program_requests import PATH as PROGRAM_PATH
from headway.evals.running.cell_requests import AnswerRequests, rendered_problem, variables_request
from headway.evals.running.eval_form import (
    CONFIGURATION,
    TESTS,
    brought,
    cell_value,
    digest_of,
    form_values,
    test_values,
    with_brought,
)
from headway.evals.running.planned_units import EARLIER_TURNS, PlannedUnit, UnitPlanner
from headway.evals.running.taken_over import take_over
from headway.evals.running.target_requests import SentRequest, embedding_request, target_request
from headway.evals.spec import Cell, EvalSpec
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.jobs.run_settings import FileLimits
from headway.stores.records import Job, NewUnit, StoredRoute
from headway.stores.store import Store

#: The name of this kind of job in the store.
EVAL: Final = "eval"
#: Units and values that are added in one transaction.
_PAGE: Final = 1_000

#: The labels of routes: what their units are for. A timeout is for answers alone.
ANSWERS: Final = "answers"
GRADERS: Final = "graders"
CODE: Final = "code"


class EvalSource:
    """A checked eval."""

    kind = EVAL
    row_numbers = "%"

    def __init__(self, spec: EvalSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        return self.spec.path.name

    @property
    def path(self) -> str:
        return str(self.spec.path)

    @property
    def stem(self) -> str:
        """promptfooconfig.yaml is named after its folder."""
        own = self.spec.path.stem
        return self.spec.path.parent.name if own == "promptfooconfig" else own

    @cached_property
    def digest(self) -> str:
        return digest_of(self.spec)

    @property
    def limits(self) -> FileLimits:
        """What the file says about a whole run."""
        spec = self.spec
        return FileLimits(spec.max_concurrency, spec.delay_s, spec.timeout_s, spec.max_duration_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    @cached_property
    def _size(self) -> tuple[int, int]:
        """Rows and cells."""
        rows, cells, last = 0, 0, -1
        for cell in cells_of(self.spec):
            cells += 1
            rows += cell.test_index != last
            last = cell.test_index
        return rows, cells

    def form(self) -> dict[str, Any]:
        rows, cells = self._size
        return {"eval": form_values(self.spec, rows=rows, cells=cells)}

    def continues(self, store: Store, job: Job) -> bool:
        return True

    def is_sibling(self, job: Job) -> bool:
        return False

    def is_predecessor(self, job: Job) -> bool:
        """Whether a job is an earlier version of this file; without `cache`, none is."""
        return self.spec.cached and job.kind == EVAL and job.input == self.path

    def ids(self, config: Config) -> Iterator[str]:
        return (unit.id for unit in self._planned())

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
        """Add the tests, the routes and all units. Then answers of an earlier version are taken over."""
        for first, values in _pages(test_values(self.spec)):
            sink.add_values(job, TESTS, first, values)
        sink.add_values(job, CONFIGURATION, 0, [msgspec.json.encode(self.spec.config, enc_hook=str)])
        intake = _Intake(self.spec, config, sink, job, check)
        total = 0
        for first, units in _pages(map(intake.unit, self._planned())):
            sink.add_units(job, first, units)
            total = first + len(units)
            options.progress(total)
        ready()
        if isinstance(sink, Store) and self.spec.cached and not options.fresh:
            take_over(sink, job, self.is_predecessor)
        sink.seal(job, total, intake.models, self.digest)
        return 0

    def _planned(self) -> Iterator[PlannedUnit]:
        """Every unit, row by row."""
        planner = UnitPlanner(self.spec)
        for _, row in groupby(cells_of(self.spec), key=_row_of):
            yield from planner.row(list(row))


def _row_of(cell: Cell) -> int:
    return cell.test_index


def _pages(values: Iterator[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Values in pages, each with the number of its first one."""
    first = 0
    while page := list(islice(values, _PAGE)):
        yield first, page
        first += len(page)


class _Intake:
    """Makes the new units of a job. Routes are added when the first unit goes there."""

    def __init__(self, spec: EvalSpec, config: Config, sink: Sink, job: int, check: RouteCheck) -> None:
        self._spec, self._sink, self._job, self._check = spec, sink, job, check
        self._config = config
        self._router = Router(config)
        self._answers = AnswerRequests(brought(spec))
        self._routes: dict[tuple[str, str, str], int] = {}
        self._paths: dict[tuple[Target, str], str] = {}
        #: The targets by the names of their models, as the job keeps them.
        self.models: dict[str, tuple[str, str, str]] = {}

    def unit(self, planned: PlannedUnit) -> NewUnit:
        target, label = self._target(planned)
        route = self._route(target, label)
        is_answer = planned.plan.role == "answer"
        metadata = cell_value(planned.cell) if is_answer else None
        if not planned.edges:
            request = self._request(target, planned)
        else:
            body = msgspec.json.encode(planned.plan)
            request = SentRequest(self._path(target, planned), body, len(body), self._most_tokens(planned))
        return NewUnit(
            planned.id, route, request.path, request.body, request.chars, request.max_tokens,
            serial=planned.serial, metadata=metadata, after=planned.edges,
        )  # fmt: skip

    def _request(self, target: Target, planned: PlannedUnit) -> SentRequest:
        """The request of a unit that waits for nothing: an answer, or code that makes variables."""
        cell = planned.cell
        spec = self._spec
        parts = (spec.providers[cell.provider], spec.prompts[cell.prompt], spec.tests[cell.test])
        if planned.plan.role != "answer":
            return variables_request(planned.plan, parts[2], parts[1], cell.vars)
        values: Mapping[str, Any] = {**cell.vars, "env": spec.env, EARLIER_TURNS: []}
        try:
            return self._answers.request(target, parts, values)
        except HeadwayError as error:
            raise rendered_problem(parts[2], parts[1], error) from None

    def _target(self, planned: PlannedUnit) -> tuple[Target, str]:
        """Where a unit goes, and the label of its route."""
        if planned.code is not None:
            code = code_target(planned.code)
            return Target(code.provider, self._config.providers[code.provider].kind, code.model), CODE
        label = ANSWERS if planned.plan.role == "answer" else GRADERS
        provider = planned.target
        if provider is None:
            return self._default(planned), label
        known = self._config.providers.get(provider.provider)
        if known is None:
            raise UsageError(
                f"{self._spec.path.name}, line {provider.line}: there is no provider '{provider.provider}'",
                hint=f"add [providers.{provider.provider}] to headway.toml",
            )
        return Target(known.name, known.kind, provider.model), label

    def _default(self, planned: PlannedUnit) -> Target:
        """The grader of assertions that name none: the default provider of headway.toml."""
        try:
            return self._router.route(None)
        except UsageError as error:
            what = "model of embeddings" if planned.plan.role == "embedding" else "grader"
            raise UsageError(
                f"{self._spec.path.name}: an assertion names no {what}: {error.message}",
                hint="write options.provider in defaultTest, or set provider in [run] of headway.toml",
            ) from None

    def _route(self, target: Target, label: str) -> int:
        key = (target.provider, target.model, label)
        if key not in self._routes:
            if label != CODE:
                self._check(target.provider, target.model)
            if label != CODE and "/" not in target.provider:  # A program's name is in the digest.
                identity = identity_of(self._config.providers[target.provider])
                self.models[f"{target.provider}/{target.model}"] = (target.provider, identity, target.model)
            route = StoredRoute(target.provider, target.kind, target.model, label=label)
            self._routes[key] = self._sink.add_route(self._job, route)
        return self._routes[key]

    def _path(self, target: Target, planned: PlannedUnit) -> str:
        """The path of requests that are made later."""
        if planned.code is not None:
            return code_target(planned.code).path
        key = (target, planned.plan.role)
        if key not in self._paths:
            if self._answers.program(target) is not None:
                path = PROGRAM_PATH
            elif planned.plan.role == "embedding":
                path = embedding_request(target, ["-"], {}).path
            else:
                endpoint = "chat" if planned.target is None else planned.target.endpoint
                path = target_request(target, endpoint, "-", {}).path
            self._paths[key] = path
        return self._paths[key]

    def _most_tokens(self, planned: PlannedUnit) -> int:
        """`max_tokens` of a request that is made later."""
        if planned.target is None:
            return 0
        given = planned.target.options.get("max_tokens") or planned.target.options.get(
            "max_completion_tokens"
        )
        return given if isinstance(given, int) else 0


def with_eval_providers(config: Config, spec: EvalSpec) -> Config:
    """The settings with the providers that an eval brings, and those that run its code."""
    return with_code(with_brought(config, brought(spec)), spec)
