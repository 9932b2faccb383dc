"""What an engine is given for a run: the job, its lanes and routes, and the settings of this run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from headway.core.lanes.queueing.unit_lengths import Size
from headway.core.model import LaneSpec, Price, RetryPolicy
from headway.engine.attempt_tracer import AttemptTracer
from headway.engine.cache_keys import CacheUse
from headway.engine.observer import PartProgress
from headway.providers.adapter import Adapter, Answer, OnText, Request
from headway.stores.records import Job, State
from headway.stores.store import Store
from headway.stores.write_batch import Grow


class RunLane(msgspec.Struct, frozen=True):
    """A lane of this run: its description for the scheduler, its name for people, and the adapter that sends."""

    spec: LaneSpec
    name: str
    adapter: Adapter


#: Looks up prices, by a route's number, and returns a remark for the user on those that are not known.
PriceList = Callable[[], Awaitable[tuple[dict[int, Price], str]]]


class UnitRoute(msgspec.Struct, frozen=True):
    """A route in this run: the key of its lane and the price of its tokens, if that is known. `open_inputs` has the numbers of
    families whose input is more than their text.
    """

    lane: str
    price: Price | None = None
    open_inputs: frozenset[int] = frozenset()
    #: The group of units that run one at a time (`Unit.exclusive`); 0: none.
    exclusive: int = 0
    #: How its units are retried; None: as their lane says.
    retry: RetryPolicy | None = None
    #: The timeout of an attempt; 0: the run's.
    timeout_s: float = 0.0


class RenderedRequest(msgspec.Struct, frozen=True):
    """The request of a unit that waits for others: what is sent, the characters of its input, and whether more than its own text
    goes in (a file, an image).
    """

    path: str
    body: bytes
    chars: int
    open_input: bool = False


#: Makes the request of a unit (by its index) from the records: its own row, its edges, and the answers that it waits for.
#: Raises a HeadwayError where that cannot be done. Called in the reader's thread.
Render = Callable[[Store, int], RenderedRequest]


#: Checks a successful answer to a request of a route (by its number). Returns the answer, with a complaint if it does not fit: the
#: unit then pays with an attempt, and the complaint may have the next request of the conversation.
RouteAnswerCheck = Callable[[int, Request, Answer], Answer]


class AttemptListener(Protocol):
    """Follows the attempts of a run closely, for someone who waits for the answers. Called on the engine's loop; never raises."""

    def started(self, index: int, attempt: int) -> OnText:
        """An attempt at a unit is sent; the function gets the text of its answer as it arrives, if the provider streams."""

    def requeued(self, index: int, reason: str, wait_s: float | None) -> None:
        """An attempt has ended without a usable answer; another one follows, at the earliest after `wait_s` seconds.

        None: the lane stops, as after a wrong key, and no attempt follows in this run.
        """


class UnitGroups(msgspec.Struct, frozen=True):
    """Units (by index) that belong together: at most so many groups are in flight at once. `of` is the number of a unit's group; 0: none."""

    most: int
    of: Callable[[int], int]


class RunSpec(msgspec.Struct, frozen=True):
    """One run of one job. `routes` has each of the job's routes by its number in the store."""

    job: Job
    lanes: dict[str, RunLane]
    routes: dict[int, UnitRoute]
    settings: dict[str, Any]
    out: str = ""
    concurrency: int = 0
    timeout_s: float = 600.0
    max_duration_s: float = 0.0
    max_wait_s: float = 0.0
    max_cost_usd: float = 0.0
    max_hold_s: float | None = None
    #: The weight of this job against others that use the same lanes at the same time.
    weight: float = 1.0
    delay_s: float = 0.0
    #: All units one by one, in index order.
    serial: bool = False
    only_failed: bool = False
    #: Only these units run, however they ended before; with `grow_hands_out` also all others that wait.
    only_units: tuple[int, ...] = ()
    #: Units that ended without success and do not run again, unless `only_units` has them.
    stays_ended: frozenset[int] = frozenset()
    #: Only the first units, this many; 0: all.
    first: int = 0
    #: When this process took the job: earlier commands of other terminals were for an earlier run. 0: when it begins.
    taken_utc: float = 0.0
    #: How the cache is used; None: not at all.
    cache: CacheUse | None = None
    #: Remarks for observers when it begins: on costs, and on agents.
    remarks: tuple[str, ...] = ()
    agent_remarks: tuple[str, ...] = ()
    #: Checks before the run: each raises a HeadwayError if the run cannot work.
    checks: tuple[Callable[[], Awaitable[None]], ...] = ()
    #: How long answers of a family were in earlier jobs, the oldest first (`source.family_name`).
    outputs: dict[str, list[float]] = {}
    #: How the requests of units with edges are made; None: such units only wait, and send their own requests.
    render: Render | None = None
    #: How long units of a family and size took in earlier jobs, where their order depends on it.
    lengths: dict[str, list[tuple[Size, float]]] = {}
    #: The groups of units that have another one than their route, by index.
    exclusive: dict[int, int] = {}
    #: Groups of units of which only some are in flight at once; None: units have no groups.
    groups: UnitGroups | None = None
    #: Which units are added when units end; None: the job has all of its units from the start.
    grow: Grow | None = None
    #: Whether `grow` also returns units that the job has had from an earlier run: each runs when it is returned, and not before.
    grow_hands_out: bool = False
    #: The parts of the job, for views. Called on the loop, while `grow` may run in the writer's thread; must return quickly.
    parts: Callable[[], tuple[PartProgress, ...]] | None = None
    #: The names of parts → the keys of the lanes that their units go to.
    part_lanes: Mapping[str, str] = {}
    #: Why nothing more is to start; "": it may. Asked after each commit, on the loop. What is in flight finishes, and the job has failed.
    stops: Callable[[], str] | None = None
    #: Whether units that are added bring their keys of the cache: answers go into it without a lookup before the run.
    grown_keys: bool = False
    #: The state of a job whose run has ended, if its units alone do not say it.
    end_state: Callable[[Store, Job, State], State] = lambda store, job, state: state
    #: Where results wait while the database is away; None: it cannot be.
    journal: Path | None = None
    #: Checks answers by their route; None: every answer that the adapter accepts is accepted.
    check_answer: RouteAnswerCheck | None = None
    #: The prices that are not known yet: they are looked up while the first requests are on their way.
    later_prices: PriceList | None = None
    #: Reads answers while they arrive; None: they are recorded when they are complete, as in every batch.
    listener: AttemptListener | None = None
    #: Follows units and attempts for another system.
    tracer: AttemptTracer | None = None
