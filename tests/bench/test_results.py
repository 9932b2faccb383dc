"""The file of results: a section that is measured again is replaced, and the others stay as they are."""

from __future__ import annotations

from pathlib import Path

from bench import results
from bench.results import Part


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    assert results.read(path) == {}
    parts = {
        "lanes": Part("2026-01-02", "CPython, two cores", [], ["## Lanes", "", "| a |", "|---|", "| 1 |"]),
        "speed": Part("2026-01-03", "CPython, 4 cores", ["20 µs, the bar is 10"], ["## Speed", "", "20 µs"]),
    }
    results.write(path, parts)
    assert results.read(path) == parts
    assert "- speed: 20 µs, the bar is 10" in path.read_text(encoding="utf-8")
    met = Part("2026-01-04", "CPython, 4 cores", [], ["## Speed", "", "9 µs"])
    results.write(path, {**results.read(path), "speed": met})
    assert results.read(path) == {**parts, "speed": met}
    assert "Every bar is met." in path.read_text(encoding="utf-8")
