"""Names of settings that a job keeps of its last run, and that its kind reads."""

from __future__ import annotations

from typing import Final

import msgspec

from headway.stores.records import Job

#: The nodes that run at a time (`--concurrency`).
CONCURRENCY: Final = "nodes_at_a_time"
#: The node that the run goes up to (`--until`); "": all.
UNTIL: Final = "until"
#: The address of each model: kind, address and model, by PROVIDER/MODEL.
ADDRESSES: Final = "addresses"
#: What the job's file says about a whole run (`FileLimits`).
LIMITS: Final = "limits"


class FileLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the file of a job says about a whole run. 0: nothing. Flags and headway.toml win."""

    concurrency: int = 0
    delay_s: float = 0.0
    timeout_s: float = 0.0
    max_duration_s: float = 0.0


def limits_of(job: Job) -> FileLimits:
    """Those of the present run of a job, or of its last one."""
    return msgspec.convert(job.settings.get(LIMITS) or {}, FileLimits)
