"""How many words an answer shares with a text that was expected: ROUGE-N and BLEU. PURE.

ROUGE-N is the balanced F-score of single words, each counted as often as both texts have it. The words are those of the Penn
Treebank: punctuation and the second half of contractions are words of their own. BLEU is the geometric mean of the precisions
of one to four words, with a penalty for answers that are too short. Orders that the answer is too short for are left out, and a
precision of 0 counts as SMALLEST, so that one order without a match does not hide the others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from headway.evals.assertions.graded_answer import CannotJudge, CheckFinding, Demand, GradedAnswer

DEFAULT_ROUGE: Final = 0.75
DEFAULT_BLEU: Final = 0.5
SMALLEST: Final = 1e-7
_ORDERS: Final = (1, 2, 3, 4)

#: The rules of the Treebank, for lower-case text between spaces: what is found, and what is put in its place.
_RULES: Final = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r'(?<=[ (\[{<])"', "`` "),
        (r"([:,])(?!\d)", r" \1 "),
        (r"(\.\.\.|[;@#$%&?!\[\](){}<>]|--)", r" \1 "),
        (r"""(?<=[^.])\.([\])}>"' ]*\s*)$""", r" . \1 "),
        (r"(?<=[^'])' ", " ' "),
        (r'"', " '' "),
        (r"(?<=[^' ])('s|'m|'d|'ll|'re|'ve|n't) ", r" \1 "),
        (
            r"\b(can)(not)\b|\b(d)('ye)\b|\b(gim|lem)(me)\b|\b(gon)(na)\b|\b(got)(ta)\b",
            r" \1\3\5\7\9 \2\4\6\8\10 ",
        ),
        (r"\b(more)('n)\b|\b(wan)(na)(?= )|(?<= )('t)(is|was)\b", r" \1\3\5 \2\4\6 "),
    )
)


def rouge_n(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    if not isinstance(demand.value, str):
        raise CannotJudge("its value is not a text", hint="write the expected text under 'value'")
    threshold = DEFAULT_ROUGE if demand.threshold is None else demand.threshold
    score = rouge(answer.text, demand.value)
    return CheckFinding(score >= threshold, f"ROUGE-N is {score:.2f}; the threshold is {threshold:g}", score)


def rouge(candidate: str, reference: str) -> float:
    """The F-score of the words of two texts."""
    ours, theirs = Counter(words(candidate)), Counter(words(reference))
    shared = (ours & theirs).total()
    return 2 * shared / (ours.total() + theirs.total()) if shared else 0.0


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    spaced = f" {text.lower()} "
    for pattern, put in _RULES:
        spaced = pattern.sub(put, spaced)
    return spaced.split()


def bleu_score(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    references = [demand.value] if isinstance(demand.value, str) else demand.value
    if (
        not isinstance(references, list | tuple)
        or not references
        or not all(isinstance(r, str) for r in references)
    ):
        raise CannotJudge("its value is neither a text nor a list of texts")
    threshold = DEFAULT_BLEU if demand.threshold is None else demand.threshold
    score = bleu(answer.text, references)
    return CheckFinding(score >= threshold, f"BLEU is {score:.4f}; the threshold is {threshold:g}", score)


def bleu(candidate: str, references: Sequence[str]) -> float:
    """The BLEU score of one text."""
    ours, others = candidate.lower().split(), [text.lower().split() or [""] for text in references]
    if not ours:
        return 0.0
    orders = [order for order in _ORDERS if order <= len(ours)]
    logs = [math.log(_precision(ours, others, order) or SMALLEST) for order in orders]
    closest = min((len(other) for other in others), key=lambda length: (abs(length - len(ours)), length))
    penalty = 1.0 if len(ours) > closest else math.exp(1 - closest / len(ours))
    return penalty * math.exp(sum(logs) / len(logs))


def _precision(ours: list[str], others: list[list[str]], order: int) -> float:
    """How many of our groups of words the best reference has."""
    mine = _groups(ours, order)
    return max((mine & _groups(other, order)).total() for other in others) / mine.total()


def _groups(text: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(text[start:] for start in range(order)), strict=False))
