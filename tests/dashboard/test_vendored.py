"""Files of others in the page are those that their package has, unchanged, with their licence."""

from __future__ import annotations

import hashlib
from importlib import resources

import pytest

#: SHA-256 of the files in the package uplot 1.6.32 of npm (its integrity is
#: sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==).
UPLOT = {
    "uPlot.esm.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


@pytest.mark.parametrize("name", UPLOT)
def test_uplot_is_that_of_npm(name: str) -> None:
    file = resources.files("headway.dashboard").joinpath("assets", "vendor", "uplot", name)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == UPLOT[name]


def test_nothing_else_is_vendored() -> None:
    folder = resources.files("headway.dashboard").joinpath("assets", "vendor")
    assert [entry.name for entry in folder.iterdir()] == ["uplot"]
    assert {entry.name for entry in folder.joinpath("uplot").iterdir()} == set(UPLOT)
