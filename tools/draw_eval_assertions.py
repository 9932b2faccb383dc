"""Generates docs/reference/eval-assertions.md from the registry of assertions in headway.evals.assertions.

python tools/draw_eval_assertions.py           writes the page
python tools/draw_eval_assertions.py --check   exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pages import ROOT, write_or_check

from headway.evals.assertions.registry import KINDS, UNSUPPORTED, Need

PAGE = ROOT / "docs" / "reference" / "eval-assertions.md"
COMMAND = "python tools/draw_eval_assertions.py"

HEAD = f"""\
# Assertions of evals

Every type that `assert` of a test takes. Generated from `src/headway/evals/assertions/registry.py` by `{COMMAND}`; a test fails when this page is
stale. `not-` before a type passes exactly when the type fails. `weight` (1 by default) is the part in the cell's score; a weight of 0 never
fails. `metric` names a score that is summed up over the eval. A default is in parentheses.
"""
SECTIONS: dict[Need, tuple[str, str]] = {
    "nothing": (
        "Judged at once",
        "They need nothing but the answer: no request is sent, and a changed threshold grades old answers again.",
    ),
    "code": ("Judged by code", "The code runs in a process of its own, bounded in time and output."),
    "grader": (
        "Judged by a model",
        "The question is a unit in the lane of the grader. A grader's failure, or an answer of it that cannot be read, is an error of the cell and never a fail.",
    ),
    "embedding": (
        "Judged by embeddings",
        "The embeddings are units in their own lane. With a list as `value` the closest text counts.",
    ),
    "row": ("Judged in a row", "They compare the answers of all columns to one test."),
}
DIFFERENCES = """\
## Differences from promptfoo

- What cannot be judged is an error of the cell: a bad pattern, a value of the wrong kind, a grader's answer that cannot be read. promptfoo counts some of
  these as fails.
- `not-factuality`, `not-model-graded-closedqa` and `not-is-valid-openai-tools-call` are negations. promptfoo ignores their `not-`.
- `contains-json` finds JSON. promptfoo also takes objects in YAML, such as `{a: 1}`.
- A pattern takes at most a million steps; one that takes more is an error. `(?i)` at the start of a pattern is allowed, and `\\p{L}` needs no flag.
"""


def page() -> str:
    """The whole page."""
    tables = [line for need in SECTIONS for line in _section(need)]
    refused = [f"| `{name}` | {instead} |" for name, instead in sorted(UNSUPPORTED.items())]
    return "\n".join(
        (HEAD, *tables, "## Refused\n", "| type | instead |", "|---|---|", *refused, "", DIFFERENCES)
    )


def _section(need: Need) -> Iterator[str]:
    title, text = SECTIONS[need]
    yield f"## {title}"
    yield ""
    yield text
    yield ""
    yield "| type | passes when | `value` | `threshold` |"
    yield "|---|---|---|---|"
    for name, kind in KINDS.items():
        if kind.needs == need:
            threshold = f"{kind.threshold} (required)" if kind.threshold_required else kind.threshold
            yield f"| `{name}` | {kind.passes} | {kind.value} | {threshold} |"
    yield ""


if __name__ == "__main__":
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), __doc__ or "", COMMAND))
