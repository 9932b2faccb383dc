"""The records that all of the core uses: units, estimates, usage, outcomes, limits, lanes.

Plain records; their methods only compute from their own fields. They are `msgspec.Struct`s because
they are made on the hot path: 0.1 µs each, against 0.3 µs for a slotted and 0.7 µs for a frozen dataclass
(docs/decisions/0003).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import msgspec

MINUTE_S: Final = 60.0
DAY_S: Final = 86_400.0


class Kind(StrEnum):
    """The closed list of error kinds. Every error of every provider is mapped to one of these."""

    RATE = "rate"
    CONCURRENCY = "concurrency"
    OVERLOAD = "overload"
    HOLD = "hold"
    QUOTA = "quota"
    AUTH = "auth"
    TOO_LARGE = "too_large"
    INVALID = "invalid"
    TRANSIENT = "transient"
    CRASH = "crash"
    TIMEOUT = "timeout"

    __hash__ = str.__hash__


class Dimension(StrEnum):
    """What a meter counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    INPUT = "input_tokens"
    OUTPUT = "output_tokens"

    __hash__ = str.__hash__


#: The order of a unit's costs. A meter knows its place in it.
DIMENSIONS: Final = (Dimension.REQUESTS, Dimension.TOKENS, Dimension.INPUT, Dimension.OUTPUT)

#: (requests, tokens, input tokens, output tokens)
Costs = tuple[float, float, float, float]


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """What a unit is expected to use. Known before it starts, never exact."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0
    max_output_tokens: float = 0.0
    cost_usd: float = 0.0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What an attempt really used, as the provider reported it. `input_tokens` includes tokens that were read from the cache
    or written to it. `cost_usd` is None if the price is unknown. `partial`: the answer broke off after this report, so the
    attempt may have used more.
    """

    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cached_input_tokens: float = 0.0
    cost_usd: float | None = None
    cache_write_tokens: float = 0.0
    partial: bool = False


class Price(msgspec.Struct, frozen=True, gc=False):
    """USD for a million tokens. Without a price of their own, cached input and input that is written to the cache cost as much as
    other input.

    `above` has the prices of longer requests, `(input tokens, price)`, the fewest tokens first: a request with more input is
    charged at that price as a whole. All providers with tiers do so.
    """

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None
    cache_write: float | None = None
    above: tuple[tuple[float, Price], ...] = ()

    def cost(self, usage: Usage) -> float:
        """What an attempt cost, 0 or more."""
        if self.above:
            return self._tier(usage.input_tokens).cost(usage)
        cached, written = usage.cached_input_tokens, usage.cache_write_tokens
        fresh = max(
            0.0, usage.input_tokens - cached - written
        )  # Some gateways count the cached tokens apart.
        cost = fresh * self.input + usage.output_tokens * self.output
        if cached:
            cost += cached * (self.input if self.cached_input is None else self.cached_input)
        if written:
            cost += written * (self.input if self.cache_write is None else self.cache_write)
        return cost / 1e6

    def most(self, input_tokens: float, output_tokens: float) -> float:
        """The most that a request of this size may cost, however much of it is cached or written to a cache."""
        input_usd, output_usd = self.most_of_one(input_tokens)
        return input_tokens * input_usd + output_tokens * output_usd

    def most_of_one(self, input_tokens: float) -> tuple[float, float]:
        """The most that one token of input and one of output may cost, in a request with so much input."""
        price = self._tier(input_tokens) if self.above else self
        return max(price.input, price.cached_input or 0.0, price.cache_write or 0.0) / 1e6, price.output / 1e6

    def _tier(self, input_tokens: float) -> Price:
        """The price of a request with so much input."""
        tier = msgspec.structs.replace(self, above=())
        for tokens, price in self.above:
            if input_tokens > tokens:
                tier = price
        return tier

    @property
    def free(self) -> bool:
        """Whether every price is 0."""
        return not (self.input or self.output or self.cached_input or self.cache_write or self.above)


NO_ESTIMATE: Final = Estimate()


