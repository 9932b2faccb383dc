"""What is known of an eval's cells after they ran: plain records, for reports, files and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

#: `error`: there is no answer, or a grader or an assertion itself failed. `pending`: it has not ended yet.
CellStatus = Literal["pass", "fail", "error", "timeout", "pending"]


class TokenUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of an answer or of a grader."""

    input: int = 0
    output: int = 0
    cached: int = 0
    requests: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output


class AssertionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an answer did on one assertion. `error`: it could not be judged, which is neither a pass nor a fail.

    `number` is its place in the test. Results of an `assert-set` have the parts in `parts`.
    """

    number: int
    type: str
    passed: bool
    score: float
    reason: str = ""
    weight: float = 1.0
    metric: str = ""
    value: Any = None
    error: str = ""
    #: Scores that a grader function names itself.
    named_scores: dict[str, float] = {}
    parts: tuple[AssertionResult, ...] = ()
    #: The cost and tokens of its grader.
    cost_usd: float | None = None
    tokens: TokenUse = TokenUse()


class CellVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all assertions of a cell say together. `error` is the first error of an assertion."""

    passed: bool
    score: float
    reason: str = ""
    error: str = ""
    named_scores: dict[str, float] = {}
    #: The sum of the weights behind each named score.
    named_weights: dict[str, float] = {}


class CellResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cell of the matrix, with its answer and its grades."""

    index: int
    test_index: int
    prompt_index: int
    test: int
    repetition: int = 0
    unit: str = ""
    status: CellStatus
    description: str = ""
    vars: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    #: The prompt as it was sent: a text, or messages as JSON text.
    prompt: str = ""
    #: The answer after transforms; None without one.
    output: Any = None
    error: str = ""
    score: float = 0.0
    reason: str = ""
    assertions: tuple[AssertionResult, ...] = ()
    named_scores: dict[str, float] = {}
    latency_ms: float | None = None
    cost_usd: float | None = None
    tokens: TokenUse = TokenUse()
    cached: bool = False
    attempts: int = 0
    lane: str = ""
    finished_utc: float | None = None


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One provider with one prompt."""

    prompt_index: int
    provider: str
    provider_label: str
    prompt: str
    prompt_label: str
    prompt_id: str = ""


class EvalView(msgspec.Struct, frozen=True, kw_only=True):
    """An eval with its results. `cells` reads them in order (row by row), as often as it is called, and never all at once."""

    job: str
    state: str
    description: str
    config: dict[str, Any]
    created_utc: float
    finished_utc: float | None
    columns: tuple[Column, ...]
    #: Rows of the matrix, and cells in all.
    rows: int
    total: int
    cells: Callable[[], Iterator[CellResult]]
    #: Name → expression over metrics.
    derived_metrics: dict[str, str] = {}
