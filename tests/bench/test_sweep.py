"""The sweep: its cells, its tables, and two cells that once went wrong."""

from __future__ import annotations

from pathlib import Path

from bench.sweep import cells, heat_map, section
from bench.sweep.cells import Cell, Measured, measure


def test_the_sweep_has_every_combination() -> None:
    chosen = cells.cells()
    assert len(chosen) == len(set(chosen)) == 6 * 5 * 3 * 3 * 4
    assert {cell.units for cell in chosen} == set(cells.SIZES)


def test_small_requests_pass_the_first_stop_of_the_depth_ramp() -> None:
    """With 33 requests a second, reports stayed below the stop at one second for ever: 30 times the oracle."""
    result = measure(Cell(400, 60.0, 0.3, "headers", 2_000))
    assert result.unfinished == 0
    assert result.refused == 0
    assert result.ratio < 8.0


def test_reports_that_stay_behind_do_not_hide_a_stop_for_ever() -> None:
    """At the stop of ten seconds, reports stayed 0.1 s below what was charged: 30 times the oracle."""
    result = measure(Cell(1_000, 60.0, 0.3, "headers", 2_000))
    assert result.unfinished == result.refused == 0
    assert result.ratio < 5.0


def test_a_bucket_of_one_request_is_not_refilled_early() -> None:
    """One request every three seconds, and each came as early as the one before it was late: half were refused."""
    for tells in ("headers", "text"):
        result = measure(Cell(100, 3.0, 0.3, tells, 20))
        assert result.refused <= 6
        assert result.ratio < 1.10


def test_a_job_that_the_bucket_holds_may_take_longer_than_thirty_round_trips() -> None:
    """The oracle needs one round trip; the run was stopped after thirty and its rest was taken for lost."""
    result = measure(Cell(4_000, 60.0, 0.3, "blind", 20_000))
    assert result.cell.fits
    assert result.unfinished == 0
    assert result.oracle_s < 0.5
    assert 0.0 < result.half_s < result.took_s


def test_the_table_has_median_and_worst_and_says_what_the_worst_cells_show() -> None:
    slow, quick = Cell(400, 60.0, 0.3, "blind", 200), Cell(400, 1.0, 2.0, "blind", 200)
    results = [
        Measured(slow, 300.0, 100.0, refused=20, half_s=170.0, gap_s=9.0),
        Measured(quick, 120.0, 120.0),
    ]
    text = "\n".join(section.lines(results))
    assert "| 400 | – | – | – | – | 2.00, 3.00 | 25, 50 |" in text
    assert (
        "- 400 units, 200 a minute, 60 s deep, answers after 0.3 s, blind: 3.00. The oracle needs 100.0 s. Headway needs 300.0 s: "
        "it met 20 refusals, half of the units were admitted after 170.0 s, and the longest time without an admission was 9.0 s."
    ) in text
    assert text.index("blind: 3.00") < text.index("blind: 1.00"), "the worst is first"
    assert "blind: 50 per 1000." in text


def test_a_job_that_fits_into_its_bucket_is_named_so() -> None:
    one = Measured(Cell(20, 60.0, 0.3, "headers", 20), 4.0, 0.4)
    assert section.why(one).startswith("The full bucket holds the whole job, so the oracle sends it at once")


def test_a_job_that_does_not_end_is_missed() -> None:
    cell = Cell(20, 1.0, 0.3, "text", 20)
    assert section.misses([Measured(cell, 1.0, 1.0)]) == []
    assert section.misses([Measured(cell, 30.0, 1.0, unfinished=3)]) == [f"{cell.name}: 3 units did not end"]


def test_the_heat_maps_are_drawn(tmp_path: Path) -> None:
    results = [Measured(cell, 1.1, 1.0, refused=cell.units) for cell in cells.cells(sizes=(20, 400))]
    heat_map.draw_all(results, tmp_path)
    assert "1.10" in (tmp_path / "sweep.svg").read_text(encoding="utf-8")
    assert "1000" in (tmp_path / "sweep-429s.svg").read_text(encoding="utf-8")
