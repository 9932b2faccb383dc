"""The kind of job that `headway run flow.yaml` makes: units for the nodes of a flow, and one results file.

The job keeps the checked flow, its prompts, the rows of its data sets and what the user gave, so that `headway resume` needs no file
again except the tools. Running it is the business of `growth`; what comes before is in `flow_source`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from headway.batch.outputs.ownership import claim
from headway.config import Config
from headway.engine.run_spec import RouteAnswerCheck
from headway.errors import UsageError
from headway.flows.running.answer_check import route_check
from headway.flows.running.approvals import rejected_text, rejected_units
from headway.flows.running.flow_form import FlowForm, concurrency_of, form_of, nodes_of
from headway.flows.running.flow_run import FlowRun
from headway.flows.running.flow_source import FLOW, FlowSource, open_flow, with_named_agents
from headway.flows.running.growth import FlowGrowth
from headway.flows.running.recorded_run import built_upon, rebuilt_run, tolerated_failures
from headway.flows.running.results_file import (
    ResultsFile,
    owner_at,
    owner_of_results,
    results_lines,
    write_results,
)
from headway.flows.running.stored_values import APPROVALS
from headway.flows.running.tool_programs import must_run, with_tools
from headway.flows.spec import NodeSpec
from headway.flows.value_of_answer import answer_value
from headway.jobs.base import FileJobKind, JobOutput, JobSource, OutputOptions, RoutePolicy
from headway.jobs.run_settings import UNTIL
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.stores.records import Job, State, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow

#: Flags of `headway run` that are about rows, and their values that change nothing.
_NOT_FOR_FLOWS: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(
        (
            "prompt", "system", "max_tokens", "model", "provider", "attach", "schema", "limit", "first", "yes", "then",
            "allow_failures", "skip_bad_rows", "serial", "worktree", "collect", "text_only", "safe_cells",
            "out_dir",
        ),
        (),
    ),
    "delay": ("0",),
    "out_order": ("input",),
    "cache": ("off",),
}  # fmt: skip

#: What does the same in a flow.
_INSTEAD: Final = {
    "model": "write 'model: NAME' in the node, or set model in [providers.NAME] of headway.toml",
    "provider": "write 'provider: NAME' in the node, or set provider in [run] of headway.toml",
    "schema": "write 'schema' in the node",
    "prompt": "write 'prompt: FILE' in the node",
}

#: Nodes that a line about approvals names.
MOST_NAMED: Final = 5


class FlowKind(FileJobKind):
    """A graph of steps."""

    name = FLOW
    tolerates_failures = True
    counts_nodes = True
    makes_keys = True

    # -- a file into a job ------------------------------------------------------------------------------------------------

    def reads(self, path: str) -> bool:
        """YAML files."""
        return path.lower().endswith((".yaml", ".yml"))

    def check_flags(self, flags: Mapping[str, Any]) -> None:
        """Refuse the flags that are about rows."""
        for name, harmless in _NOT_FOR_FLOWS.items():
            if flags.get(name) and flags[name] not in harmless:
                flag = "--cache" if name == "cache" else f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{flag} is for rows, not for flows", hint=_INSTEAD.get(name, "leave it out")
                )

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """Check the flow with everything that it names, and read the user's inputs."""
        self.check_flags(flags)
        if flags.get("only_failed"):
            raise UsageError("--only-failed is for rows, not for flows", hint="headway retry --failed")
        return open_flow(path, flags)

    def with_named_providers(self, config: Config, source: JobSource) -> Config:
        """With the agent CLIs that nodes name."""
        assert isinstance(source, FlowSource)
        return with_named_agents(config, source.form_data.spec)

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """flow.yaml → flow.results.json"""
        named = f"{flags['name']}." if flags.get("name") else ""
        return Path(path).with_name(f"{Path(path).stem}.{named}results.json")

    # -- while it runs ----------------------------------------------------------------------------------------------------

    def growth(self, job: Job) -> Grow:
        return FlowGrowth(job)

    def with_providers(self, config: Config, job: Job) -> Config:
        """With a provider for each tool, and the agent CLIs. Raises if a tool cannot be run any more."""
        spec = form_of(job).spec
        for _, flow, node in nodes_of(spec):
            if node.kind == "tool":
                must_run(node, flow.path.name)
        return with_tools(with_named_agents(config, spec), spec, concurrency_of(job))

    def route_policies(self, job: Job) -> Mapping[str, RoutePolicy]:
        """Retries and timeouts of nodes."""
        policies = {path: policy_of(node) for path, _, node in nodes_of(form_of(job).spec)}
        return {path: policy for path, policy in policies.items() if policy is not None}

    def route_check(self, job: Job, routes: Sequence[StoredRoute]) -> RouteAnswerCheck | None:
        return route_check(form_of(job), routes)

    def stays_ended(self, store: Store, job: Job) -> Collection[int]:
        """Failures that a step has tolerated, and that later steps have built upon."""
        return tolerated_failures(store, job)

    def end_state(self, store: Store, job: Job, state: State) -> State:
        """By the status of the flow: tolerated failures are success, and a flow without failed units may have failed."""
        if state not in ("complete", "failed"):
            return state
        run = rebuilt_run(store, job)
        if run.status == "waiting":
            return "parked"
        if run.status == "success":
            return "parked" if run.left_out() else "complete"
        return "parked" if _goes_on(store, job, run) else "failed"

    def is_enough(self, store: Store, job: Job) -> bool:
        """With `--until`, the nodes that were wanted have succeeded."""
        run = rebuilt_run(store, job)
        return run.status == "success" and bool(run.left_out())

    def parked_step(self, store: Store, job: Job, place: str, resume: str) -> str:
        """The nodes that wait for an approval, and the command that gives one; "": a lane is held."""
        run = rebuilt_run(store, job)
        if not job.unfinished and _goes_on(store, job, run):
            return f"nothing waits for an approval any more; to go on: {resume}"
        waiting = run.waiting if not job.unfinished else []
        if not waiting:
            left = run.left_out() if run.status == "success" else []
            return (
                f"not run yet: {_named(left)} (--until {job.settings[UNTIL]}); to go on: {resume}"
                if left
                else ""
            )
        wait = "waits" if len(waiting) == 1 else "wait"
        node = waiting[0] if len(waiting) == 1 else "NODE"
        return f"{_named(waiting)} {wait} for an approval: headway approve {job.name} {node}{place}; then: {resume}"

    def failed_step(self, store: Store, job: Job, place: str, resume: str) -> str:
        """What was rejected and may be approved; otherwise the first node that failed without failed units."""
        if job.ended != job.total:
            return ""
        if rejected := rejected_units(store, job):
            change = f"headway approve {job.name} {rejected[0].unit}{place}; then: {_resume_of(job, place)}"
            said = f"{rejected_text(rejected)}; to change that: {change}"
            return f"to retry the failed units: {resume}; {said}" if job.has_failures else said
        if units := built_upon(store, job):
            return _built_upon_text(units, self.input_name(job))
        if job.has_failures or job.counts["cancelled"]:
            return ""
        run = rebuilt_run(store, job)
        failed = next(
            ((path, one.reason) for path, one in run.nodes().items() if one.status == "failed"), None
        )
        if failed is None or run.status == "running":
            return ""
        path, reason = failed
        why = f": {reason}" if reason else ""
        if any(one.path == path and one.node.kind == "human" for one in nodes_of(form_of(job).spec)):
            again = f"'headway run {self.input_name(job)} --from {path}' asks again in a new job"
            return f"{path} was rejected{why}, and later nodes have used what the others wrote; {again}"
        return f"{path} failed{why}; fix it and run the flow again, which keeps what has not changed"

    # -- results ------------------------------------------------------------------------------------------------------------

    def check_output(self, options: OutputOptions) -> None:
        """One JSON file, or a stream."""
        if options.form == "folder":
            raise UsageError("--out-dir is for rows, not for flows", hint="name a file with --out")
        if options.form == "file" and options.path.suffix != ".json":
            raise UsageError(
                f"--out {options.path}: the results of a flow are one JSON file", hint="name a .json file"
            )

    def output_owner(self, output: OutputOptions, store: Store) -> str | None:
        """The job that the file names."""
        return owner_at(output.path)

    def output_for_job(self, path: Path, job: str) -> Path:
        """flow.results.json → flow.JOB.results.json"""
        return path.with_name(f"{path.stem.removesuffix('.results')}.{job}.results{path.suffix}")

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """The file names its job."""
        if options.form == "file":
            claim(options.path, job, force=options.force, store=store, make=make, owner_in=owner_of_results)

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        return ResultsFile(open_store, job, options)

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """The results as they are now, whatever units are asked for."""
        return results_lines(store, job)

    def check_export(self, path: Path) -> None:
        """A JSON file."""
        self.check_output(OutputOptions(path))

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        write_results(file, store, job)

    # -- texts ----------------------------------------------------------------------------------------------------------------

    def input_name(self, job: Job) -> str:
        return Path(job.input).name

    def origin(self, job: Job) -> str:
        if not job.out:  # A Python program has the results.
            return f"flow {Path(job.input).stem} of a Python program, results in its FlowResult and by headway export {job.name}"
        return f"flow {job.input}, results {job.out}"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """What the node was given, and its answer."""
        return described(form_of(job), unit)


