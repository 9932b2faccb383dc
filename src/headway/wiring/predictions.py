"""Stores the prediction for a job until it runs, and then with the job, for a comparison at its end.

`headway plan` writes its prediction into a small file beside the database, named by the job's digest. The next run copies it
into the job's settings. Nothing is simulated here: a run without a plan only checks that the file does not exist.
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

#: A prediction is for a start now; after a week it is dropped.
KEPT_S: Final = 7 * 86_400.0
#: Folders above a prediction that belong to Headway: `plans`.
LEVELS: Final = 1


def _file(config: Config, digest: str) -> Path:
    return headway_folder(config) / "plans" / f"{digest[:32]}.json"


def save_prediction(config: Config, digest: str, prediction: Prediction) -> None:
    """Save a prediction for the next run. If that fails, the run has no comparison."""
    path = _file(config, digest)
    with suppress(OSError):
        make_folder(path.parent.parent)
        write_own(path, LEVELS, msgspec.json.encode(prediction), make=True)
        for other in path.parent.glob("*.json"):
            if time.time() - other.lstat().st_mtime > KEPT_S:
                other.unlink()


def prediction_setting(config: Config, job: Job, prediction: Prediction | None) -> dict[str, Any]:
    """The setting of a run with its prediction: this one, a saved one, or that of an earlier run."""
    latest = prediction or _take_saved(config, job)
    if latest is None:
        return {SETTING: job.settings[SETTING]} if SETTING in job.settings else {}
    latest = msgspec.structs.replace(latest, began_utc=time.time(), spent_usd=job.cost_usd)
    return {SETTING: msgspec.to_builtins(latest)}


def _take_saved(config: Config, job: Job) -> Prediction | None:
    path = _file(config, job.digest)
    try:
        prediction = msgspec.json.decode(read_own(path, LEVELS), type=Prediction)
        path.unlink()
    except (OSError, msgspec.DecodeError):
        return None
    return prediction if time.time() - prediction.planned_utc < KEPT_S else None
