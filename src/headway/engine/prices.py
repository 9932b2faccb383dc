"""What a run's attempts cost. Some prices are looked up while the first requests are on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from headway.core.model import Price
from headway.core.retry import unpaid
from headway.engine.flights import RequestFlight
from headway.engine.run_spec import PriceList, UnitRoute
from headway.engine.units.unit_cursors import roughly_the_most
from headway.providers.adapter import Answer
from headway.stores.write_batch import WriteBatch

#: Called with the prices that were looked up, and a remark for the user if there is one.
Found = Callable[[dict[int, Price], str], None]


class RoutePrices:
    """The price of tokens by route; None where it is not known (yet)."""

    def __init__(self, routes: Mapping[int, UnitRoute]) -> None:
        self._prices = {number: route.price for number, route in routes.items()}
        self._lookup: asyncio.Task[None] | None = None

    def __getitem__(self, route: int) -> Price | None:
        return self._prices[route]

    def look_up(self, price_list: PriceList, found: Found) -> None:
        """Look up missing prices in a task. No request waits for it, only the record of its answer."""
        self._lookup = asyncio.get_running_loop().create_task(self._look_up(price_list, found))

    async def _look_up(self, price_list: PriceList, found: Found) -> None:
        try:
            prices, remark = await price_list()
        except Exception as error:  # Not worth a run.
            prices, remark = {}, f"prices could not be looked up: {type(error).__name__}"
        finally:
            self._lookup = None
        self._prices |= prices
        found(prices, remark)

    def is_awaited_by(self, answer: Answer) -> bool:
        """Whether an answer cost something, and prices are still being looked up."""
        return self._lookup is not None and not unpaid(answer.outcome)

    async def wait(self) -> None:
        """Wait for the lookup. A cancellation ends the wait without an exception: the caller has an answer to record."""
        if self._lookup is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._lookup])

    async def close(self) -> None:
        """Cancel a lookup that is still under way."""
        if (lookup := self._lookup) is not None:
            lookup.cancel()
            await asyncio.wait([lookup])

    def with_cost(self, answer: Answer, route: int) -> Answer:
        """The same answer with its cost, if the price is known."""
        price, usage = self._prices[route], answer.outcome.usage
        if price is None or usage is None:
            return answer
        usage = msgspec.structs.replace(usage, cost_usd=price.cost(usage))
        return msgspec.structs.replace(answer, outcome=msgspec.structs.replace(answer.outcome, usage=usage))

    def cost_of(self, flight: RequestFlight, batch: WriteBatch) -> float | None:
        """The cost of an attempt that has ended. What it may have cost beyond that goes into the batch."""
        usage, price = flight.usage, self._prices[flight.route]
        if usage is not None:
            if usage.partial and usage.cost_usd is not None:
                batch.use(flight.route).add_unreported(max(0.0, self._most_usd(flight) - usage.cost_usd))
            return usage.cost_usd
        was_free = not flight.sent if flight.outcome is None else unpaid(flight.outcome)
        if was_free:
            return None if price is None else 0.0
        batch.use(flight.route).add_unreported(None if price is None else self._most_usd(flight))
        return None

    def _most_usd(self, flight: RequestFlight) -> float:
        """The most that an attempt may have cost. A unit that was read before its price was known has no estimate of it."""
        price, estimate = self._prices[flight.route], flight.estimate
        return estimate.cost_usd or (0.0 if price is None else roughly_the_most(price, estimate))
