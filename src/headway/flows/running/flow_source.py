"""A flow file as an input: checked with everything that it names, its digest, and how its job is taken in.

The digest covers the content of the flow and of its inner flows, prompts, tools and data sets, and what the user gave. Comments and line
numbers are not part of it. Units are added later, by the growth: taking a flow in adds routes and the rows of data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from headway.config import Config, identity_of, with_agents
from headway.config.file_problems import FileErrors
from headway.config.kinds.programs import AGENT_NAMES
from headway.config.near_names import near_name
from headway.config.routing import Router, Target
from headway.errors import HeadwayError, MissingModel, UsageError
from headway.flows.running.answer_check import check_schemas
from headway.flows.running.dataset_rows import add_rows, dataset_digest
from headway.flows.running.flow_form import FlowForm, FlowNode, encode_form, nodes_of
from headway.flows.running.flow_inputs import inputs_of
from headway.flows.running.node_choice import from_node, until_node
from headway.flows.running.recorded_run import built_upon
from headway.flows.running.reuse_choice import AS_USUAL, ReuseChoice, choice_form, choice_of
from headway.flows.running.tool_files import tool_files
from headway.flows.running.tool_programs import must_run, target_of, with_tools
from headway.flows.spec import FlowSpec, NodeSpec
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.stores.records import Job, StoredRoute
from headway.stores.store import Store

#: The name of this kind of job in the store.
FLOW: Final = "flow"


def model_of(node: NodeSpec) -> str:
    """The model of an agent node, as a row of a batch names it; "": the one of headway.toml."""
    if not node.provider:
        return node.model
    model = node.model or ("default" if node.provider in AGENT_NAMES else "")
    return f"{node.provider}/{model}" if model else node.provider


class FlowSource(msgspec.Struct, frozen=True):
    """A checked flow with its inputs."""

    form_data: FlowForm
    digest: str
    kind: str = FLOW
    reuse: ReuseChoice = AS_USUAL

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
        return {"flow": encode_form(self.form_data), **choice_form(self.reuse)}

    def continues(self, store: Store, job: Job) -> bool:
        """Whether a job of the same content is the one that is meant. With `--no-cache` and `--from`, only one that was begun like that and has
        not come to its end. A job in which nothing can run again but what others have built upon is over.
        """
        if self.reuse != AS_USUAL:
            return self.reuse == choice_of(job) and job.state != "complete"
        return not built_upon(store, job)

    def is_sibling(self, job: Job) -> bool:
        return False

    def is_predecessor(self, job: Job) -> bool:
        return False

    def ids(self, config: Config) -> Iterator[str]:
        return (one.path for one in nodes_of(self.form_data.spec))

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
        """Add the routes of all nodes, and the rows of data sets."""
        models: dict[str, tuple[str, str, str]] = {}
        with sink.one_commit() if isinstance(sink, Store) else nullcontext():
            for route, raw in routes_of(config, self.form_data.spec):
                if raw is not None:
                    if raw not in models:
                        check(route.provider, route.model)
                    models[raw] = (route.provider, identity_of(config.providers[route.provider]), route.model)
                sink.add_route(job, route)
        for path, _, node in nodes_of(self.form_data.spec):
            if node.kind == "dataset" and node.file is not None:
                add_rows(sink, job, path, node.file, options.progress)
        ready()
        sink.seal(job, 0, models, self.digest)
        return 0


def routes_of(config: Config, spec: FlowSpec) -> Iterator[tuple[StoredRoute, str | None]]:
    """The route of each agent and tool, with the model as the node names it; None for a tool. Raises with the errors of all agents."""
    router, tools, problems = Router(config), with_tools(config, spec), list[str]()
    found: list[tuple[StoredRoute, str | None]] = []
    for path, flow, node in nodes_of(spec):
        if node.kind == "tool":
            tool = target_of(node, spec.path.parent)
            kind = tools.providers[tool.provider].kind
            found.append((StoredRoute(tool.provider, kind, tool.model, label=path), None))
        elif node.kind == "agent":
            try:
                target = _agent_target(config, router, node)
            except HeadwayError as error:
                problems.append(f"{flow.path.name}, line {node.line}: {path}: {error}")
            else:
                route = StoredRoute(target.provider, target.kind, target.model, label=path)
                found.append((route, model_of(node)))
    if problems:
        if len(problems) == 1:
            raise UsageError(problems[0])
        raise FileErrors(f"{spec.path.name} has {len(problems):,} errors", tuple(problems))
    return iter(found)


def _agent_target(config: Config, router: Router, node: NodeSpec) -> Target:
    """The provider and the model of an agent. An error says what to write in the node or in headway.toml."""
    if not config.providers:
        raise UsageError(
            "there is no provider",
            hint="'headway init' writes a headway.toml: name a provider and its model there",
        )
    if not node.provider:
        try:
            return router.route(node.model or None)
        except MissingModel as error:
            raise UsageError(
                error.message.replace('"model" is missing', "it names no model"), hint=_model_hint(config)
            ) from None
    provider = config.providers.get(node.provider)
    if provider is None:
        known = [*config.providers, *sorted(AGENT_NAMES - config.providers.keys())]
        near = near_name(node.provider, known)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"there is no provider '{node.provider}'", hint=hint)
    model = node.model or provider.model or ("default" if node.provider in AGENT_NAMES else "")
    if not model:
        raise UsageError(
            f"provider '{provider.name}' has no default model", hint=_model_hint(config, provider.name)
        )
    return Target(provider.name, provider.kind, model)


def _model_hint(config: Config, provider: str = "") -> str:
    if not provider and len(config.providers) > 1 and config.run.provider is None:
        return "write 'provider: NAME' in the node, or set provider in [run] of headway.toml"
    name = provider or config.run.provider or next(iter(config.providers))
    return f"write 'model: NAME' in the node, or set model in [providers.{name}] of headway.toml"


def with_named_agents(config: Config, spec: FlowSpec) -> Config:
    """The settings with the agent CLIs that nodes name, which need no table. Nodes that name no provider keep the one they had without them."""
    named = with_agents(config, {node.provider for _, _, node in nodes_of(spec) if node.provider})
    if config.run.provider is None and len(config.providers) == 1 < len(named.providers):
        run = msgspec.structs.replace(config.run, provider=next(iter(config.providers)))
        return msgspec.structs.replace(named, run=run)
    return named


def open_flow(path: str, flags: Mapping[str, Any]) -> FlowSource:
    """Check a flow with all that it names, and read its prompts and the user's inputs. Reads data sets once, for the digest."""
    from headway.flows.flow_file import load_flow  # Reads YAML.

    spec = load_flow(Path(path).absolute())
    reuse, until = _reuse(spec, flags), flags.get("until") or ""
    if until and until_node(spec, until).isdisjoint(reuse.again) and reuse.again:
        raise UsageError(
            f"--until {until} ends before --from {reuse.begins_at}: nothing would run again",
            hint="leave one of them out",
        )
    return source_of(spec, inputs_of(spec, flags), reuse)


