"""Records of a flow as its run leaves them, without running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from headway.flows.flow_file import load_flow
from headway.flows.running.flow_form import FlowForm, encode_form, nodes_of
from headway.stores.records import Attempt, Job, NewJob, NewUnit, NodeEvent, StoredRoute, UnitChange
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: When the runs of these tests begin.
T = 1_800_000_000.0

BOOK = """
name: <b>book</b>
graph:
  nodes:
    - {id: split, kind: tool, impl: './tools/step.py:main', writes: [chapters]}
    - {id: translate, kind: tool, impl: './tools/step.py:main', reads: [glossary], writes: [pages]}
    - {id: terms, kind: tool, impl: './tools/step.py:main', reads: [pages], writes: [glossary]}
    - {id: cover, kind: tool, impl: './tools/step.py:main', writes: [image]}
    - {id: bind, kind: tool, impl: './tools/step.py:main', reads: [pages, image]}
    - {id: look, kind: human, reads: [pages]}
  pipelines: [{id: book, items: $.chapters, stages: [translate, terms]}]
"""


class FlowRecords:
    """A flow's job in a store. Times count from `T`."""

    def __init__(
        self, folder: Path, text: str = BOOK, name: str = "book-1", store: Store | None = None
    ) -> None:
        (folder / "tools").mkdir(exist_ok=True)
        (folder / "tools" / "step.py").write_text("def main(given): return 1\n")
        self.path = folder / "flow.yaml"
        self.path.write_text(text)
        self.flow = load_flow(self.path)
        if store is None:
            (folder / ".headway").mkdir(exist_ok=True)
            store = Store(SqliteFile(folder / ".headway" / "headway.db"))
        self.store = store
        form = {"flow": encode_form(FlowForm(spec=self.flow))}
        number = self.store.add_job(NewJob(name, "flow", str(self.path), name, "", T, form))
        self._routes = {
            one.path: self.store.add_route(number, StoredRoute("alpha", "openai", "m", label=one.path))
            for one in nodes_of(self.flow)
        }
        self.store.seal(number, 0, {}, name)
        self._number, self._name = number, name
        self._total = 0
        self._lane = self.store.lane("key", "alpha/m").id
        self.store.begin(number, {}, "", T)

    @property
    def job(self) -> Job:
        job = self.store.job(self._name)
        assert job is not None
        return job

    def unit(
        self,
        unit: str,
        began: float,
        ended: float,
        *,
        status: str = "succeeded",
        throttled: int = 0,
        cost: float = 0.0,
    ) -> None:
        """A unit with its attempts: refused ones take a tenth of a second each, before the last one."""
        node = next(path for path in self._routes if unit.replace("[", "#").split("#")[0] == path)
        index, self._total = self._total, self._total + 1
        batch = WriteBatch(self._number)
        batch.added.append((index, NewUnit(unit, self._routes[node], "/v1", b"{}")))
        for number in range(1, throttled + 1):
            at = T + began + 0.1 * (number - 1)
            batch.attempts.append(
                Attempt(
                    index, number, self._lane, "throttled", kind="rate", started_utc=at, finished_utc=at + 0.1
                )
            )
        start = T + began + 0.1 * throttled
        outcome = "succeeded" if status == "succeeded" else "failed"
        batch.attempts.append(
            Attempt(
                index,
                throttled + 1,
                self._lane,
                outcome,
                started_utc=start,
                finished_utc=T + ended,
                cost_usd=cost,
            )
        )
        change = UnitChange(status, 1, self._lane, started_utc=start, finished_utc=T + ended, cost_usd=cost)
        batch.units.append((index, change))
        batch.count(status)
        batch.use(self._routes[node]).cost_usd += cost
        self.store.commit(batch)

    def event(self, kind: str, node: str = "", at: float = 0.0, unit: str = "", **data: object) -> None:
        """An event of a node."""
        encoded = msgspec.json.encode(data)
        self.store.add_node_events(self._number, [NodeEvent(T + at, kind, node, unit or node, encoded)])

    def events(self, kind: str, nodes: Mapping[str, float] | Iterable[str]) -> None:
        """The same event of several nodes, at their times."""
        times = nodes if isinstance(nodes, Mapping) else dict.fromkeys(nodes, 0.0)
        for node, at in times.items():
            self.event(kind, node, at)


def book(folder: Path) -> FlowRecords:
    """A run with a bit of everything: refused attempts, a failure, a skipped node, one that waits for the user."""
    records = FlowRecords(folder)
    records.events("node.started", {"split": 0.0, "cover": 0.0, "translate": 2.0, "terms": 4.0, "look": 9.0})
    records.unit("split", 0.0, 2.0, cost=0.01)
    records.unit("cover", 0.0, 1.0, status="failed")
    records.unit("translate#0", 2.5, 4.0, throttled=2, cost=0.2)
    records.unit("terms#0", 4.0, 5.0, cost=0.1)
    records.unit("translate#1", 5.0, 8.0, cost=0.2)
    records.unit("terms#1", 8.0, 9.0, cost=0.1)
    records.events("node.finished", {"split": 2.0, "translate": 8.0, "terms": 9.0})
    records.event("node.failed", "cover", 1.0, reason="<script>alert(1)</script>")
    records.event("node.skipped", "bind", 9.0, reason="cover failed")
    return records
