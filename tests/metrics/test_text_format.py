"""The exposition formats, judged by the strict parsers of prometheus_client. Names of lanes and jobs may be any text."""

from __future__ import annotations

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from headway.metrics.families import ATTEMPTS, COMMITS, FAMILIES, LIMIT, UNITS
from headway.metrics.labels import LONGEST, OTHER, LabelValues
from headway.metrics.text_format import OPEN_METRICS, TEXT, Distribution, Exposition, format_of, written

#: Everything that a file can contain: quotes, backslashes, line breaks, escapes, halves of surrogate pairs.
NAMES = st.text(st.characters(codec=None, categories=None), max_size=300)
HOSTILE = 'a"b\\c\nd\r\x1b[31m\u2028{x="y"} 1 # EOF\n# TYPE e counter'


def families_of(exposition: Exposition) -> dict[str, tuple[str, str, dict[tuple[str, ...], float]]]:
    """The same families by both formats: name → type, help, label values → value."""
    found = []
    for content_type, parse in ((TEXT, parse_text), (OPEN_METRICS, parse_open)):
        text = written(exposition, content_type).decode()
        found.append(
            {
                family.name: (
                    family.type,
                    family.documentation,
                    {(one.name, *one.labels.values()): one.value for one in family.samples},
                )
                for family in parse(text)
            }
        )
    assert found[0] == found[1]
    return found[0]


def test_every_family_has_its_help_and_type_without_samples() -> None:
    families = families_of(Exposition({}))
    assert {name: (kind, text) for name, (kind, text, _) in families.items()} == {
        family.name.removesuffix("_total"): (family.type, family.help) for family in FAMILIES
    }


def test_counters_gauges_and_histograms() -> None:
    families = families_of(
        Exposition(
            {
                ATTEMPTS: {("a/x", "succeeded"): 3, ("a/x", "failed"): 0},
                LIMIT: {("a/x", "tokens per minute"): 0.1},
            },
            {COMMITS: Distribution((0.5, 1.0), (2, 3, 1), 4.25)},
        )
    )
    assert families["headway_attempts"][2] == {
        ("headway_attempts_total", "a/x", "succeeded"): 3.0,
        ("headway_attempts_total", "a/x", "failed"): 0.0,
    }
    assert families["headway_lane_limit"][2] == {("headway_lane_limit", "a/x", "tokens per minute"): 0.1}
    commits = "headway_store_commit_seconds"
    assert families[commits][2] == {
        (f"{commits}_bucket", "0.5"): 2.0, (f"{commits}_bucket", "1.0"): 5.0, (f"{commits}_bucket", "+Inf"): 6.0,
        (f"{commits}_count",): 6.0, (f"{commits}_sum",): 4.25,
    }  # fmt: skip


def test_odd_numbers() -> None:
    lines = written(
        Exposition({LIMIT: {("a", "x"): inf, ("b", "x"): -inf, ("c", "x"): nan, ("d", "x"): 1e-7}})
    ).decode()
    assert [line.split()[-1] for line in lines.splitlines() if line.startswith("headway_lane_limit{")] == [
        "+Inf", "-Inf", "NaN", "1e-07",
    ]  # fmt: skip


@given(NAMES)
def test_any_name_comes_back_as_its_label(name: str) -> None:
    label = LabelValues().of(name)
    assert len(label) <= LONGEST
    families = families_of(Exposition({UNITS: {(label, "failed"): 1}}))
    assert families["headway_units"][2] == {("headway_units", label, "failed"): 1.0}


def test_a_hostile_name_adds_no_line() -> None:
    label = LabelValues().of(HOSTILE)
    plain, hostile = (written(Exposition({UNITS: {(name, "failed"): 1}})) for name in ("a", label))
    assert plain.count(b"\n") == hostile.count(b"\n")
    assert b"\x1b" not in hostile


def test_labels_have_a_bound_and_keep_their_value() -> None:
    values = LabelValues(most=2)
    assert [values.of(name) for name in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]


def test_a_scraper_gets_the_format_that_it_accepts() -> None:
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
    assert format_of(prometheus) == OPEN_METRICS
    assert [format_of(accept) for accept in ("", "*/*", "text/plain")] == [TEXT] * 3
