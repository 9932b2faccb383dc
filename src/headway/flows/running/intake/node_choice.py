"""The nodes that `--from NODE` and `--until NODE` mean. PURE.

NODE is a node, a pipeline or a loop, or a node of an inner flow by its path (`sub/fetch`, only with `--from`). A member of a pipeline or loop stands
for the whole of it: its items and iterations depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.config.near_names import near_name
from headway.errors import UsageError
from headway.flows.running.flow_form import nodes_of
from headway.flows.spec import FlowSpec
from headway.jobs.run_settings import UNTIL
from headway.stores.records import Job


def from_node(spec: FlowSpec, name: str) -> tuple[str, ...]:
    """The paths of a node and of everything that depends on it. Raises UsageError if there is no such node."""
    return _from(spec, name, f"--from {name}")


def _from(spec: FlowSpec, name: str, given: str) -> tuple[str, ...]:
    first, *inner = _steps_to(spec, name, given)
    wanted = _closure([first], _next_steps(spec)) - ({first} if inner else set())
    paths = set(_paths(spec, wanted))
    if inner:
        node = spec.nodes[first]
        assert node.inner is not None
        paths |= {f"{first}/{one}" for one in _from(node.inner, "/".join(inner), given)}
        paths.add(first)
    return tuple(sorted(paths))


def until_node(spec: FlowSpec, name: str) -> frozenset[str]:
    """The paths of a node and of everything that it needs. Raises UsageError if there is no such node."""
    first, *inner = _steps_to(spec, name, f"--until {name}")
    if inner:
        raise UsageError(
            f"--until {name}: a run cannot stop inside a flow that a node runs", hint=f"--until {first}"
        )
    before = {step: [one.id for one in spec.step(step).after] for step in spec.step_order}
    return frozenset(_paths(spec, _closure([first], before)))


def wanted_nodes(job: Job, spec: FlowSpec) -> frozenset[str] | None:
    """The paths of the nodes that the last run of a job was for; None: all."""
    name: str = job.settings.get(UNTIL) or ""
    return until_node(spec, name) if name else None


def _steps_to(spec: FlowSpec, name: str, given: str) -> list[str]:
    """The steps that lead to a node: one for each flow around it. `given`: the flag with its value."""
    head, _, rest = name.partition("/")
    step = head
    if head in spec.nodes:
        step = spec.nodes[head].group or head
    elif head not in spec.pipelines and head not in spec.loops:
        raise UsageError(f"{given}: {spec.path.name} has no node '{head}'", hint=_hint(spec, head))
    if not rest:
        return [step]
    inner = spec.nodes[head].inner if head in spec.nodes else None
    if inner is None:
        raise UsageError(f"{given}: '{head}' runs no flow", hint="name a node without a slash")
    below = _steps_to(inner, rest, given)
    return [step] if step != head else [step, *below]


def _hint(spec: FlowSpec, name: str) -> str:
    names = [*spec.nodes, *spec.pipelines, *spec.loops]
    near = near_name(name, names)
    return f"did you mean '{near}'?" if near else f"its nodes are {', '.join(spec.nodes)}"


def _next_steps(spec: FlowSpec) -> dict[str, list[str]]:
    following: dict[str, list[str]] = {step: [] for step in spec.step_order}
    for step in spec.step_order:
        for one in spec.step(step).after:
            following[one.id].append(step)
    return following


def _closure(first: Iterable[str], following: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    queue = list(first)
    while queue:
        step = queue.pop()
        if step not in found:
            found.add(step)
            queue += following[step]
    return found


def _paths(spec: FlowSpec, steps: set[str]) -> Iterator[str]:
    """The nodes of these steps, with those of the flows that they run."""
    for step in steps:
        for name in spec.members(step):
            yield name
            inner = spec.nodes[name].inner
            if inner is not None:
                yield from (one.path for one in nodes_of(inner, f"{name}/"))
