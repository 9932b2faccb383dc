"""A kind of job in one file: every line of a .lines file is a unit, and the answers are lines of a .answers file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec

from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import DuplicateId, UsageError
from headway.jobs.base import (
    AnswerCheck,
    FileJobKind,
    IngestOptions,
    JobOutput,
    JobSource,
    OutputOptions,
    RouteCheck,
    Sink,
)
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.providers.adapter import Adapter, Admitted, Answer, Request
from headway.stores.records import Job, NewUnit, StoredRoute
from headway.stores.store import Store


class LinesSource(msgspec.Struct, frozen=True):
    """The lines, read at once."""

    name: str
    path: str
    digest: str
    lines: list[str]
    kind: str = "lines"

    @property
    def stem(self) -> str:
        return self.name.removesuffix(".lines")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def form(self) -> dict[str, Any]:
        return {"longest": max(map(len, self.lines))}

    def continues(self, store: Store, job: Job) -> bool:
        """Whatever its state is."""
        return True

    def is_sibling(self, job: Job) -> bool:
        return False

    def is_predecessor(self, job: Job) -> bool:
        return False

    @property
    def row_numbers(self) -> str:
        return ""

    def ids(self, config: Config) -> Iterator[str]:
        return iter(self.lines)

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
        check(target.provider, target.model)
        route = sink.add_route(job, StoredRoute(target.provider, target.kind, target.model))
        units = [NewUnit(line, route, "line", msgspec.json.encode(line), len(line)) for line in self.lines]
        try:
            sink.add_units(job, 0, units)
            ready()
            known = (target.provider, identity_of(config.providers[target.provider]), target.model)
            sink.seal(job, len(units), {"": known}, self.digest)
        except DuplicateId as error:
            raise UsageError(f"'{error.custom_id}' is there twice") from None
        return 0


class AnswersFile:
    """Written at the end, in input order."""

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
            self._path.write_bytes(b"".join(LINES.rows(store, self._job, 0, self._job.total - 1)))

    def close(self) -> None:
        """Nothing is open."""


class Loud:
    """Answers in capitals."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.open, self.close = adapter.open, adapter.close

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        answer = await self._adapter.send(request, timeout_s, admitted)
        return msgspec.structs.replace(answer, body=answer.body.upper())


class LinesKind(FileJobKind):
    name = "lines"

    def reads(self, path: str) -> bool:
        return path.endswith(".lines")

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        data = Path(path).read_bytes()
        digest = blake2b(data).hexdigest()
        return LinesSource(Path(path).name, str(Path(path).absolute()), digest, data.decode().splitlines())

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        return Path(path).with_suffix(".answers")

    def check_output(self, options: OutputOptions) -> None:
        if options.order != "input":
            raise UsageError("lines have one order")

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        if options.path.exists() and not options.force:
            raise UsageError(f"{options.path.name} is taken")

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        return AnswersFile(open_store, job, options.path)

    def answer_check(self, job: Job) -> AnswerCheck:
        return lambda adapter, kind: Loud(adapter)

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        for result in store.results(job.id, first - 1, last + 1 - first):
            yield (result.body or b"null") + b"\n"

    def check_export(self, path: Path) -> None:
        """Any name will do."""

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        file.writelines(self.rows(store, job, 0, job.total - 1))

    def input_name(self, job: Job) -> str:
        return f"lines of {Path(job.input).name}"

    def origin(self, job: Job) -> str:
        return f"the longest line has {job.form['longest']} characters"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        return UnitText(
            "by line", [Section("line", unit.custom_id)], remarks=["a remark"], fields={"line": unit.unit}
        )


LINES = LinesKind()
