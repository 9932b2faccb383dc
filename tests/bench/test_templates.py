"""A sample of the bench that holds plans against reality by template: small files, so time has a start-up to bear."""

from __future__ import annotations

from bench import templates

ROWS = 80


def test_what_ran_before_is_planned_by_its_template_and_what_is_new_says_so() -> None:
    new = [one for one in templates.NEW if one.name in ("one word", "a summary")]
    with templates.desk() as at:
        known = templates.calibrated(at, ROWS)
        fresh = templates.new(at, new, ROWS)
    for result in known:
        assert abs(result.cost_off) < 2.5 * templates.COST_BAR, result
        assert result.notes == []
    for result in fresh:
        assert result.inside, result
        [note] = result.notes
        assert "no job like this yet" in note


def test_misses_are_told() -> None:
    off = templates.Result("x", (2.0, 1.0, 3.0), 1.0, (2.0, 1.9, 2.1), 1.0, [])
    assert not off.inside
    assert len(templates.misses([off], [off])) == 3
    right = templates.Result("x", (1.0, 0.9, 1.1), 1.0, (1.0, 0.9, 1.1), 1.0, [])
    assert templates.misses([right], [right]) == []
