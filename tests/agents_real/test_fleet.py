"""Twenty real agents and a subscription's window that is used up under all of them. By default five: twenty take 6 GB."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.agents_real.conftest import Beds
from tests.agents_real.test_claude import EDIT, instant, writes
from tests.figures import count

#: `make crash` runs all twenty.
AGENTS: Final = 20 if os.environ.get("HEADWAY_CRASH_KILLS") else 5
UNITS: Final = (
    20 if AGENTS == 20 else 8
)  # Two turns of 1.5 s each: the window is used up before the last of them are over.
STRIKES_S: Final = 4.0
#: Twenty agents take half a minute to start on two busy cores: all of them are to be refused before the reset.
RESETS_S: Final = 60 if AGENTS == 20 else 8
PATIENCE_S: Final = 400.0


def test_all_finish_and_nothing_is_spawned_before_the_reset(bed: Beds, tmp_path: Path) -> None:
    account = {"default": {"latency": 1.5}}
    strike = {"kind": "subscription", "at": STRIKES_S, "resets": RESETS_S}
    one = bed(accounts=account, faults=[strike], tools=[writes(tmp_path)])
    one.claude(subscription=True, workers=AGENTS)
    prompts = [f"{EDIT} of task {number}" for number in range(UNITS)]
    assert one.finish(one.start(*prompts, flags=("--shared-directory",)), PATIENCE_S) == 0, one.err
    attempts = [attempt for number in range(UNITS) for attempt in one.attempts(f"u{number}")]
    refused = [attempt for attempt in attempts if attempt["outcome"] != "succeeded"]
    assert {attempt["kind"] for attempt in refused} == {"hold"}
    assert 0 < len(refused) <= AGENTS
    assert len(attempts) == UNITS + len(refused)
    first = min(attempt["rate_limit"]["detected_utc"] for attempt in refused)
    opens = max(
        attempt["rate_limit"]["detected_utc"] + attempt["rate_limit"]["retry_after_s"] for attempt in refused
    )
    started = [instant(attempt["started_utc"]) for attempt in attempts]
    assert not [at for at in started if first < at < opens], "nothing starts before the reset"
    stats = one.fake.stats()
    assert stats["repeats"] == 0, "no turn that was answered is asked again"
    log = [line for line in (one.root / "run.log").read_text().splitlines() if "%)" not in line]
    assert len(log) <= 10, log
    count("real agents", agents=AGENTS, units=UNITS, refused=len(refused))
