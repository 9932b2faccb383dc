"""One finding from several that say the same: axes overlap, and so do their answers.

Two findings are the same if their fingerprints are equal, or if their lines overlap and they have the same rule or speak of the same thing. What they speak of is
judged by the words of rule and message. The gravest one stays, with the axes of all. The result does not depend on the order of the answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import structs

from headway.reviews.records import SEVERITIES, Finding

#: The share of the shorter text's words that the other one has, too.
ALIKE: Final = 0.6
#: Fewer words than these say too little to be compared.
_LEAST_WORDS: Final = 4
_WORD: Final = re.compile(r"[^\W\d_]{4,}")


def merged(findings: Iterable[Finding], axes: Iterable[str] = ()) -> tuple[Finding, ...]:
    """The findings of a file without duplicates, by line. `axes` is the order of the review's axes, which decides between equals."""
    places = {name: place for place, name in enumerate(axes)}
    kept: list[tuple[Finding, frozenset[str]]] = []
    for finding in sorted(findings, key=lambda one: _gravity(one, places)):
        words = _words(finding)
        for number, (other, its_words) in enumerate(kept):
            if _is_same(other, finding) or (_is_near(other, finding) and _alike(its_words, words)):
                kept[number] = (_joined(other, finding, places), its_words)
                break
        else:
            kept.append((finding, words))
    return tuple(sorted((finding for finding, _ in kept), key=_by_line))


def _gravity(finding: Finding, places: dict[str, int]) -> tuple[object, ...]:
    """The order in which findings are kept: those that hold first, then the gravest and surest."""
    return (
        finding.mark != "",
        SEVERITIES.index(finding.severity),
        -finding.confidence,
        places.get(finding.axis, len(places)),
        *_by_line(finding),
    )


def _by_line(finding: Finding) -> tuple[object, ...]:
    return (
        finding.start_line,
        finding.end_line,
        SEVERITIES.index(finding.severity),
        finding.rule,
        finding.axis,
        finding.fingerprint,
        finding.message,
    )


def _is_same(one: Finding, other: Finding) -> bool:
    return one.fingerprint == other.fingerprint or (one.rule == other.rule and _is_near(one, other))


def _is_near(one: Finding, other: Finding) -> bool:
    """Whether lines of both overlap, and both hold or neither does."""
    overlap = one.start_line <= other.end_line and other.start_line <= one.end_line
    return overlap and bool(one.mark) == bool(other.mark)


def _words(finding: Finding) -> frozenset[str]:
    return frozenset(_WORD.findall(f"{finding.rule} {finding.message}".lower()))


def _alike(first: frozenset[str], second: frozenset[str]) -> bool:
    least = min(len(first), len(second))
    return least >= _LEAST_WORDS and len(first & second) >= ALIKE * least


def _joined(kept: Finding, other: Finding, places: dict[str, int]) -> Finding:
    names = {*kept.axes, kept.axis, *other.axes, other.axis}
    return structs.replace(
        kept,
        axes=tuple(sorted(names, key=lambda name: (places.get(name, len(places)), name))),
        confidence=max(kept.confidence, other.confidence),
        suggestion=kept.suggestion or other.suggestion,
    )
