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

from headway.fake.fake_config import LIMIT_KEYS, AccountConfig, LimitUpdate
from headway.fake.limits.buckets import FixedWindow, TokenBucket

DAY_S = 86_400.0
MINUTE_S = 60.0


class AccountLimit:
    """One limit of an account: the bucket that decides, and the one that headers speak of."""

    __slots__ = ("bucket", "name", "reported")

    def __init__(self, name: str, config: AccountConfig, limit: float) -> None:
        self.name = name
        self.bucket = self._bucket(config, limit, config.depth_s)
        speaks_of_minute = config.headers == "minute" and config.depth_s != MINUTE_S
        self.reported = self._bucket(config, limit, MINUTE_S) if speaks_of_minute else self.bucket

    def _bucket(self, config: AccountConfig, limit: float, depth_s: float) -> TokenBucket:
        least = 1.0 if self.name in ("rpm", "rpd") else 0.0  # a bucket that no request fits into is no limit
        kind = FixedWindow if config.window == "fixed" else TokenBucket
        if self.name in ("rpd", "tpd"):
            return kind(limit, DAY_S, DAY_S, least)
        return kind(limit, MINUTE_S, depth_s, least)

    def charge(self, cost: float, now: float) -> None:
        """Take `cost` out of both."""
        self.bucket.charge(cost, now)
        if self.reported is not self.bucket:
            self.reported.charge(cost, now)

    def change(self, limit: float) -> None:
        """Another limit from now on."""
        self.bucket.change(limit)
        if self.reported is not self.bucket:
            self.reported.change(limit)


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
        """What an answer may take, before there is one."""
        return self.config.default_max_tokens if max_tokens is None else max_tokens

    def admit(
        self, input_tokens: int, max_tokens: int | None, now: float, charge: str = "reserve"
    ) -> Refusal | None:
        """Let a request in and charge it, or say why not. It must then `enter` and `leave` the slots."""
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
        """The limit that keeps a request out for longest, if one does."""
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
        """Whether a cost above what the bucket holds is refused for ever."""
        return self.config.oversize == "refuse" or cost > bucket.limit

    def charge_output(self, output_tokens: int, now: float, charge: str = "reserve") -> None:
        """So much of an answer exists now."""
        for name in ("otpm", "tpm", "tpd") if charge == "used" else ("otpm",):
            account_limit = self.limits.get(name)
            if account_limit is not None:
                account_limit.charge(output_tokens, now)

    def refund_output(self, unused: int, now: float) -> None:
        """An answer is there, and did not need so much of what was set aside for it."""
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
