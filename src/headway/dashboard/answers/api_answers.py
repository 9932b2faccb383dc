"""Which function answers which address of the API that only reads: one table, which the documentation is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headway.dashboard.answers.agent_rows import agent_rows
from headway.dashboard.answers.job_details import job_details
from headway.dashboard.answers.job_rows import job_rows
from headway.dashboard.answers.lane_rows import all_lanes
from headway.dashboard.answers.query import page_of, whole_number
from headway.dashboard.records.job_reading import JobReading, RecordPlace, read_job
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


Answer = Callable[[ApiQuestion], dict[str, Any]]


def _jobs(asked: ApiQuestion) -> dict[str, Any]:
    return job_rows(asked.place, asked.store, page_of(asked.query))


def _job(asked: ApiQuestion) -> dict[str, Any]:
    return job_details(asked.place, asked.store, asked.job())


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
