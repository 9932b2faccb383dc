"""The units of a job as a list with filters and search, and one unit with everything about it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headway.command_flags import with_flags
from headway.core.unit_states import Status
from headway.dashboard.answers.query import BadRequest, Page, bounded
from headway.dashboard.records.job_reading import JobReading, NoSuchUnit, RecordPlace
from headway.dashboard.troubles.trouble import command_line
from headway.reports.unit_pages.unit_page import unit_page
from headway.reports.unit_search import UnitQuery, search_units
from headway.stores.store import Store
from headway.stores.unit_lists import UnitFilter

#: Statuses that a filter stands for, where it is more than one.
_SEVERAL: Final[dict[str, tuple[str, ...]]] = {"running": (Status.ASSIGNED, Status.RUNNING)}
_STATUSES: Final = frozenset(str(status) for status in Status)


def units_answer(
    place: RecordPlace, store: Store, reading: JobReading, page: Page, query: Mapping[str, str]
) -> dict[str, Any]:
    """A page of units: those that the filters accept and that have the words of `q`."""
    words = bounded(query, "q")
    asked = UnitQuery(words, _filter(query), page.after or "", page.limit)
    with place.indexes.index_of(reading.job) as index:
        found = search_units(store, reading.job, asked, index)
    fields: dict[str, Any] = msgspec.to_builtins(found)
    return fields


def _filter(query: Mapping[str, str]) -> UnitFilter:
    statuses: list[str] = []
    for name in filter(None, query.get("status", "").split(",")):
        if name not in _STATUSES:
            raise BadRequest(f"'status' is one of: {', '.join(sorted(_STATUSES))}")
        statuses += _SEVERAL.get(name, (name,))
    codes = tuple(filter(None, bounded(query, "code").split(",")))
    return UnitFilter(tuple(statuses), codes, bounded(query, "lane"))


def unit_answer(place: RecordPlace, store: Store, reading: JobReading, index: int) -> dict[str, Any]:
    """One unit: every second of its life, every attempt, what was said, and what to do if it failed."""
    job = reading.job
    if index >= job.total:
        raise NoSuchUnit(str(index))
    page = unit_page(store, job, index, live=reading.is_live, now_utc=time.time())
    fields: dict[str, Any] = msgspec.structs.asdict(page)
    if page.error is not None:
        fields["error"] = replace(page.error, do=with_flags(page.error.do, place.flags))
    return {**fields, "command": command_line(place.flags, "show", job.name, page.unit.id)}
