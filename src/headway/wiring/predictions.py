"""What was predicted for a job, kept until it runs and with it from then on, for a comparison at its end.

`headway plan` leaves its prediction in a small file beside the database, by what the job is: the run that follows
takes it up into the job's settings. Nothing here simulates anything: a run that was not planned pays for one look at
a file that is not there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import Config
from headway.reports.prediction import SETTING, Prediction
from headway.stores.files import make_folder, read_own, write_own
from headway.stores.records import Job
from headway.wiring.store_access import headway_folder

#: A prediction says "if it is started now"; after a week it says nothing.
KEPT_S: Final = 7 * 86_400.0
#: The folders above a prediction that are Headway's own: `plans`.
LEVELS: Final = 1


def _file(config: Config, digest: str) -> Path:
    return headway_folder(config) / "plans" / f"{digest[:32]}.json"


def remember(config: Config, digest: str, prediction: Prediction) -> None:
    """Leave it for the run to come. Where that cannot be, there will be no comparison, and that is all."""
    path = _file(config, digest)
    with suppress(OSError):
        make_folder(path.parent.parent)
        write_own(path, LEVELS, msgspec.json.encode(prediction), make=True)
        for other in path.parent.glob("*.json"):
            if time.time() - other.lstat().st_mtime > KEPT_S:
                other.unlink()


def taken_up(config: Config, job: Job, prediction: Prediction | None) -> dict[str, Any]:
    """What a run's settings say of it: of the newest prediction, or of the one that an earlier run of it took up."""
    found = prediction or _left(config, job)
    if found is None:
        return {SETTING: job.settings[SETTING]} if SETTING in job.settings else {}
    return {
        SETTING: msgspec.to_builtins(
            msgspec.structs.replace(found, began_utc=time.time(), spent_usd=job.cost_usd)
        )
    }


def _left(config: Config, job: Job) -> Prediction | None:
    path = _file(config, job.digest)
    try:
        prediction = msgspec.json.decode(read_own(path, LEVELS), type=Prediction)
        path.unlink()
    except (OSError, msgspec.DecodeError):
        return None
    return prediction if time.time() - prediction.planned_utc < KEPT_S else None
