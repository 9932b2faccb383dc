"""Functions for units on a cluster. The test copies this file into the folder that travels."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def leave(row: dict[str, Any]) -> dict[str, Any]:
    """Work for a while, and leave a file for this execution."""
    time.sleep(row["s"])
    Path(row["effects"], f"{row['n']}.{os.getpid()}.{time.time_ns()}").touch()
    return {"n": row["n"]}


def environment(row: dict[str, Any]) -> dict[str, Any]:
    """What a unit sees."""
    return {
        "named": os.environ.get("NAMED_KEY", ""),
        "other": os.environ.get("OTHER_KEY", ""),
        "files": sorted(os.listdir()),
        "directory": os.getcwd(),
        "argv": sys.argv[:1],
    }
