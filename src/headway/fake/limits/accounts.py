"""One account: its limits, who gets in, and what each request is charged.

Requests are charged at admission. So is `tpm`, with max_tokens: `reserve` gives nothing back (OpenAI), `settle` gives back
what the answer did not need (Bedrock); `used` charges the input at admission and the output as it is produced. `itpm` is charged
at admission, `otpm` as the answer is produced (Anthropic): there a request gets in while one token is left, and
answers already under way may take the bucket below zero. A refused request is charged nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from headway.fake.fake_config import DIMENSIONS, AccountPlan, Change
from headway.fake.limits.buckets import Bucket, FixedWindow

DAY_S = 86_400.0
MINUTE_S = 60.0


class Dimension:
    """One limit of an account: the bucket that decides, and the one that headers speak of."""

    __slots__ = ("bucket", "name", "shown")

    def __init__(self, name: str, plan: AccountPlan, limit: float) -> None:
        self.name = name
        self.bucket = self._bucket(plan, limit, plan.depth_s)
        speaks_of_minute = plan.headers == "minute" and plan.depth_s != MINUTE_S
        self.shown = self._bucket(plan, limit, MINUTE_S) if speaks_of_minute else self.bucket

    def _bucket(self, plan: AccountPlan, limit: float, depth_s: float) -> Bucket:
        least = 1.0 if self.name in ("rpm", "rpd") else 0.0  # a bucket that no request fits into is no limit
        kind = FixedWindow if plan.window == "fixed" else Bucket
        if self.name in ("rpd", "tpd"):
            return kind(limit, DAY_S, DAY_S, least)
        return kind(limit, MINUTE_S, depth_s, least)

    def charge(self, cost: float, now: float) -> None:
        """Take `cost` out of both."""
        self.bucket.charge(cost, now)
        if self.shown is not self.bucket:
            self.shown.charge(cost, now)

    def change(self, limit: float) -> None:
        """Another limit from now on."""
        self.bucket.change(limit)
        if self.shown is not self.bucket:
            self.shown.change(limit)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request did not get in. `limit`, `used` and `requested` are what OpenAI's text says."""

    reason: str
    limit: int = 0
    used: int = 0
    requested: int = 0
    wait_s: float = 0.0
    too_large: bool = False


class Slots:
    """`size` places (None: any number) and a queue of `queue` (True: any number)."""

    def __init__(self, size: int | None, queue: int | bool = False) -> None:
        self.size = size
        self.queue = queue
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more may come in, be it to wait."""
        if self.size is None or self.taken < self.size:
            return True
        return self.queue is True or len(self._waiting) < self.queue

    @property
    def must_wait(self) -> bool:
        """Whether the next one has to wait for its place."""
        return self.size is not None and self.taken >= self.size

    async def enter(self) -> None:
        """Take a place, once there is one."""
        if not self.must_wait:
            self.taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place had just been handed over
            else:
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Give the place to the next in line, or back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1


class Account:
    """The limits of one account, on a clock that starts at 0 with the server."""

    def __init__(self, name: str, plan: AccountPlan) -> None:
        self.name = name
        self.plan = plan
        self.slots = Slots(plan.max_concurrency, plan.queue)
        self.dimensions: dict[str, Dimension] = {}
        for key in DIMENSIONS:
            limit = getattr(plan, key)
            if limit is not None:
                self.dimensions[key] = Dimension(key, plan, limit)
        self._changes = sorted(plan.limits, key=lambda change: change.at, reverse=True)

    def reserved(self, max_tokens: int | None) -> int:
        """What an answer may take, before there is one."""
        return self.plan.default_max_tokens if max_tokens is None else max_tokens

    def admit(
        self, input_tokens: int, max_tokens: int | None, now: float, charge: str = "reserve"
    ) -> Refusal | None:
        """Let a request in and charge it, or say why not. It must then `enter` and `leave` the slots."""
        while self._changes and now >= self._changes[-1].at:
            self._change(self._changes.pop())
        if not self.slots.has_room:
            return Refusal("concurrency", limit=self.slots.size or 0, used=self.slots.taken, requested=1)
        if not self.dimensions:
            return None
        tokens = input_tokens + (0 if charge == "used" else self.reserved(max_tokens))
        costs = {"rpm": 1, "rpd": 1, "tpm": tokens, "tpd": tokens, "itpm": input_tokens, "otpm": 1}
        refusal = self._refusal(costs, now)
        if refusal is None:
            for name, dimension in self.dimensions.items():
                if name != "otpm":
                    dimension.charge(costs[name], now)
        return refusal

    def _refusal(self, costs: dict[str, int], now: float) -> Refusal | None:
        """The limit that keeps a request out for longest, if one does."""
        longest: tuple[float, str] = (0.0, "")
        for name, dimension in self.dimensions.items():
            bucket, cost = dimension.bucket, costs[name]
            if cost > bucket.capacity * (1 + 1e-9) and self._never(bucket, cost):
                return Refusal(name, limit=int(bucket.capacity), requested=cost, too_large=True)
            longest = max(longest, (bucket.wait_s(cost, now), name))
        wait_s, name = longest
        if wait_s <= 0.0:
            return None
        bucket = self.dimensions[name].bucket
        used = max(0, int(bucket.limit - bucket.level(now)))
        return Refusal(name, int(bucket.limit), used, costs[name], wait_s)

    def _never(self, bucket: Bucket, cost: int) -> bool:
        """Whether a cost above what the bucket holds is refused for ever."""
        return self.plan.oversize == "refuse" or cost > bucket.limit

    def produced(self, output_tokens: int, now: float, charge: str = "reserve") -> None:
        """So much of an answer exists now."""
        for name in ("otpm", "tpm", "tpd") if charge == "used" else ("otpm",):
            dimension = self.dimensions.get(name)
            if dimension is not None:
                dimension.charge(output_tokens, now)

    def settled(self, unused: int, now: float) -> None:
        """An answer is there, and did not need so much of what was set aside for it."""
        for name in ("tpm", "tpd"):
            dimension = self.dimensions.get(name)
            if dimension is not None and unused > 0:
                dimension.charge(-unused, now)

    def _change(self, change: Change) -> None:
        for name in DIMENSIONS:
            limit = getattr(change, name)
            if limit is None:
                continue
            if name in self.dimensions:
                self.dimensions[name].change(limit)
            else:
                self.dimensions[name] = Dimension(name, self.plan, limit)
        if change.max_concurrency is not None:
            self.slots.size = change.max_concurrency
