"""The argument that names the file of the records: `db=` of a map, `store=` of a pool."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path

from headway.api.lane_names import caller
from headway.config.argument_checks import path_of
from headway.stores.sqlite.mounts import network_warning


def record_path(value: str | PathLike[str] | None, name: str) -> str | None:
    """The file as a text. Warns at the caller's line if it is on a network file system."""
    path = path_of(value, name)
    if path is not None and (found := network_warning(Path(path))) is not None:
        warnings.warn_explicit("; ".join(found), UserWarning, *caller())
    return path
