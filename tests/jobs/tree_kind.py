"""A kind of job that grows while it runs: every unit of a .tree file adds units when it has succeeded.

A line is a name and a depth: "a 2". When unit "a" has succeeded it adds "a0" and "a1", one less deep, and "a+", whose request is
made from both answers. The units that a later line adds wait for the unit of the first line, too. The key of a unit in the
cache follows from its name: a unit that is added takes an answer of an earlier job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from tests.jobs.lines_kind import AnswersFile, LinesKind, LinesSource

from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.engine.cache_keys import KEY_BYTES
from headway.engine.run_spec import Render, RenderedRequest
from headway.jobs.base import IngestOptions, JobOutput, JobSource, OutputOptions, RouteCheck, Sink
from headway.stores.records import Edge, Job, NewUnit, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow


def unit(name: str, depth: int, route: int, after: tuple[Edge, ...] = ()) -> NewUnit:
    body = msgspec.json.encode({"name": name, "depth": depth})
    return NewUnit(name, route, "tree", body, len(body), priority=depth, after=after)


class TreeSource(LinesSource, frozen=True):
    """The lines, read at once."""

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
        target = Router(config).route(None)
        route = sink.add_route(job, StoredRoute(target.provider, target.kind, target.model))
        parted = [line.split() for line in self.lines]
        sink.add_units(job, 0, [unit(name, int(depth), route) for name, depth in parted])
        ready()
        known = (target.provider, identity_of(config.providers[target.provider]), target.model)
        sink.seal(job, len(parted), {"": known}, self.digest)
        return 0


def with_answer(store: Store, new: NewUnit) -> NewUnit:
    """The unit with its key, and with the answer that the cache has."""
    key = blake2b(new.custom_id.encode(), digest_size=KEY_BYTES).digest()
    found = store.cache.find(key)
    return msgspec.structs.replace(new, key=key, source=None if found is None else found[0])


def grown(job: Job, store: Store, ended: Sequence[int]) -> list[NewUnit]:
    """What units add that have an answer."""
    [route], new = store.routes(job.id), []
    for index in ended:
        [result] = store.results(job.id, index - 1, 1)
        [(_, _, body)] = store.requests(job.id, [index])
        row = msgspec.json.decode(body)
        if result.status not in ("succeeded", "cached") or row["depth"] == 0 or "+" in row["name"]:
            continue
        name, depth = row["name"], row["depth"] - 1
        first = () if index == 0 else (Edge("first", 0),)
        new += [unit(f"{name}{n}", depth, route.id, first) for n in (0, 1)]
        new.append(unit(f"{name}+", depth, route.id, (Edge("left", f"{name}0"), Edge("right", f"{name}1"))))
    return [with_answer(store, one) for one in new]


def rendered(job: Job, store: Store, index: int) -> RenderedRequest:
    [(_, path, body)] = store.requests(job.id, [index])
    answers = {
        edge.role: msgspec.json.decode(store.answer(job.id, edge.before) or b"")
        for edge in store.edges(job.id, [index])
    }
    sent = msgspec.json.encode({**msgspec.json.decode(body), "of": answers})
    return RenderedRequest(path, sent, len(sent))


class TreeOutput(AnswersFile):
    """The job has more units at its end than it had at the start."""

    def finish(self) -> None:
        with self._open_store() as store:
            job = store.job(self._job.name)
            assert job is not None
            lines = TREE.rows(store, job, 0, job.total - 1)
            self._path.write_bytes(b"".join(sorted(lines)))


class TreeKind(LinesKind):
    name = "tree"
    makes_keys = True

    def reads(self, path: str) -> bool:
        return path.endswith(".tree")

    def open(self, path: str, stdin: BinaryIO | None, flags: Any) -> JobSource:
        data = Path(path).read_bytes()
        name, digest = Path(path).name, blake2b(data).hexdigest()
        return TreeSource(name, str(Path(path).absolute()), digest, data.decode().splitlines(), "tree")

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        return TreeOutput(open_store, job, options.path)

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """By name: units are added in the order in which others end."""
        for result in store.results(job.id, first - 1, last + 1 - first):
            yield result.custom_id.encode() + b" " + (result.body or b"null") + b"\n"

    def renderer(self, job: Job) -> Render:
        return partial(rendered, job)

    def growth(self, job: Job) -> Grow:
        return partial(grown, job)


TREE = TreeKind()
