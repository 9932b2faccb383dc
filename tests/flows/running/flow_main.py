"""`headway` that reads flows as JSON: a checked spec with relative paths. It has the faults of the crash tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.launcher import main

from headway.flows.running.job_kind import FlowKind
from headway.flows.spec import FlowSpec
from headway.jobs.kinds import KINDS


def load(path: Path) -> FlowSpec:
    data = msgspec.json.decode(path.read_bytes())

    def as_path(kind: Any, value: str) -> Path:
        return path.parent / value

    return msgspec.convert({**data, "name": path.stem, "path": path.name}, FlowSpec, dec_hook=as_path)


if __name__ == "__main__":
    KINDS["flow"] = FlowKind(load)
    sys.exit(main())
