"""What a file would ask of each lane: every row is looked at, none is kept, nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.batch.jobs import Check, Input, Intake, Progress
from headway.config import Config
from headway.core.estimate import FIRST_RATIO
from headway.errors import DuplicateId
from headway.stores.base import NewUnit, Route


class Load(msgspec.Struct):
    """What one lane would get. `open_ended` are requests that nothing limits the answer of."""

    requests: int = 0
    input_tokens: int = 0
    max_output_tokens: int = 0
    open_ended: int = 0


class Survey(msgspec.Struct, frozen=True):
    """What a file holds."""

    rows: int
    bad_rows: int
    lanes: dict[str, Load]


def survey(config: Config, source: Input, *, skip_bad: bool, progress: Progress, check: Check) -> Survey:
    """Look at every row as `ingest` does, with the same errors."""
    tally = _Tally(config)
    bad = Intake(tally, config, source, 0, check, skip_bad=skip_bad, progress=progress).run()
    return Survey(tally.total, bad, tally.loads())


class _Tally:
    """Takes units as a store does, and only counts them. Their ids are kept, because none may come twice."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lanes: list[str] = []
        self._chars: list[int] = []
        self._loads: list[Load] = []
        self._ids: set[str] = set()

    @property
    def total(self) -> int:
        return len(self._ids)

    def add_route(self, job: int, route: Route) -> int:
        provider = self._config.providers[route.provider]
        lane = f"{provider.name}/{provider.pool or route.model}"
        if lane not in self._lanes:
            self._lanes.append(lane)
            self._chars.append(0)
            self._loads.append(Load())
        return self._lanes.index(lane)

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        for unit in units:
            if unit.custom_id in self._ids:
                raise DuplicateId(unit.custom_id)
            self._ids.add(unit.custom_id)
            load = self._loads[unit.route]
            load.requests += 1
            load.max_output_tokens += max(0, unit.max_tokens)
            load.open_ended += unit.max_tokens == 0
            self._chars[unit.route] += unit.chars

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        """There is nothing to seal."""

    def loads(self) -> dict[str, Load]:
        for load, chars in zip(self._loads, self._chars, strict=True):
            load.input_tokens = round(chars / FIRST_RATIO)
        return dict(zip(self._lanes, self._loads, strict=True))