def _reuse(spec: FlowSpec, flags: Mapping[str, Any]) -> ReuseChoice:
    begins_at = flags.get("from_node") or ""
    again = from_node(spec, begins_at) if begins_at else ()
    cached = flags.get("cache") != "off"
    return ReuseChoice(takes_over=cached, uses_cache=cached, begins_at=begins_at, again=again)


def source_of(spec: FlowSpec, inputs: dict[str, Any], reuse: ReuseChoice = AS_USUAL) -> FlowSource:
    """The same for a flow that was read. `reuse`: which earlier answers it may have."""
    nodes = list(nodes_of(spec))
    check_schemas(nodes)
    for _, flow, node in nodes:
        if node.kind == "tool":
            must_run(node, flow.path.name)
    prompts = {
        path: _text(flow, node)
        for path, flow, node in nodes
        if node.kind in ("agent", "human") and node.prompt is not None
    }
    files = {path: node.file for path, _, node in nodes if node.kind == "dataset" and node.file is not None}
    digests = {file: dataset_digest(file) for file in set(files.values())}
    datasets = {path: digests[file] for path, file in files.items()}
    form = FlowForm(spec=spec, prompts=prompts, datasets=datasets, inputs=inputs)
    return FlowSource(form, _digest(form, nodes), reuse=reuse)


def _text(flow: FlowSpec, node: NodeSpec) -> str:
    assert node.prompt is not None
    try:
        text = node.prompt.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{flow.path.name}, line {node.line}: {node.id}.prompt: {node.prompt} cannot be read: {error}"
        ) from None
    if not text.strip() and node.kind == "agent":
        raise UsageError(f"{flow.path.name}, line {node.line}: {node.id}.prompt: {node.prompt} is empty")
    return text.removesuffix("\n")  # Editors end a file with a line break.


def _digest(form: FlowForm, nodes: list[FlowNode]) -> str:
    identity = blake2b(msgspec.json.encode(encode_form(_without_lines(form))), digest_size=32)
    tools = {node.impl for _, _, node in nodes if node.kind == "tool" and node.impl is not None}
    for file in sorted(tools):
        identity.update(msgspec.json.encode(tool_files(file)))
    return identity.hexdigest()


def _without_lines(form: FlowForm) -> FlowForm:
    return msgspec.structs.replace(form, spec=_plain_spec(form.spec))


def _plain_spec(spec: FlowSpec) -> FlowSpec:
    """The flow without line numbers and descriptions."""
    change = msgspec.structs.replace
    return change(
        spec,
        description="",
        fields={name: change(one, line=0) for name, one in spec.fields.items()},
        nodes={
            name: change(one, line=0, inner=None if one.inner is None else _plain_spec(one.inner))
            for name, one in spec.nodes.items()
        },
        pipelines={name: change(one, line=0) for name, one in spec.pipelines.items()},
        loops={name: change(one, line=0) for name, one in spec.loops.items()},
        edges=tuple(change(one, line=0) for one in spec.edges),
    )
