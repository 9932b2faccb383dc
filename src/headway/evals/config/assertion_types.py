"""What a configuration may write as the type of an assertion. The types themselves are in `evals.assertions.registry`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headway.evals.assertions.registry import KINDS, UNSUPPORTED

#: Types whose value is code.
CODE_TYPES: Final = tuple(name for name, kind in KINDS.items() if kind.needs == "code")
EMBEDDING_TYPES: Final = tuple(name for name, kind in KINDS.items() if kind.needs == "embedding")
FACTUALITY_TYPES: Final = ("factuality", "model-graded-factuality")
#: Types that cannot be turned round.
NEVER_NEGATED: Final = ("assert-set", "select-best")
_NO_CHECK: Final = "there is no such check"
_NO_TRACES: Final = ("traces are not collected", "use python")
_TRACE_TYPES: Final = (
    "trace-error-spans", "trace-span-count", "trace-span-duration", "trajectory:goal-success", "trajectory:step-count",
    "trajectory:tool-args-match", "trajectory:tool-sequence", "trajectory:tool-used",
)  # fmt: skip
#: Types that promptfoo has: why they are refused, and what to write instead.
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    **{name: (_NO_CHECK, instead) for name, instead in UNSUPPORTED.items()},
    **dict.fromkeys(_TRACE_TYPES, _NO_TRACES),
}
#: Every type that a table's cell may begin with.
WRITTEN: Final = (*KINDS, *REFUSED)
