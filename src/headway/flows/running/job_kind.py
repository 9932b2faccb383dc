"""The kind of job that `headway run flow.yaml` makes: units for the nodes of a flow, and one results file.

The job keeps the checked flow, its prompts and what the user gave, so that `headway resume` needs no file again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec

from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import UsageError
from headway.flows.running.flow_inputs import inputs_of
from headway.flows.running.growth import FlowForm, FlowGrowth, encode_form, first_units, form_of, results_of
from headway.flows.running.tool_programs import with_tools
from headway.flows.running.unit_requests import model_of
from headway.flows.spec import FlowSpec, NodeSpec
from headway.jobs.base import (
    FileJobKind,
    IngestOptions,
    JobOutput,
    JobSource,
    OutputOptions,
    RouteCheck,
    Sink,
)
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.stores.files import Replacement
from headway.stores.records import Job, State, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow


def must_be_built(spec: FlowSpec) -> None:
    """Raise UsageError for what flows cannot do yet."""
    for node in spec.nodes.values():
        for key, is_set in (
            (f"kind: {node.kind}", node.kind in ("dataset", "flow", "human")),
            ("schema", node.schema is not None),
            ("timeout", node.timeout_s is not None),
            ("on_error.attempts", node.on_error.attempts is not None),
            ("on_error.base_ms", node.on_error.base_ms is not None),
            ("cache: true", node.cache and node.kind == "tool"),
        ):
            if is_set:
                raise UsageError(f"{spec.path.name}, line {node.line}: {node.id}: {key} is not supported yet")


class FlowSource(msgspec.Struct, frozen=True):
    """A checked flow with its inputs."""

    form_data: FlowForm
    digest: str
    kind: str = "flow"

    @property
    def name(self) -> str:
        return self.form_data.spec.path.name

    @property
    def path(self) -> str:
        return str(self.form_data.spec.path)

    @property
    def stem(self) -> str:
        return self.form_data.spec.path.stem

    @property
    def row_numbers(self) -> str:
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def form(self) -> dict[str, Any]:
        return {"flow": encode_form(self.form_data)}

    def is_sibling(self, job: Job) -> bool:
        return False

    def is_predecessor(self, job: Job) -> bool:
        return False

    def ids(self, config: Config) -> Iterator[str]:
        return iter(self.form_data.spec.nodes)

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
        """Add the routes of all nodes, and the units with which the flow begins."""
        router = Router(config)
        routes: list[StoredRoute] = []
        models: dict[str, tuple[str, str, str]] = {}
        for wanted, raw in _targets(
            with_tools(config, self.form_data.spec.nodes.values()), router, self.form_data.spec
        ):
            if raw is not None:
                check(wanted.provider, wanted.model)
                models[raw] = (wanted.provider, identity_of(config.providers[wanted.provider]), wanted.model)
            if not any(route.provider == wanted.provider and route.model == wanted.model for route in routes):
                routes.append(msgspec.structs.replace(wanted, id=sink.add_route(job, wanted)))
        units = first_units(self.form_data, options.name or self._job_name(), models, routes)
        sink.add_units(job, 0, units)
        ready()
        sink.seal(job, len(units), models, self.digest)
        return 0

    def _job_name(self) -> str:
        return f"{self.stem}-{self.digest[:6]}"


def _targets(config: Config, router: Router, spec: FlowSpec) -> Iterator[tuple[StoredRoute, str | None]]:
    """Where each node's units go, and the model as the node names it; None for a tool."""
    from headway.flows.running.tool_programs import PREFIX

    for node in spec.nodes.values():
        if node.kind == "tool":
            provider = config.providers[PREFIX + node.id]
            yield StoredRoute(provider.name, provider.kind, node.id), None
        elif node.kind == "agent":
            target = router.route(model_of(node) or None)
            yield StoredRoute(target.provider, target.kind, target.model), model_of(node)


