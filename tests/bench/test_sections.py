"""The sections of `make bench`: a section that fails does not stop the others and leaves its old figures alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import __main__ as bench
from bench import results


def good(missed: list[str]) -> Iterator[str]:
    """A section with a missed bar."""
    missed.append("9, the bar is 8")
    yield "## Good"
    yield ""
    yield "9"


def broken(missed: list[str]) -> Iterator[str]:
    """A section that fails half-way."""
    yield "## Broken"
    raise OSError("no port is free")


def test_a_section_that_fails_keeps_its_old_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "RESULTS.md"
    results.write(
        path, {"broken": results.Part("2026-01-02", "CPython", [], ["## Old", "", "1"], "0a1b2c3d")}
    )
    monkeypatch.setattr(bench, "RESULTS", path)
    monkeypatch.setattr(bench, "SECTIONS", {"good": good, "broken": broken})
    assert bench.main([]) == 1
    parts = results.read(path)
    assert parts["good"].lines == ["## Good", "", "9"]
    assert parts["good"].missed == ["9, the bar is 8"]
    assert parts["broken"].lines == ["## Old", "", "1"]
    assert "missed: broken: not measured: OSError('no port is free')" in capsys.readouterr().out


def test_an_unknown_section_names_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["lane"]) == 2
    assert "unknown section 'lane'; one of lanes, short" in capsys.readouterr().out
