"""A job's waiting units out of the store: one cursor for each route and priority, merged by lane.

Cursors only move forward, so no unit is read twice: also not one whose change of state is in a batch that is not
committed yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache, partial
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import structs

from headway.core.commands import AnyFetch, Fetch, FetchSerial
from headway.core.events import Event, ExtraUnits, RestUnits, SerialUnits, Units
from headway.core.lanes.estimate import FIRST_RATIO, MOST_TOKENS
from headway.core.lanes.queueing.unit_lengths import LengthTable
from headway.core.model import Estimate, Price, Unit
from headway.core.unit_states import GOOD
from headway.engine.run_spec import RenderedRequest, UnitGroups, UnitRoute
from headway.engine.units.held_units import HeldUnits
from headway.engine.units.length_index import LargestSizes, LengthIndex, unit_of_size
from headway.engine.units.route_cursor import RestCursor, RouteCursor, merged
from headway.stores.answer_cache import AnswerCache
from headway.stores.records import NewUnit, PendingUnit, UnknownOutcome
from headway.stores.store import Store

#: A token has at least so many characters in most texts.
FEWEST_CHARS: Final = 2.0
#: Tokens that stand around the texts of a short request.
FRAME: Final = 16.0

AnyEvent = TypeVar("AnyEvent", bound=Event, covariant=True)


class Fetched(msgspec.Struct, Generic[AnyEvent], frozen=True):
    """The answer to a fetch, and how many units of each lane are still to be fetched after it."""

    event: AnyEvent
    unfetched: dict[str, int]


class StoreSource:
    """A run's units. `fetch` belongs to the thread that reads the store; everything else to the engine's own."""

    def __init__(
        self,
        store: Store,
        job: int,
        routes: Mapping[int, UnitRoute],
        *,
        serial: bool = False,
        has_serial: bool = False,
        only: frozenset[int] | None = None,
        leaders: bool = False,
        renders: bool = False,
        grows: bool = False,
        exclusive: Mapping[int, int] | None = None,
        held: HeldUnits | None = None,
        groups: UnitGroups | None = None,
    ) -> None:
        """`leaders` leaves out units that follow others which ask the same. `renders`: the requests of units with edges are made
        when their turn comes. `grows`: units may be added that wait for any unit. `exclusive` and `groups`: as in `RunSpec`. `held`:
        units that wait until growth returns them."""
        self.held = held
        self._exclusive = exclusive or {}
        self._group_of = _no_group if groups is None else groups.of
        #: Whether units may have settings beside those that every unit has: a group, a policy for retries.
        self._has_settings = (
            bool(exclusive)
            or groups is not None
            or any(route.exclusive or route.retry is not None for route in routes.values())
        )
        self._leaders, self._renders, self._grows = leaders, renders, grows
        #: Units with this index or a higher one are added while this run goes on.
        self._first_added: int | None = None
        #: Whether any unit waits for another one. Jobs without edges are read without a look at them.
        self._has_edges = store.has_edges(job)
        self._job, self._routes = job, routes
        self._serial, self._has_serial, self._only = serial, has_serial or serial, only
        self._serial_after = -1
        #: How much longer than its own request what a unit goes on with is, for those that do.
        self.longer: dict[int, int] = {}
        #: Tries that a unit had in earlier runs, for those that had any.
        self.tries: dict[int, int] = {}
        self._left: dict[str, int] = dict.fromkeys((route.lane for route in routes.values()), 0)
        #: How many units of a lane are to be fetched, by what was delivered so far.
        self.unfetched = self._left
        #: Units that were taken out of turn: no cursor brings them any more.
        self._taken: set[int] = set()
        #: The cursors of each lane that may have units left. A job may have thousands of routes, and few of them at a time.
        self._cursors: dict[str, list[RouteCursor]] = {lane: [] for lane in self._left}
        #: All cursors, by route and priority.
        self._cursor_of: dict[tuple[int, int], RouteCursor] = {}
        #: The lanes whose units are taken longest first.
        self._longest: dict[str, LengthIndex] = {}
        self._sizes = LargestSizes(job)
        self._largest: dict[str, list[Unit]] = {}
        for route in store.routes(job):
            for priority in route.priorities:
                self._cursor(routes[route.id].lane, route.id, priority)
        self.count(store)

    @property
    def has_serial(self) -> bool:
        """Whether any unit is to run in the serial phase."""
        return self._has_serial

    def count(self, store: Store) -> None:
        """See how many wait: before any is fetched, and again where others have changed that meanwhile."""
        self._left = dict.fromkeys(self._left, 0)
        for route_id, count in self._of(store).pending(self._job).items():
            self._left[self._routes[route_id].lane] += count
        self.unfetched = dict(self._left)

    def _of(self, store: Store) -> Store | AnswerCache:
        """Whose cursors are read."""
        return store.cache if self._leaders else store

    def know(self, prices: Mapping[int, Price]) -> None:
        """Prices that have become known: what is read from now on is estimated by them."""
        known = {
            number: structs.replace(self._routes[number], price=price) for number, price in prices.items()
        }
        self._routes = {**self._routes, **known}

    def add(self, units: Sequence[tuple[int, NewUnit]]) -> dict[str, int]:
        """Units were added to the job, each with its index; how many of each lane are to be fetched now. For the reader's thread."""
        if self._first_added is None:
            self._first_added = units[0][0]
        for _, unit in units:
            lane = self._routes[unit.route].lane
            cursor = self._cursor(lane, unit.route, unit.priority)
            if not cursor.is_listed:
                cursor.is_listed = True
                self._cursors[lane].append(cursor)
            cursor.go_on()
            self._left[lane] += 1
            self._has_edges = self._has_edges or bool(unit.after)
        return dict(self._left)

    def lanes_of(self, units: Sequence[tuple[int, NewUnit]]) -> list[str]:
        """The lanes of units that were added, each once."""
        return list(dict.fromkeys(self._routes[unit.route].lane for _, unit in units))

    def _cursor(self, lane: str, route: int, priority: int) -> RouteCursor:
        cursor = self._cursor_of.get((route, priority))
        if cursor is None:
            cursor = self._cursor_of[route, priority] = RouteCursor(self._job, route, priority, self._taken)
            self._cursors[lane].append(cursor)
        return cursor

    def withdraw(self, store: Store, indexes: Sequence[int]) -> Fetched[ExtraUnits]:
        """The units of `indexes` that wait and have not been fetched, taken out of turn. For the reader's thread."""
        serial = store.serial_units(self._job, indexes)
        followers = store.cache.followers(self._job, indexes) if self._leaders else set()
        units = [
            self._unit(row)
            for row in store.waiting_units(self._job, indexes)
            if row.index in followers or self._is_to_come(row, serial)
        ]
        self._taken.update(unit.index for unit in units)
        return Fetched(ExtraUnits(self._with_edges(store, units)), dict(self._left))

    def _is_to_come(self, row: PendingUnit, serial: Set[int]) -> bool:
        """Whether a unit has not been fetched; if so, its cursor loses it."""
        lane = self._routes[row.route].lane
        if row.index in self._taken:
            return False
        if self.held is not None and not self.held.comes_by_cursor(row.index):
            return self.held.take(row.index)
        if self._serial or row.index in serial:
            is_to_come = row.index > self._serial_after
        elif lane in self._longest and self._longest[lane].withdraw(row.index):
            is_to_come = True
        else:
            is_to_come = self._cursor(lane, row.route, row.priority).withdraw(row.index)
        self._left[lane] -= is_to_come
        return is_to_come

    def reopened(self, store: Store, indexes: Sequence[int]) -> list[Unit]:
        """Units that had ended and wait again: they come out of turn. For the reader's thread."""
        self._taken.update(indexes)
        units = [self._unit(row) for row in store.waiting_units(self._job, indexes)]
        return self._with_edges(store, units)

    def hand_out(self, store: Store, indexes: Sequence[int]) -> list[Unit]:
        """Those of these units that were held: they come out of turn. For the reader's thread."""
        assert self.held is not None
        units = [self._unit(row) for row in store.waiting_units(self._job, self.held.take_all(indexes))]
        return self._with_edges(store, units)

    def remaining(self, lane: str) -> int:
        """How many units of a lane are still to be fetched."""
        return max(0, self.unfetched.get(lane, 0))

    def fetch(self, command: AnyFetch, store: Store) -> Fetched[Event]:
        """Read what a command asks for."""
        reading = self._of(store)
        event: Event
        if isinstance(command, Fetch):
            event = self._fetch_units(command, store)
        elif isinstance(command, FetchSerial):
            event = SerialUnits(self._with_edges(store, self._take_serial(reading, command.n)))
        else:
            event = RestUnits(self._drain(reading, command.n))
        return Fetched(event, dict(self._left))

    def _with_past(self, store: Store, units: list[Unit]) -> list[Unit]:
        """Of units that an earlier run tried, only those have failed of which an attempt has: others were refused, or are lost."""
        tried = [unit.index for unit in units if unit.failed_before]
        if not tried:
            return units
        failed = store.lists.failed_before(self._job, tried)
        return [
            structs.replace(unit, failed_before=False)
            if unit.failed_before and unit.index not in failed
            else unit
            for unit in units
        ]

    def _with_edges(self, store: Store, units: list[Unit]) -> list[Unit]:
        """The same units, with what they wait for. An edge to a unit that has succeeded is satisfied, and is left out."""
        units = self._with_past(store, units)
        if not (self._has_edges or self._grows) or not units:
            return units
        indexes = [unit.index for unit in units]
        leading = store.depended_on(self._job, indexes)
        after: dict[int, list[int]] = {}
        for edge in store.edges(self._job, indexes):
            waits = after.setdefault(edge.index, [])
            if edge.status not in GOOD and edge.before not in waits:
                waits.append(edge.before)
        return [
            structs.replace(
                unit,
                after=tuple(after.get(unit.index, ())),
                leads=self._grows or unit.index in leading,
                late=self._renders and unit.index in after,
            )
            for unit in units
        ]

    def resized(self, unit: Unit, made: RenderedRequest) -> Unit:
        """A late unit whose request is made: with its real size, and what it may cost."""
        route, _, family = unit.family.partition(".")
        estimate = unit.estimate
        embeds = not unit.chars and bool(estimate.input_tokens)
        row = PendingUnit(
            unit.index,
            made.chars,
            -1 if embeds else int(estimate.max_output_tokens),
            unit.priority,
            int(route),
            family=int(family),
            size=len(made.body),
        )
        sized = unit_of(row, self._routes[row.route], open_input=made.open_input)
        return structs.replace(
            sized,
            expected_s=unit.expected_s,
            after=unit.after,
            leads=unit.leads,
            late=False,
            exclusive=unit.exclusive,
            group=unit.group,
            retry=unit.retry,
            failed_before=unit.failed_before,
        )

    def _fetch_units(self, command: Fetch, store: Store) -> Units:
        lane, n = command.lane, command.n
        if self._serial:
            return Units(lane, (), more=False)
        if command.longest is not None:
            units = self._take_longest(self._of(store), lane, n, command.longest)
        else:
            units = self._take(self._of(store), lane, n)
        full, left = len(units) == n, self._left[lane]
        units = self._with_edges(store, units)
        if not command.sized:
            return Units(lane, units, full, left)
        if command.longest is not None:
            return Units(lane, units, full, left, self._longest[lane].next(lane, command.longest))
        return Units(lane, units, full, left, self._largest_of(store, lane))

    def _largest_of(self, store: Store, lane: str) -> Sequence[Unit]:
        """The largest units of a lane's families, of all units that have been looked through. None where units wait for others, or
        may be added: how long one takes says little there."""
        if self._has_edges or self._grows:
            return ()
        if self._sizes.look_on(store):
            self._largest = {}
            for route, family, size in self._sizes.items():
                key = self._routes[route].lane
                unit = unit_of_size(key, family_name(route, family), size)
                self._largest.setdefault(key, []).append(unit)
        return self._largest.get(lane, ())

    def _take_longest(
        self, store: Store | AnswerCache, lane: str, n: int, lengths: LengthTable
    ) -> list[Unit]:
        """The longest of all units of a lane that are left. The first time, all of them are looked through."""
        index = self._longest.setdefault(lane, LengthIndex())
        for cursor in self._cursors[lane]:
            sizes = cursor.sizes(store)
            if self._only is not None or self.held is not None:
                sizes = (size for size in sizes if self._wanted(size[0]))
            index.add(cursor.priority, partial(family_name, cursor.route), sizes)
        units: list[Unit] = []
        while len(units) < n and (taken := index.take(n - len(units), lengths)):
            self._left[lane] -= len(taken)
            rows = {row.index: row for row in store.waiting_units(self._job, taken)}
            units += map(self._unit, [rows[number] for number in taken if number in rows])
        return units

    def _take(self, store: Store | AnswerCache, lane: str, n: int) -> list[Unit]:
        units: list[Unit] = []
        while len(units) < n:
            rows = self._next(store, lane, n - len(units))
            if not rows:
                break
            units += self._units(rows)
        return units

    def _next(self, store: Store | AnswerCache, lane: str, n: int) -> list[PendingUnit]:
        """The next rows of a lane, wanted or not: all of the highest priority first."""
        cursors = self._cursors.get(lane, [])
        if len(cursors) > 1:
            cursors = self._cursors[lane] = _without_spent(cursors)
        for priority in sorted({cursor.priority for cursor in cursors}, reverse=True):
            rows = merged(store, [cursor for cursor in cursors if cursor.priority == priority], n)
            if rows:
                self._left[lane] -= len(rows)
                return rows
        return []

    def _take_serial(self, store: Store | AnswerCache, n: int) -> list[Unit]:
        if not self._has_serial:
            return []
        rows = store.next_serial(self._job, self._serial_after, n, every=self._serial)
        if rows:
            self._serial_after = rows[-1].index
        for row in rows:
            self._left[self._routes[row.route].lane] -= row.index not in self._taken
        wanted = self._units(rows)
        return wanted if wanted or not rows else self._take_serial(store, n)

    def _drain(self, store: Store | AnswerCache, n: int) -> list[Unit]:
        """What no cursor has come to yet."""
        if serial := self._take_serial(store, n):
            return serial
        for lane, index in self._longest.items():
            self._cursors[lane].append(RestCursor(self._job, index.all()))
        self._longest.clear()
        cursors = [] if self._serial else [cursor for lane in self._cursors.values() for cursor in lane]
        while rows := merged(store, cursors, n):
            units = self._units(rows)
            if units:
                return units
        self._left = dict.fromkeys(self._left, 0)
        return []

    def _wanted(self, index: int) -> bool:
        if index in self._taken:
            return False
        if self.held is not None and not self.held.comes_by_cursor(index):
            return False
        if self._only is None or index in self._only:
            return True
        return self._first_added is not None and index >= self._first_added

    def _units(self, rows: Iterable[PendingUnit]) -> list[Unit]:
        """The units of those rows that this run wants."""
        if self._only is not None or self._taken or self.held is not None:
            rows = (row for row in rows if self._wanted(row.index))
        if self.longer or self._has_settings:
            return list(map(self._unit, rows))
        routes, units = self._routes, []
        for row in rows:
            if row.attempts:
                self.tries[row.index] = row.attempts
            units.append(unit_of(row, routes[row.route]))
        return units

    def _unit(self, row: PendingUnit) -> Unit:
        if row.attempts:
            self.tries[row.index] = row.attempts
        if self.longer and row.index in self.longer:
            longer = self.longer[row.index]
            row = structs.replace(
                row, chars=row.chars + longer, size=row.size and row.size + int(MOST_TOKENS * longer)
            )
        unit, route = unit_of(row, self._routes[row.route]), self._routes[row.route]
        exclusive, group = self._exclusive.get(row.index, route.exclusive), self._group_of(row.index)
        if exclusive or group or route.retry is not None:
            unit = structs.replace(unit, exclusive=exclusive, group=group, retry=route.retry)
        return unit


