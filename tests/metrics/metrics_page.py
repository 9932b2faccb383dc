"""Reads the metrics of a process, as a scraper does."""

from __future__ import annotations

import re
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_text

from headway.metrics.text_format import OPEN_METRICS

_LINE = re.compile(r"metrics: (http://\S+/metrics)")

#: Metric, then its labels → the value.
Numbers = dict[tuple[str, ...], float]


def url_in(text: str) -> str:
    """The address that a run printed; "" before that."""
    found = _LINE.search(text)
    return "" if found is None else found[1]


def scrape(url: str) -> Numbers:
    """All samples: (name, label value, label value) → value."""
    with urlopen(Request(url, headers={"Accept": OPEN_METRICS}), timeout=20) as answer:
        return numbers_of(answer.read().decode(), open_metrics=True)


def numbers_of(text: str, *, open_metrics: bool = False) -> Numbers:
    """The samples of a text."""
    parse = text_string_to_metric_families if open_metrics else parse_text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def total(numbers: Numbers, name: str) -> float:
    """The sum of a metric over its labels."""
    return sum(value for labels, value in numbers.items() if labels[0] == name)
