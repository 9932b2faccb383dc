"""Which function answers which address of the API that only reads: one table, which the documentation is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from headway.dashboard.answers.agent_rows import agent_rows
from headway.dashboard.answers.job_details import job_details
from headway.dashboard.answers.job_rows import job_rows
from headway.dashboard.answers.lane_rows import all_lanes
from headway.dashboard.answers.query import instant, page_of, whole_number
from headway.dashboard.answers.unit_answers import unit_answer, units_answer
from headway.dashboard.records.job_reading import JobReading, NoSuchUnit, RecordPlace, read_job
from headway.reports.lane_history import lane_history
from headway.stores.store import Store


class ApiQuestion(NamedTuple):
    """A request, and the records to answer it from."""

    place: RecordPlace
    store: Store
    path: Mapping[str, str]
    query: Mapping[str, str]

    def job(self) -> JobReading:
        """The job of the address."""
        return read_job(self.place, self.store, self.path["job"])


#: Columns of a history where none are asked for, and at most.
POINTS: Final = 300
MOST_POINTS: Final = 3_000

Answer = Callable[[ApiQuestion], dict[str, Any]]


def _jobs(asked: ApiQuestion) -> dict[str, Any]:
    return job_rows(asked.place, asked.store, page_of(asked.query))


def _job(asked: ApiQuestion) -> dict[str, Any]:
    return job_details(asked.place, asked.store, asked.job())


def _history(asked: ApiQuestion) -> dict[str, Any]:
    query = asked.query
    points = min(MOST_POINTS, whole_number(query, "points", POINTS, least=1))
    since = instant(query, "since_utc") or 0.0
    history = lane_history(asked.store, asked.job().job, query.get("lane") or None, since, points)
    fields: dict[str, Any] = msgspec.structs.asdict(history)
    return fields


def _units(asked: ApiQuestion) -> dict[str, Any]:
    return units_answer(asked.place, asked.store, asked.job(), page_of(asked.query), asked.query)


def _unit(asked: ApiQuestion) -> dict[str, Any]:
    reading, index = asked.job(), asked.path["index"]
    if not index.isascii() or not index.isdecimal() or len(index) > 9:
        raise NoSuchUnit(index)
    return unit_answer(asked.place, asked.store, reading, int(index))


def _flow(asked: ApiQuestion) -> dict[str, Any]:
    from headway.dashboard.answers.flow_answer import flow_answer  # Each of these kinds brings many modules.

    return flow_answer(asked.place, asked.store, asked.job())


def _eval(asked: ApiQuestion) -> dict[str, Any]:
    from headway.dashboard.answers.eval_answer import ROWS, eval_answer

    return eval_answer(asked.place, asked.store, asked.job(), page_of(asked.query, ROWS))


def _review(asked: ApiQuestion) -> dict[str, Any]:
    from headway.dashboard.answers.review_answers import review_answer

    return review_answer(asked.store, asked.job(), page_of(asked.query))


def _review_file(asked: ApiQuestion) -> dict[str, Any]:
    from headway.dashboard.answers.review_answers import review_file_answer

    path, first = asked.query.get("path", ""), whole_number(asked.query, "first_line", 1, least=1)
    return review_file_answer(asked.store, asked.job(), path, first)


def _agents(asked: ApiQuestion) -> dict[str, Any]:
    return {"agents": agent_rows(asked.store, asked.job())}


def _lanes(asked: ApiQuestion) -> dict[str, Any]:
    return {"lanes": all_lanes(asked.place, asked.store)}


ANSWERS: Final[dict[str, Answer]] = {
    "/api/jobs": _jobs,
    "/api/jobs/{job}": _job,
    "/api/jobs/{job}/history": _history,
    "/api/jobs/{job}/units": _units,
    "/api/jobs/{job}/units/{index}": _unit,
    "/api/jobs/{job}/flow": _flow,
    "/api/jobs/{job}/eval": _eval,
    "/api/jobs/{job}/review": _review,
    "/api/jobs/{job}/review/file": _review_file,
    "/api/jobs/{job}/agents": _agents,
    "/api/lanes": _lanes,
}
#: What is answered as long as nothing was run.
EMPTY: Final[dict[str, dict[str, Any]]] = {
    "/api/jobs": {"jobs": [], "next": None},
    "/api/lanes": {"lanes": []},
}
