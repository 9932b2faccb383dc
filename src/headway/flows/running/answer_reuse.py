"""Which new units of a flow have an answer already: from an earlier job of the same flow, or from the cache.

Growth asks for each new unit. The answer comes, in this order:

1. From the jobs of the same flow file before this one: what has not changed is kept, of agents and of tools. The last answer of the unit with
   this id counts, and only if its key is the same.
2. From the cache, which all jobs share, if the node has `cache` on: for agents, unless the file says `cache: false`.

`--fresh` leaves out the first, `--no-cache` both. What `--from` names, and what depends on it, has no earlier answer at all. Their answers replace
those in the cache. An answer of the job itself is never used for another of its units: five equal prompts are five calls.

Every key is recorded, also of nodes without the cache: the next version of the flow compares it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec.structs import replace

from headway.core.unit_states import GOOD, Status
from headway.flows.running.flow_form import FlowForm, FlowNode, form_of, nodes_of
from headway.flows.running.key_context import context_of, note_context, parts_of
from headway.flows.running.node_run import NextUnit
from headway.flows.running.reuse_choice import choice_of
from headway.flows.running.unit_key import KEY_BYTES, OWN, UnitKeys
from headway.jobs.run_settings import ADDRESSES
from headway.stores.records import Job, NewUnit
from headway.stores.store import Store

#: Earlier jobs of a flow that are searched, the newest first. A job that is complete has the answers of its own predecessors; one that was
#: killed while it took them over has not, so the search goes on to the newest complete one.
FEW_PREDECESSORS: Final = 5
MOST_PREDECESSORS: Final = 100


def searched(predecessors: Sequence[Job]) -> Sequence[Job]:
    """The predecessors whose answers are searched."""
    complete = next((n for n, job in enumerate(predecessors) if job.state == "complete"), MOST_PREDECESSORS)
    return predecessors[: max(FEW_PREDECESSORS, min(complete + 1, MOST_PREDECESSORS))]


def predecessors_of(store: Store, kind: str, path: str, before: int | None = None) -> list[Job]:
    """The jobs of the same flow file that have answers, the newest first. `before`: only those older than this job."""
    return [
        job
        for job in sorted(store.jobs(), key=lambda one: -one.id)
        if (before is None or job.id < before)
        and job.kind == kind
        and job.input == path
        and job.state != "ingesting"
        and job.good
    ]


def good_by_node(store: Store, job: Job) -> dict[str, int]:
    """How many answers the nodes of a job have, by their path."""
    return _units_by_node(store, job, GOOD)


def failed_by_node(store: Store, job: Job) -> dict[str, int]:
    """How many units of the nodes of a job have failed, by their path."""
    return _units_by_node(store, job, (Status.FAILED, Status.TIMED_OUT))


def _units_by_node(store: Store, job: Job, statuses: Collection[str]) -> dict[str, int]:
    labels = {route.id: route.label for route in store.routes(job.id)}
    counts: dict[str, int] = {}
    for route, by_status in store.per_route(job.id).items():
        found = sum(count for status, count in by_status.items() if status in statuses)
        if found and labels.get(route):
            counts[labels[route]] = counts.get(labels[route], 0) + found
    return counts


class AnswerReuse:
    """Finds earlier answers for the units of one job."""

    def __init__(self, job: Job, form: FlowForm | None = None) -> None:
        self._job = job
        self._form = form_of(job) if form is None else form
        self._choice = choice_of(job)
        self._nodes: dict[str, FlowNode] = {one.path: one for one in nodes_of(self._form.spec)}
        self._keys: UnitKeys | None = None
        #: For each node: the earlier jobs that have answers of it.
        self._earlier: dict[str, list[int]] = {}
        self._again = frozenset[str]()
        #: Whether units of this job may have been added with keys of other tools or addresses.
        self._is_outdated = False

    def of(self, store: Store, unit: NextUnit, new: NewUnit) -> NewUnit:
        """The new unit with its key and, if there is one, with the answer that it has. Called inside a transaction."""
        keys = self._keys or self._begin(store)
        key = keys.key(unit)
        node = self._nodes[unit.node].node
        if self._is_outdated:
            self._correct_key(store, unit.id, key if node.cache else key + OWN)
        if not node.cache:
            return replace(new, key=key + OWN, source=self._kept(store, unit, key))
        source = self._kept(store, unit, key)
        if source is None:
            source = self._cached(store, unit, key)
        return replace(new, key=key, source=source)

    def _begin(self, store: Store) -> UnitKeys:
        """Read what the keys of this run need, and keep it for later jobs."""
        job, form, choice = self._job, self._form, self._choice
        nodes = list(self._nodes.values())
        addresses: dict[str, Any] = job.settings.get(ADDRESSES) or {}
        context = context_of(nodes, store.routes(job.id), addresses)
        self._is_outdated = note_context(store, job.id, context, good_by_node(store, job))
        self._again = frozenset(choice.again)
        if choice.takes_over:
            for earlier in searched(predecessors_of(store, job.kind, job.input, job.id)):
                for path in good_by_node(store, earlier):
                    self._earlier.setdefault(path, []).append(earlier.id)
        self._keys = UnitKeys(nodes, form.prompts, parts_of(form, context), job.name)
        return self._keys

    def _kept(self, store: Store, unit: NextUnit, key: bytes) -> int | None:
        """The unit of an earlier job of this flow that has the answer."""
        if unit.node in self._again:
            return None
        for earlier in self._earlier.get(unit.node, ()):
            found = store.cache.answered_unit(earlier, unit.id)
            if found is not None:
                return found[0] if found[1][:KEY_BYTES] == key else None
        return None

    def _cached(self, store: Store, unit: NextUnit, key: bytes) -> int | None:
        """The unit whose answer the cache has."""
        if unit.node in self._again or not self._choice.uses_cache:
            if store.index_of(self._job.id, unit.id) is None:
                store.cache.forget_key(key)
            return None
        return store.cache.find_unit(key, self._job.id)

    def _correct_key(self, store: Store, unit: str, key: bytes) -> None:
        """Give a unit that waits since an earlier run the key of this run: it is run with the tools and models of today."""
        index = store.index_of(self._job.id, unit)
        if index is not None:
            store.cache.add_keys(self._job.id, [(index, key)], index)