class Unit(msgspec.Struct, frozen=True, gc=False):
    """The smallest schedulable piece of work, as a source hands it out.

    `after` names the units (by index) that must have succeeded first; `leads` says that some unit may name
    this one. `late`: its request is made from the answers of other units, when its turn comes; until then
    its size is a guess. `expected_s` is what it is expected to take, where that is known beforehand; otherwise
    its lane learns it.
    """

    index: int
    lane: str
    estimate: Estimate = NO_ESTIMATE
    priority: int = 0
    expected_s: float = 0.0
    after: tuple[int, ...] = ()
    leads: bool = False
    late: bool = False
    #: The characters of its input, if its lane estimates the tokens; and the name of the prompt that it shares with others.
    chars: int = 0
    family: str = ""
    #: USD for an output token, if nothing limits the answer. Its lane then reserves money by the length of earlier answers of
    #: its family, beside `estimate.cost_usd`.
    output_usd: float = 0.0
    #: The most input tokens that it can have, which `estimate.cost_usd` includes, and USD for one. Its lane reserves less once it
    #: has seen how many tokens such inputs have. `open_input`: the input has more than the text (a file, an image), so the
    #: number is a guess.
    input_most: float = 0.0
    input_usd: float = 0.0
    open_input: bool = False
    #: When it was submitted, if that was after the beginning of the run.
    submitted_at: float = 0.0
    #: Units with the same number run one at a time, in any lane; 0: with any other.
    exclusive: int = 0
    #: Units with the same number count as one for `Settings.max_groups`; 0: it does not count.
    group: int = 0
    #: How it is retried, if not as its lane says.
    retry: RetryPolicy | None = None
    #: Whether an attempt of an earlier run failed.
    failed_before: bool = False


class LimitReport(msgspec.Struct, frozen=True, gc=False):
    """One limit as a provider reports it in a response: its size, what remains, the time until it is full again.

    `reset_precision_s` is the step to which the reset was rounded up (a second if it is a date).
    `remaining_precision` is how far `remaining` may be off either way (500 if it is rounded to thousands).
    `minute_left_s` is the time to the next minute of the provider's clock, where no reset is reported: gateways count clock minutes.
    """

    dimension: Dimension
    limit: float
    remaining: float | None = None
    reset_s: float | None = None
    period_s: float = MINUTE_S
    reset_precision_s: float = 0.0
    remaining_precision: float = 1.0
    minute_left_s: float | None = None


class AccountWindow(msgspec.Struct, frozen=True, gc=False):
    """A window of a subscription: how much of it is used (0 to 1), when it begins anew, and its status in the provider's words:
    `allowed`, `allowed_warning` or `rejected`.
    """

    name: str
    used: float | None = None
    resets_utc: float | None = None
    status: str = "allowed"

    @property
    def closed(self) -> bool:
        """Whether it refuses requests."""
        return self.status == "rejected"

    @property
    def of_model(self) -> bool:
        """Whether it counts the use of one model only: `seven_day_opus`."""
        return self.name.startswith("seven_day_")


class Hint(msgspec.Struct, frozen=True, gc=False):
    """Everything that a response says about limits. `precision_s` is the step to which `retry_after_s` was rounded up.

    `growing`: the refusal is about how fast the use grows, not about how much it is (OpenAI's `slow_down`).
    """

    reports: tuple[LimitReport, ...] = ()
    retry_after_s: float | None = None
    precision_s: float = 0.0
    dimension: Dimension | None = None
    growing: bool = False
    #: The windows of a subscription.
    windows: tuple[AccountWindow, ...] = ()


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How an attempt ended. `kind` is None on success.

    `sent`: whether any byte of the request was handed to the network. False is certain (the connection was refused,
    the name has no address, TLS failed, connecting timed out): no provider can charge for it. True may be a guess.
    `reached` is False if no response came, sent or not; the breaker uses it. `worked` is True if the provider made an answer
    that could not be used: such a failure may be charged. `wrong_path`: the server has no such path (a 404 about the
    address, not about the model). `disbelieved` is a reported usage that is impossible. `exhausted`: this process itself had no
    file, port or memory left for the attempt. That is the fault of neither the provider nor the unit. `not_started`: a program or a
    function could not be started, and neither can the next one.
    """

    kind: Kind | None = None
    usage: Usage | None = None
    hint: Hint | None = None
    message: str = ""
    reached: bool = True
    worked: bool = False
    sent: bool = True
    wrong_path: bool = False
    disbelieved: Usage | None = None
    exhausted: bool = False
    not_started: bool = False


SUCCESS: Final = Outcome()


class Counting(msgspec.Struct, frozen=True, gc=False):
    """How a provider counts tokens against its limits.

    `reserve_max_output`: at admission the input plus `max_tokens` is charged, not the expected output.
    `settle_output`: afterwards the real output replaces the reserved one.
    `cached_free`: cached input does not count.
    """

    reserve_max_output: bool = True
    settle_output: bool = False
    cached_free: bool = False

    def reserved(self, estimate: Estimate) -> Costs:
        """What to reserve before a start."""
        output = estimate.max_output_tokens if self.reserve_max_output else 0.0
        output = output or estimate.output_tokens
        return (1.0, estimate.input_tokens + output, estimate.input_tokens, estimate.output_tokens)

    def settled(self, estimate: Estimate, usage: Usage) -> Costs:
        """What an attempt costs once its usage is known."""
        free_input = usage.cached_input_tokens if self.cached_free else 0.0
        paid_input = max(0.0, usage.input_tokens - free_input)
        output = usage.output_tokens
        if not self.settle_output and self.reserve_max_output:
            output = estimate.max_output_tokens or output
        return (1.0, paid_input + output, paid_input, usage.output_tokens)


class LaneLimits(msgspec.Struct, frozen=True, gc=False):
    """A lane's configured limits. None: not configured; 0: known to be unlimited."""

    rpm: float | None = None
    tpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    rpd: float | None = None
    tpd: float | None = None
    max_concurrency: int | None = None
    min_gap_s: float = 0.0
    #: The depth of the bucket in seconds of refill. None: the lane finds it, from one second up.
    burst_s: float | None = None

    @property
    def known(self) -> bool:
        """Whether any limit is configured. The others are then unlimited until the provider reports one or refuses a request."""
        limits = (
            self.rpm,
            self.tpm,
            self.input_tpm,
            self.output_tpm,
            self.rpd,
            self.tpd,
            self.max_concurrency,
        )
        return any(limit is not None for limit in limits)


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
    """How the units of a lane are retried. `linear`: waits grow by `base_s` each time; otherwise they double."""

    max_attempts: int = 5
    max_throttles: int = 50
    base_s: float = 1.0
    cap_s: float = 60.0
    jitter: float = 0.2
    hold_margin_s: float = 2.0
    #: How long a hold lasts if the provider does not say.
    default_wait_s: float = 60.0
    linear: bool = False


