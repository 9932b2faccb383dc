"""A short run of the plans by template: with small files, so start-up matters in the time."""

from __future__ import annotations

from bench.planning import templates

ROWS = 80


def test_known_templates_are_planned_from_their_records_and_new_ones_have_a_note() -> None:
    new = [one for one in templates.NEW if one.name == "a summary"]
    with templates.plan_folder() as at:
        known = templates.calibrated(at, ROWS)
        fresh = templates.new(at, new, ROWS)
    for result in known:
        assert abs(result.cost_off) < 2.5 * templates.COST_BAR, result
        assert result.notes == []
    for result in fresh:
        assert result.inside, result
        [note] = result.notes
        assert "no job like this yet" in note


def test_missed_bars_are_reported() -> None:
    off = templates.Result("x", (2.0, 1.0, 3.0), 1.0, (2.0, 1.9, 2.1), 1.0, [])
    assert not off.inside
    assert len(templates.misses([off], [off])) == 3
    right = templates.Result("x", (1.0, 0.9, 1.1), 1.0, (1.0, 0.9, 1.1), 1.0, [])
    assert templates.misses([right], [right]) == []