class ResultsFile:
    """`FLOW.results.json`, written at the end of every run."""

    def __init__(self, open_store: Callable[[], Store], job: Job, path: Path) -> None:
        self._open_store, self._job, self._path = open_store, job, path

    def look(self) -> None:
        """The end is soon enough."""

    def open(self) -> None:
        """The same."""

    def ended(self, indexes: Iterable[int]) -> None:
        """The same."""

    def advance(self) -> None:
        """The same."""

    def finish(self) -> None:
        with self._open_store() as store:
            content = _results(store, self._job)
        with Replacement(self._path) as new:
            new.file.write(content)
            new.commit()

    def close(self) -> None:
        """Nothing is open."""


def _results(store: Store, job: Job) -> bytes:
    return msgspec.json.format(msgspec.json.encode(results_of(store, job))) + b"\n"


class FlowKind(FileJobKind):
    """A graph of steps. `load` reads and checks a flow file."""

    name = "flow"

    def __init__(self, load: Callable[[Path], FlowSpec]) -> None:
        self._load = load

    def reads(self, path: str) -> bool:
        """YAML files."""
        return path.endswith((".yaml", ".yml"))

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """Check the flow, and read its prompts and the user's inputs."""
        spec = self._load(Path(path).absolute())
        must_be_built(spec)
        prompts = {node.id: _text(node) for node in spec.nodes.values() if node.kind == "agent"}
        form = FlowForm(spec=spec, prompts=prompts, inputs=inputs_of(spec, flags))
        content = blake2b(msgspec.json.encode(encode_form(form)))
        for node in spec.nodes.values():
            if node.kind == "tool" and node.impl is not None and node.impl.is_file():
                content.update(node.impl.read_bytes())
        return FlowSource(form, content.hexdigest())

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """flow.yaml → flow.results.json"""
        named = f"{flags['name']}." if flags.get("name") else ""
        return Path(path).with_name(f"{Path(path).stem}.{named}results.json")

    def check_output(self, options: OutputOptions) -> None:
        """One JSON file."""
        if options.form != "file" or options.order != "input" or options.text_only or options.safe_cells:
            raise UsageError("the results of a flow are one JSON file", hint="name it with --out")

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """The file names its job. The results of an earlier job of a flow are replaced."""
        if options.path.exists() and not options.force and not _is_results(options.path):
            raise UsageError(
                f"{options.path} exists and has no results of a flow",
                hint="name another file with --out, or replace it with --force",
            )
        if make:
            options.path.parent.mkdir(parents=True, exist_ok=True)

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        return ResultsFile(open_store, job, options.path)

    def growth(self, job: Job) -> Grow:
        return FlowGrowth(job)

    def with_providers(self, config: Config, job: Job) -> Config:
        """A provider for each tool."""
        return with_tools(config, form_of(job).spec.nodes.values())

    def end_state(self, store: Store, job: Job, state: State) -> State:
        """By the status of the flow: tolerated failures are success, and a node without units may have failed."""
        if state not in ("complete", "failed"):
            return state
        return "complete" if results_of(store, job)["status"] == "success" else "failed"

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """The results file as one line, whatever units are asked for."""
        yield msgspec.json.encode(results_of(store, job)) + b"\n"

    def check_export(self, path: Path) -> None:
        """Any name is accepted."""

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        file.write(_results(store, job))

    def input_name(self, job: Job) -> str:
        return Path(job.input).name

    def origin(self, job: Job) -> str:
        return f"flow {job.input}, results {job.out}"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        result = msgspec.json.decode(unit.result)
        return UnitText(
            where=f"{unit.provider}/{unit.model}",
            sections=[
                Section("request", bytes(unit.request.body)),
                Section("result", msgspec.json.encode(result)),
            ],
        )


def _is_results(path: Path) -> bool:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(found, dict) and {"job", "status", "state", "nodes"} <= set(found)


def _text(node: NodeSpec) -> str:
    assert node.prompt is not None
    try:
        return node.prompt.read_text()
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"line {node.line}: {node.id}.prompt: {node.prompt} cannot be read: {error}"
        ) from None