def _goes_on(store: Store, job: Job, run: FlowRun) -> bool:
    """Whether more follows from an approval that the last run did not see any more."""
    is_open = run.status == "running" and job.ended == job.total
    return is_open and store.count_values(job.id, APPROVALS) > 0


def _resume_of(job: Job, place: str) -> str:
    return f"headway resume {job.name}{place}"


def _built_upon_text(units: Sequence[str], flow: str) -> str:
    stay, them = ("stays", "it") if len(units) == 1 else ("stay", "them")
    again = f"'headway run {flow}' with the same inputs runs {them} again in a new job"
    return f"{_named(units)} {stay} failed, because later nodes have used what the others wrote; {again}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def policy_of(node: NodeSpec) -> RoutePolicy | None:
    """How the units of a node are retried; None: as the lane says."""
    on_error = node.on_error
    base_s = None if on_error.base_ms is None else on_error.base_ms / 1000.0
    linear = True if on_error.backoff == "linear" else None
    policy = RoutePolicy(on_error.attempts, base_s, linear, node.timeout_s)
    return None if policy == RoutePolicy() else policy


def described(form: FlowForm, unit: UnitReport) -> UnitText:
    """One unit in words."""
    from headway.flows.running.unit_ids import node_path

    node = {one.path: one.node for one in nodes_of(form.spec)}.get(node_path(unit.custom_id))
    result = msgspec.json.decode(unit.result)
    sections = [_given(node, unit)]
    sections += [
        Section(f"answer of attempt {repair.attempt}, which did not fit", bytes(repair.answer))
        for repair in unit.repairs
    ]
    if result["response"]:
        body = msgspec.json.encode(result["response"]["body"])
        try:
            value = answer_value(node, body) if node is not None else msgspec.json.decode(body)
        except ValueError:  # It has no value: it is shown as it came.
            value = body.decode(errors="replace")
        sections.append(Section("answer", value if isinstance(value, str) else msgspec.json.encode(value)))
    else:
        sections.append(Section("error", msgspec.json.encode(result["error"])))
    where = unit.model if unit.provider.startswith("tool:") else f"{unit.provider}/{unit.model}"
    kind = "" if node is None else f"{node.kind} "
    reads = "" if node is None or not node.reads else f"reads of the state: {', '.join(node.reads)}"
    return UnitText(where=f"{kind}{where}", sections=sections, remarks=(reads,) if reads else ())


def _given(node: NodeSpec | None, unit: UnitReport) -> Section:
    """What an agent was asked, as text; what a program got on standard input; otherwise the request."""
    body = bytes(unit.request.body)
    row = msgspec.json.decode(body)
    prompt = _prompt_in(row) if isinstance(row, dict) else ""
    if node is not None and node.kind == "tool":
        return Section("input", body if node.function or not prompt else prompt.encode())
    return Section("prompt", prompt) if prompt and node is not None else Section("request", body)


def _prompt_in(row: Mapping[str, Any]) -> str:
    """The prompt of a row; of a request its only message. "": it is something else."""
    messages = row.get("messages")
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], dict):
        return str(messages[0].get("content") or "") if isinstance(messages[0].get("content"), str) else ""
    return str(row.get("prompt") or "")
