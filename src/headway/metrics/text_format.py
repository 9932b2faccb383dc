"""The exposition formats: Prometheus's text format 0.0.4, and OpenMetrics 1.0 for a scraper that accepts it.

The two differ in the names of counters in HELP and TYPE, and in the last line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isnan
from typing import Final

import msgspec

from headway.metrics.families import FAMILIES, MetricFamily

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

#: The values of a family's labels, in the order of its table.
Labels = tuple[str, ...]
Samples = Mapping[Labels, float]

_COUNTED: Final = "_total"


class Distribution(msgspec.Struct, frozen=True):
    """A histogram: the upper bounds of its buckets, how many observations are in each (the last one has no bound), and their sum."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class Exposition(msgspec.Struct, frozen=True):
    """What one scrape gets. A family without samples has its HELP and TYPE alone."""

    samples: Mapping[MetricFamily, Samples]
    distributions: Mapping[MetricFamily, Distribution] = {}


def format_of(accept: str) -> str:
    """The content type for an Accept header."""
    return OPEN_METRICS if "application/openmetrics-text" in accept else TEXT


def written(exposition: Exposition, content_type: str = TEXT) -> bytes:
    """The exposition as text."""
    is_open = content_type == OPEN_METRICS
    lines: list[str] = []
    for family in FAMILIES:
        name = family.name.removesuffix(_COUNTED) if is_open else family.name
        lines.append(f"# HELP {name} {_escaped(family.help, quotes=is_open)}")
        lines.append(f"# TYPE {name} {family.type}")
        for labels, value in exposition.samples.get(family, {}).items():
            lines.append(f"{family.name}{_labels(family.labels, labels)} {_number(value)}")
        if (distribution := exposition.distributions.get(family)) is not None:
            lines += _buckets(family.name, distribution)
    if is_open:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _buckets(name: str, distribution: Distribution) -> Iterable[str]:
    """The lines of a histogram: its buckets are cumulative."""
    total = 0
    for bound, count in zip((*distribution.bounds, inf), distribution.counts, strict=True):
        total += count
        yield f'{name}_bucket{{le="{_number(float(bound))}"}} {total}'
    yield f"{name}_count {total}"
    yield f"{name}_sum {_number(distribution.sum)}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str, *, quotes: bool = True) -> str:
    """Backslashes, line feeds and, where they end the text, quotes."""
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0.0 else "-Inf"
    return repr(value)