def _no_group(index: int) -> int:
    return 0


def _without_spent(cursors: list[RouteCursor]) -> list[RouteCursor]:
    for cursor in cursors:
        cursor.is_listed = not cursor.is_spent
    return [cursor for cursor in cursors if cursor.is_listed]


def unit_of(row: PendingUnit, route: UnitRoute, *, open_input: bool = False) -> Unit:
    """A waiting unit as the scheduler wants it. Its lane says what to set aside where nothing limits its answer, and how
    much less its input takes than it could. `open_input`: more than its text goes in, whatever its family."""
    price, family = route.price, family_name(row.route, row.family)
    open_input = open_input or row.family in route.open_inputs
    most, usd, input_usd, output_usd = 0.0, 0.0, 0.0, 0.0
    if price is not None:
        most = _usual_input(row) if open_input else most_input(row)
        output = max(0.0, float(row.max_tokens))
        usd = price.most(most, output)
        input_usd, output_usd = price.most_of_one(most)
    if row.max_tokens < 0:  # Nothing is produced: an embedding.
        chars, output_usd = 0, 0.0
        estimate = Estimate(input_tokens=row.chars / FIRST_RATIO, cost_usd=usd)
    else:
        chars, output_usd = row.chars, 0.0 if row.max_tokens else output_usd
        estimate = Estimate(max_output_tokens=float(row.max_tokens), cost_usd=usd)
    return Unit(
        row.index, route.lane, estimate, row.priority, chars=chars, family=family, output_usd=output_usd,
        input_most=most, input_usd=input_usd if most else 0.0, open_input=open_input and bool(most),
        failed_before=row.attempts > 0,
    )  # fmt: skip


@cache
def family_name(route: int, number: int) -> str:
    """What units are called that ask the same thing: by their route, and by their number within it."""
    return f"{route}.{number}"


@cache
def route_of(family: str) -> int:
    """The route that a family is of."""
    return int(family.partition(".")[0])


def at_the_most(price: Price, row: PendingUnit | UnknownOutcome, open_output: float) -> float:
    """What a unit may cost, for a budget that must not be passed; `open_output` tokens where nothing limits its answer."""
    output = 0.0 if row.max_tokens < 0 else row.max_tokens or open_output
    return price.most(most_input(row), float(output))


def most_input(row: PendingUnit | UnknownOutcome) -> float:
    """The most tokens that a text can be: one a byte of its request. What that has of a file or an image counts as a usual one."""
    return max(_usual_input(row), min(float(row.size), MOST_TOKENS * row.chars + FRAME))


def _usual_input(row: PendingUnit | UnknownOutcome) -> float:
    return row.chars / FEWEST_CHARS


def roughly_the_most(price: Price, estimate: Estimate) -> float:
    """The same for a unit that was estimated before its price was known."""
    input_tokens = estimate.input_tokens * FIRST_RATIO / FEWEST_CHARS
    return price.most(input_tokens, estimate.max_output_tokens)
