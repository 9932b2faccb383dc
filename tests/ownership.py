"""Files that belong to another user: for real where the tests run as root, otherwise as the system would show them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: `nobody`: a user that owns nothing here.
STRANGER = 65534


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch, user: int = STRANGER) -> None:
    """Make a file, a folder or a link another user's."""
    if os.geteuid() == 0:
        os.chown(path, user, user, follow_symlinks=False)
        return
    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, _shown_as(getattr(os, name), path, user))


def _shown_as(real: Callable[..., os.stat_result], path: Path, user: int) -> Callable[..., os.stat_result]:
    def shown(place: Any, **how: Any) -> os.stat_result:
        seen = real(place, **how)
        if isinstance(place, int) or os.fspath(place) != str(path):
            return seen
        return os.stat_result((*seen[:4], user, *seen[5:10]))

    return shown
