"""One account: its limits, which requests it admits, and what each request is charged.

`rpm` and `rpd` are charged at admission. `tpm` has three ways: `reserve` charges input and max_tokens at admission and refunds
nothing (OpenAI); `settle` does the same and refunds what the answer did not need (Bedrock); `used` charges the input at
admission and the output as it is produced. `itpm` is charged at admission, `otpm` as the answer is produced (Anthropic): a
request is admitted while one token is left, and answers in progress may take that bucket below zero. A refused request is
charged nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from headway.fake.fake_config import LIMIT_KEYS, AccountConfig, LimitUpdate
from headway.fake.limits.buckets import FixedWindow, TokenBucket

DAY_S = 86_400.0
MINUTE_S = 60.0


class AccountLimit:
    """One limit of an account: the bucket that is enforced, and the one that the headers report."""

    __slots__ = ("bucket", "name", "reported")

    def __init__(self, name: str, config: AccountConfig, limit: float) -> None:
        self.name = name
        self.bucket = self._bucket(config, limit, config.depth_s)
        reports_minute = config.headers == "minute" and config.depth_s != MINUTE_S
        self.reported = self._bucket(config, limit, MINUTE_S) if reports_minute else self.bucket

    def _bucket(self, config: AccountConfig, limit: float, depth_s: float) -> TokenBucket:
        least = 1.0 if self.name in ("rpm", "rpd") else 0.0  # a bucket must hold at least one request
        kind = FixedWindow if config.window == "fixed" else TokenBucket
        if self.name in ("rpd", "tpd"):
            return kind(limit, DAY_S, DAY_S, least)
        return kind(limit, MINUTE_S, depth_s, least)

    def charge(self, cost: float, now: float) -> None:
        """Charge both buckets."""
        self.bucket.charge(cost, now)
        if self.reported is not self.bucket:
            self.reported.charge(cost, now)

    def change(self, limit: float) -> None:
        """Set a new limit."""
        self.bucket.change(limit)
        if self.reported is not self.bucket:
            self.reported.change(limit)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was refused. `limit`, `used` and `requested` are the numbers in OpenAI's message."""

    reason: str
    limit: int = 0
    used: int = 0
    requested: int = 0
    wait_s: float = 0.0
    too_large: bool = False


class Slots:
    """The requests of an account that are answered at once: `size` (None: any number).

    Beyond that, `queue` requests wait in order of arrival (True: any number), and others are refused.
    """

    def __init__(self, size: int | None, queue: int | bool = False) -> None:
        self.size = size
        self.queue = queue
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more request can be taken, to be answered or to wait."""
        if self.size is None or self.taken < self.size:
            return True
        return self.queue is True or len(self._waiting) < self.queue

    @property
    def must_wait(self) -> bool:
        """Whether the next request has to wait."""
        return self.size is not None and self.taken >= self.size

    async def enter(self) -> None:
        """Take a slot; wait for one if necessary."""
        if not self.must_wait:
            self.taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the slot had just been handed over
            else:
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Pass the slot to the next request in the queue, or free it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1


class Account:
    """The limits of one account. Its clock is 0 when the server starts."""

    def __init__(self, name: str, config: AccountConfig) -> None:
        self.name = name
        self.config = config
        self.slots = Slots(config.max_concurrency, config.queue)
        self.limits: dict[str, AccountLimit] = {}
        for key in LIMIT_KEYS:
            limit = getattr(config, key)
            if limit is not None:
                self.limits[key] = AccountLimit(key, config, limit)
        self._changes = sorted(config.limits, key=lambda change: change.at, reverse=True)

    def reserved_output(self, max_tokens: int | None) -> int:
        """The output tokens that a request reserves."""
        return self.config.default_max_tokens if max_tokens is None else max_tokens

    def admit(
        self, input_tokens: int, max_tokens: int | None, now: float, charge: str = "reserve"
    ) -> Refusal | None:
        """Admit and charge a request, or return why not. An admitted request must `enter` and `leave` the slots."""
        while self._changes and now >= self._changes[-1].at:
            self._change(self._changes.pop())
        if not self.slots.has_room:
            return Refusal("concurrency", limit=self.slots.size or 0, used=self.slots.taken, requested=1)
        if not self.limits:
            return None
        tokens = input_tokens + (0 if charge == "used" else self.reserved_output(max_tokens))
        costs = {"rpm": 1, "rpd": 1, "tpm": tokens, "tpd": tokens, "itpm": input_tokens, "otpm": 1}
        refusal = self._refusal(costs, now)
        if refusal is None:
            for name, account_limit in self.limits.items():
                if name != "otpm":
                    account_limit.charge(costs[name], now)
        return refusal

    def _refusal(self, costs: dict[str, int], now: float) -> Refusal | None:
        """A refusal by the limit with the longest wait; None if the request fits."""
        longest: tuple[float, str] = (0.0, "")
        for name, account_limit in self.limits.items():
            bucket, cost = account_limit.bucket, costs[name]
            if cost > bucket.capacity * (1 + 1e-9) and self._never_fits(bucket, cost):
                return Refusal(name, limit=int(bucket.capacity), requested=cost, too_large=True)
            longest = max(longest, (bucket.wait_s(cost, now), name))
        wait_s, name = longest
        if wait_s <= 0.0:
            return None
        bucket = self.limits[name].bucket
        used = max(0, int(bucket.limit - bucket.level(now)))
        return Refusal(name, int(bucket.limit), used, costs[name], wait_s)

    def _never_fits(self, bucket: TokenBucket, cost: int) -> bool:
        """Whether a cost above the capacity can never be admitted."""
        return self.config.oversize == "refuse" or cost > bucket.limit

    def charge_output(self, output_tokens: int, now: float, charge: str = "reserve") -> None:
        """Charge output tokens that were produced."""
        for name in ("otpm", "tpm", "tpd") if charge == "used" else ("otpm",):
            account_limit = self.limits.get(name)
            if account_limit is not None:
                account_limit.charge(output_tokens, now)

    def refund_output(self, unused: int, now: float) -> None:
        """Refund reserved tokens that the answer did not use."""
        for name in ("tpm", "tpd"):
            account_limit = self.limits.get(name)
            if account_limit is not None and unused > 0:
                account_limit.charge(-unused, now)

    def _change(self, change: LimitUpdate) -> None:
        for name in LIMIT_KEYS:
            limit = getattr(change, name)
            if limit is None:
                continue
            if name in self.limits:
                self.limits[name].change(limit)
            else:
                self.limits[name] = AccountLimit(name, self.config, limit)
        if change.max_concurrency is not None:
            self.slots.size = change.max_concurrency