#: After so many periods a cap on growth no longer limits anything.
MOST_GROWTH_PERIODS: Final = 50.0


class GrowthRule(msgspec.Struct, frozen=True, gc=False):
    """A cap on growth: it begins at so much a minute, and is multiplied by a factor each period.

    OpenAI documents +50 % per 15 minutes above about a million input tokens a minute.
    """

    dimension: Dimension
    free_per_minute: float
    growth: float = 1.5
    period_s: float = 900.0

    def limit(self, elapsed_s: float) -> float:
        """What is allowed a minute, so long after its beginning."""
        periods = min(max(0.0, elapsed_s) / self.period_s, MOST_GROWTH_PERIODS)
        return float(self.free_per_minute * self.growth**periods)


class LaneBudget(msgspec.Struct, frozen=True):
    """A cap on the money of one lane, or of several lanes that name it. `spent_usd` is what earlier runs have spent of it."""

    name: str
    max_cost_usd: float
    spent_usd: float = 0.0


#: In which order the units of a lane start: see `core.lanes.unit_order`.
OrderName = Literal["auto", "input", "longest"]


class LaneSpec(msgspec.Struct, frozen=True):
    """What the scheduler is given about a lane when it is opened."""

    key: str
    limits: LaneLimits = LaneLimits()
    retry: RetryPolicy = RetryPolicy()
    counting: Counting = Counting()
    order: OrderName = "input"
    #: Caps on its money, in addition to that of the run.
    lane_budgets: tuple[LaneBudget, ...] = ()
    #: At the start and after every refusal one unit goes ahead. The others start once it has met no limit.
    one_ahead: bool = False
    #: An attempt that breaks off or times out is the fault of its unit (a function that raises), not of the lane: only
    #: overload and refusals open the breaker.
    own_failures: bool = False
    #: If it is known to have no limits: what is in flight follows the throughput that more of it brings.
    follow_throughput: bool = False
    #: The account that it belongs to, if other lanes may belong to it, too, and its model there.
    account: str = ""
    account_model: str = ""


class Settings(msgspec.Struct, frozen=True):
    """Settings of the whole run. 0 (or None) is no cap, except for `max_hold_s`: 0 waits for no hold at all."""

    concurrency: int = 0
    #: How many groups of units may be in flight at once (`Unit.group`).
    max_groups: int = 0
    #: How many requests the process can have in flight; 0: not known. `SetMaxInFlight` changes it.
    max_in_flight: int = 0
    max_cost_usd: float = 0.0
    deadline_at: float | None = None
    #: How long a unit may wait for its first start, from the beginning of the run, or from when the units that it waits for
    #: have succeeded.
    max_wait_s: float = 0.0
    max_hold_s: float | None = None
    #: The least gap between any two starts, in all lanes (`--delay`, which forces serial order too).
    delay_s: float = 0.0
    #: So many identical `invalid` answers in a row stop a lane: the units are not at fault then.
    max_identical_invalid: int = 10
    #: Whether a cost is known only when it is reported: the most that a call of the lane has cost is then expected of the next.
    costs_known_late: bool = False
    #: Whether further units may come after the source has none left (see `InputClosed`).
    input_open: bool = False
