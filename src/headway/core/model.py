"""The nouns every other core file speaks of: units, estimates, usage, outcomes, limits, lanes.

Plain records without behaviour beyond arithmetic on their own fields. They are `msgspec.Struct`s because
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
    """The closed list of error kinds. Every provider maps whatever it says to one of these."""

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


#: A unit's costs are a tuple in this order, and a meter knows its place in it.
DIMENSIONS: Final = (Dimension.REQUESTS, Dimension.TOKENS, Dimension.INPUT, Dimension.OUTPUT)

#: (requests, tokens, input tokens, output tokens)
Costs = tuple[float, float, float, float]


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """What a unit is expected to take: known before it starts, never exact."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0
    max_output_tokens: float = 0.0
    cost_usd: float = 0.0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What an attempt really took, as the provider reported it. `input_tokens` includes the cached ones, and those that
    were written to the cache. `cost_usd` is None where nobody knows the price. `partial`: the answer broke off after this
    was told, and it may have taken more.
    """

    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cached_input_tokens: float = 0.0
    cost_usd: float | None = None
    cache_write_tokens: float = 0.0
    partial: bool = False


class Price(msgspec.Struct, frozen=True, gc=False):
    """USD for a million tokens. Input from the cache, or into it, costs as much as other input where nothing else is said.

    `above` are the prices of longer requests, `(input tokens, price)`, the fewest first: more input than that, and all of
    the request is charged at that price. So do all providers that have tiers.
    """

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None
    cache_write: float | None = None
    above: tuple[tuple[float, Price], ...] = ()

    def cost(self, usage: Usage) -> float:
        """What an attempt cost: never less than nothing."""
        if self.above:
            return self._tier(usage.input_tokens).cost(usage)
        cached, written = usage.cached_input_tokens, usage.cache_write_tokens
        fresh = max(0.0, usage.input_tokens - cached - written)  # A gateway may count the cached ones apart.
        dear = fresh * self.input + usage.output_tokens * self.output
        if cached:
            dear += cached * (self.input if self.cached_input is None else self.cached_input)
        if written:
            dear += written * (self.input if self.cache_write is None else self.cache_write)
        return dear / 1e6

    def most(self, input_tokens: float, output_tokens: float) -> float:
        """What a request of this size may cost, whatever of it is cached or written to a cache."""
        input_usd, output_usd = self.most_of_one(input_tokens)
        return input_tokens * input_usd + output_tokens * output_usd

    def most_of_one(self, input_tokens: float) -> tuple[float, float]:
        """What a token of input and one of output may cost, in a request with so much input."""
        price = self._tier(input_tokens) if self.above else self
        return max(price.input, price.cached_input or 0.0, price.cache_write or 0.0) / 1e6, price.output / 1e6

    def _tier(self, input_tokens: float) -> Price:
        """The price of a request with so much input."""
        found = msgspec.structs.replace(self, above=())
        for tokens, price in self.above:
            if input_tokens > tokens:
                found = price
        return found

    @property
    def free(self) -> bool:
        """Whether nothing costs anything."""
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
    #: The length of its input, where its lane is to estimate the tokens, and the prompt that it shares with others.
    chars: int = 0
    family: str = ""
    #: USD of an output token, where nothing limits the answer: its lane sets money aside by what answers of its family
    #: were like, beside `estimate.cost_usd`.
    output_usd: float = 0.0
    #: The most input tokens that it can have, which are in `estimate.cost_usd`, and USD of one: its lane sets less aside once it
    #: has seen how many such inputs have. `open_input`: more than its own text goes in (a file, an image), so that is a guess.
    input_most: float = 0.0
    input_usd: float = 0.0
    open_input: bool = False


class LimitReport(msgspec.Struct, frozen=True, gc=False):
    """One limit as a provider reports it in a response: so much, so much left, full again in so long.

    `reset_precision_s` is the step that the reset was rounded up to (a second where it is a date), and
    `remaining_precision` how far `remaining` may be off either way (500 where it is rounded to thousands).
    """

    dimension: Dimension
    limit: float
    remaining: float | None = None
    reset_s: float | None = None
    period_s: float = MINUTE_S
    reset_precision_s: float = 0.0
    remaining_precision: float = 1.0


class Hint(msgspec.Struct, frozen=True, gc=False):
    """Everything a response said about limits. `precision_s` is the step that `retry_after_s` was rounded up to.

    `growing` says that the refusal is about how fast the use grows, not about how much it is (OpenAI's `slow_down`).
    """

    reports: tuple[LimitReport, ...] = ()
    retry_after_s: float | None = None
    precision_s: float = 0.0
    dimension: Dimension | None = None
    growing: bool = False


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How an attempt ended. `kind` is None on success.

    `sent`: whether any byte of the request was handed to the network. False is certain (the connection was refused,
    the name has no address, TLS failed, connecting took too long): no provider can charge for it. True may be a guess.
    `reached` is False where no answer came, sent or not: the breaker asks for that. `worked` is True where the provider
    made an answer that could not be taken: a failure of any kind may then have to be paid for. `wrong_path`: the server has
    no such path (a 404 of the address, not of the model). `disbelieved` is a usage that the provider reported and that cannot be.
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


SUCCESS: Final = Outcome()


class Counting(msgspec.Struct, frozen=True, gc=False):
    """How a provider counts tokens against its limits.

    `reserve_max_output`: admission charges the input plus `max_tokens`, not the output to be expected.
    `settle_output`: afterwards the real output replaces what was reserved for it.
    `cached_free`: cached input is given back.
    """

    reserve_max_output: bool = True
    settle_output: bool = False
    cached_free: bool = False

    def reserved(self, estimate: Estimate) -> Costs:
        """What to set aside before a start."""
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
    #: The bucket's depth in seconds of refill; None: find it, from one second up.
    burst_s: float | None = None

    @property
    def known(self) -> bool:
        """Whether anything at all is configured: a limit left out is then unlimited until somebody says otherwise."""
        told = (self.rpm, self.tpm, self.input_tpm, self.output_tpm, self.rpd, self.tpd, self.max_concurrency)
        return any(limit is not None for limit in told)


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
    """How a lane's units are tried again."""

    max_attempts: int = 5
    max_throttles: int = 50
    base_s: float = 1.0
    cap_s: float = 60.0
    jitter: float = 0.2
    hold_margin_s: float = 2.0
    #: How long a hold lasts where the provider does not say.
    default_wait_s: float = 60.0


#: After so many periods of growth nothing is left of a cap on acceleration.
MOST_GROWTH_PERIODS: Final = 50.0


class GrowthRule(msgspec.Struct, frozen=True, gc=False):
    """A cap on acceleration: so much a minute is free, beyond it the rate may grow by a factor a period.

    OpenAI documents +50 % per 15 minutes above about a million input tokens a minute.
    """

    dimension: Dimension
    free_per_minute: float
    growth: float = 1.5
    period_s: float = 900.0

    def limit(self, elapsed_s: float) -> float:
        """What is allowed a minute, so long after the lane first used what is free."""
        periods = min(max(0.0, elapsed_s) / self.period_s, MOST_GROWTH_PERIODS)
        return float(self.free_per_minute * self.growth**periods)


class LaneBudget(msgspec.Struct, frozen=True):
    """A cap on the money of one lane, or of several that name it. `spent_usd` is what earlier runs have taken of it."""

    name: str
    max_cost_usd: float
    spent_usd: float = 0.0


#: In which order the units of a lane start: see `core.lanes.unit_order`.
OrderName = Literal["auto", "input", "longest"]


class LaneSpec(msgspec.Struct, frozen=True):
    """What the outside tells the scheduler about a lane before it starts."""

    key: str
    limits: LaneLimits = LaneLimits()
    retry: RetryPolicy = RetryPolicy()
    counting: Counting = Counting()
    order: OrderName = "input"
    #: Caps on its money, beside the run's own.
    lane_budgets: tuple[LaneBudget, ...] = ()
    #: One unit goes ahead, at the start and after every refusal; the rest start once it has met no limit.
    one_ahead: bool = False
    #: What breaks off or times out says something of its unit (a function's own exception) and nothing of the lane: only
    #: overload and refusals open the breaker.
    own_failures: bool = False


class Settings(msgspec.Struct, frozen=True):
    """What holds for the whole run. 0 (or None) is no cap, but for `max_hold_s`: 0 waits for no hold at all."""

    concurrency: int = 0
    max_cost_usd: float = 0.0
    deadline_at: float | None = None
    max_hold_s: float | None = None
    #: The least gap between any two starts, whatever the lane (`--delay`, which forces serial order too).
    delay_s: float = 0.0
    #: Identical `invalid` answers in a row that stop a lane: the fault is then not in the unit.
    max_identical_invalid: int = 10
    #: Whether costs are known only once they were told: the most that a lane's calls have cost stands for the next.
    costs_told_late: bool = False
    #: Whether further units may come after the source has run dry (see `InputClosed`).
    input_open: bool = False
