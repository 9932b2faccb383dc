"""The real Gemini CLI against the fake provider. It would retry by itself: it is ended when it says so."""

from __future__ import annotations

from tests.agents_real.conftest import Beds
from tests.agents_real.test_claude import instant


def test_a_turn_succeeds_in_the_session_that_headway_chose(bed: Beds) -> None:
    one = bed()
    one.gemini()
    assert one.run("hello") == 0, one.err
    unit = one.answer()["headway"]
    assert unit["text"].rstrip().endswith("hello")
    assert unit["usage"]["input_tokens"] > 0
    assert one.show()["notes"]["1"]["session_id"] == one.answer()["response"]["body"]["session_id"]
    assert one.fake.stats()["received"] == 1


def test_a_429_is_asked_once_and_then_waited_for(bed: Beds) -> None:
    one = bed(faults=[{"kind": "429", "at": 0, "resets": 3}])
    one.gemini()
    assert one.run("hello") == 0, one.err
    first, second = one.attempts()
    assert (first["outcome"], first["kind"], second["outcome"]) == ("throttled", "rate", "succeeded")
    assert "You exceeded your current quota" in first["message"]
    assert instant(second["started_utc"]) - instant(first["finished_utc"]) >= 2.0, "the wait of the answer"
    assert one.fake.stats()["received"] == 2
