"""Routes with one provider and model may differ: in their retries and their timeout, and in the check of their answers."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.engine.test_engine import Adapter, ended

from headway.core.model import Kind, LaneLimits, LaneSpec, Outcome, RetryPolicy
from headway.engine.engine import Engine
from headway.engine.run_spec import RunLane, RunSpec, UnitRoute
from headway.providers.adapter import Admitted, Answer, Complaint, Request
from headway.stores.records import NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store

PATH = "/v1/chat/completions"
#: No wait between attempts.
AT_ONCE = RetryPolicy(base_s=0.0, cap_s=0.0, max_attempts=2)


def labelled_store(*labels: str) -> Store:
    """A job with one route and one unit for each label; the unit sends its label."""
    store = Store(SqliteMemory())
    job = store.add_job(NewJob("job", "batch", "in.jsonl", "digest", "", 0.0))
    routes = [store.add_route(job, StoredRoute("a", "openai", "m", label=label)) for label in labels]
    units = [
        NewUnit(label, route, PATH, label.encode(), chars=10)
        for label, route in zip(labels, routes, strict=True)
    ]
    store.add_units(job, 0, units)
    store.seal(job, len(units), {}, "digest")
    return store


def engine_of(store: Store, adapter: Adapter, own: dict[str, dict[str, Any]], **more: Any) -> Engine:
    """`own` has the settings of a route, by its label."""
    job = store.job("job")
    assert job is not None
    routes = {route.id: UnitRoute("a", **own.get(route.label, {})) for route in store.routes(job.id)}
    lane = RunLane(LaneSpec("a", LaneLimits(max_concurrency=4), AT_ONCE, own_failures=True), "a", adapter)
    return Engine(lambda: store, RunSpec(job, {"a": lane}, routes, {}, timeout_s=10.0, **more), [])


def statuses(store: Store) -> dict[str, str]:
    return {result.custom_id: result.status for result in store.results(1, -1, 100)}


async def broken(request: Request) -> Answer:
    return Answer(Outcome(Kind.TRANSIENT, message="broken"))


async def fine(request: Request) -> Answer:
    return Answer(status=200, body=request.body)


async def test_a_route_has_its_own_attempts() -> None:
    store, adapter = labelled_store("often", "usual", "once"), Adapter(broken)
    own = {label: {"retry": msgspec.structs.replace(AT_ONCE, max_attempts=n)} for label, n in (("often", 4), ("once", 1))}  # fmt: skip
    await ended(engine_of(store, adapter, own))

    assert {label: adapter.sent.count(label.encode()) for label in statuses(store)} == {
        "often": 4,
        "usual": 2,
        "once": 1,
    }
    assert set(statuses(store).values()) == {"failed"}


class TimedAdapter(Adapter):
    """Notes the timeout of each request."""

    def __init__(self) -> None:
        super().__init__(fine)
        self.timeouts: dict[bytes, float] = {}

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        self.timeouts[request.body] = timeout_s
        return await super().send(request, timeout_s, admitted)


async def test_a_route_has_its_own_timeout() -> None:
    store, adapter = labelled_store("quick", "usual"), TimedAdapter()
    await ended(engine_of(store, adapter, {"quick": {"timeout_s": 2.5}}))

    assert adapter.timeouts == {b"quick": 2.5, b"usual": 10.0}


async def test_a_check_sees_each_successful_answer_with_its_route() -> None:
    store, adapter = labelled_store("right", "wrong"), Adapter(fine)
    labels = {route.id: route.label for route in store.routes(1)}
    seen: list[tuple[str, bytes, bytes]] = []

    def check(route: int, request: Request, answer: Answer) -> Answer:
        seen.append((labels[route], request.body, answer.body))
        if labels[route] == "right":
            return answer
        return msgspec.structs.replace(answer, complaint=Complaint("it is wrong"))

    await ended(engine_of(store, adapter, {}, check_answer=check))

    assert sorted(seen) == [("right", b"right", b"right"), ("wrong", b"wrong", b"wrong")]
    assert statuses(store) == {"right": "succeeded", "wrong": "failed"}
    assert [result.message for result in store.results(1, -1, 9)] == [None, "it is wrong"]
    assert store.repairs_of(1, 1)[0].answer == b"wrong"


async def test_a_check_may_have_an_answer_repaired() -> None:
    store, adapter = labelled_store("draft"), Adapter(fine)

    def check(route: int, request: Request, answer: Answer) -> Answer:
        if answer.body != b"draft":
            return answer
        again = Request(request.path, b"again", request.repairs + 1)
        return msgspec.structs.replace(answer, complaint=Complaint("once more", again, 5))

    await ended(engine_of(store, adapter, {}, check_answer=check))

    assert adapter.sent == [b"draft", b"again"]
    assert store.answer(1, 0) == b"again"


async def test_a_check_may_make_an_answer_invalid_and_sees_no_failures() -> None:
    store, adapter = labelled_store("strict"), Adapter(broken)
    adapter_fine = Adapter(fine)

    def refuse(route: int, request: Request, answer: Answer) -> Answer:
        outcome = msgspec.structs.replace(answer.outcome, kind=Kind.INVALID, message="not an object")
        return msgspec.structs.replace(answer, outcome=outcome)

    await ended(engine_of(store, adapter, {}, check_answer=refuse))
    assert [result.message for result in store.results(1, -1, 9)] == ["broken"]
    await ended(engine_of(store, adapter_fine, {}, check_answer=refuse))
    assert [(result.code, result.message) for result in store.results(1, -1, 9)] == [
        ("invalid", "not an object")
    ]
    assert adapter_fine.sent == [b"strict"]


async def test_a_bug_in_a_check_fails_its_unit_alone() -> None:
    store = labelled_store("buggy", "usual")
    buggy = store.routes(1)[0].id

    def check(route: int, request: Request, answer: Answer) -> Answer:
        return answer if route != buggy else 1 / 0  # type: ignore[return-value]

    await ended(engine_of(store, Adapter(fine), {}, check_answer=check))
    assert statuses(store) == {"buggy": "failed", "usual": "succeeded"}
