"""The real opencode against the fake provider. It would retry by itself: Headway's plugin ends it at the first retry."""

from __future__ import annotations

from typing import Final

import pytest
from tests.agents_real.conftest import Beds
from tests.agents_real.test_claude import EDIT, instant
from tests.crash.sampling import some

#: What a command of the agent sees: where it is, and none of the variables that are meant for opencode itself.
LOOK: Final = "echo $PWD [$OPENCODE_CONFIG_CONTENT$npm_config_fetch_retries] > note.txt"
SHELL: Final = {
    "contains": EDIT,
    "name": "bash",
    "arguments": {"command": LOOK, "description": "look around", "timeout": 5000},
}


def test_it_edits_a_file_and_everything_is_recorded(bed: Beds) -> None:
    one = bed(tools=[SHELL])
    one.opencode()
    one.env["PWD"] = str(one.home)  # As of a shell that started headway elsewhere.
    assert one.run(EDIT) == 0, one.err
    assert (one.work / "note.txt").read_text() == f"{one.work} []\n"
    unit = one.answer()["headway"]
    assert unit["text"].startswith("echo: ")
    assert unit["cost_usd"] > 0.0
    details = one.show()["notes"]["1"]
    calls = [call["name"] for message in details["messages"] for call in message.get("tool_calls", ())]
    assert calls == ["bash"]
    assert details["session_id"].startswith("ses_")
    assert one.fake.stats()["received"] == 2, "one for each turn, and none for a title"


def test_a_429_is_asked_once_and_the_session_goes_on_after_the_wait(bed: Beds) -> None:
    one = bed(faults=[{"kind": "429", "at": 0, "resets": 3}])
    one.opencode()
    assert one.run("hello") == 0, one.err
    first, second = one.attempts()
    assert (first["outcome"], first["kind"], second["outcome"]) == ("throttled", "rate", "succeeded")
    assert "rate limit of 1,000 requests per minute" in first["message"]
    assert instant(second["started_utc"]) - instant(first["finished_utc"]) >= 3.0, "the wait of the answer"
    assert one.fake.stats()["received"] == 2
    notes = one.show()["notes"]
    assert notes["1"]["session_id"] == notes["2"]["session_id"]


@pytest.mark.parametrize(("fault", "kind"), some([("529", "overload"), ("429", "rate"), ("401", "auth")]))
def test_refusals_are_asked_once_for_each_attempt(bed: Beds, fault: str, kind: str) -> None:
    one = bed(faults=[{"kind": fault}])
    one.opencode()
    toml = one.root / "headway.toml"
    toml.write_text(toml.read_text() + "max_throttles = 1\n")
    assert one.run("hello", flags=("--max-attempts", "2")) == 1, one.err
    attempts = one.attempts()
    assert {attempt["kind"] for attempt in attempts} == {kind}, attempts
    assert one.fake.stats()["received"] == len(attempts) == (1 if fault == "401" else 2)
