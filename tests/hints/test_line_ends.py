"""JSON lines end at a line feed, not at the other characters where Python's `splitlines` splits."""

from __future__ import annotations

import json

import pytest

from headway.providers.limits import agent_events, error_bodies


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029"])
def test_events_with_odd_characters_are_read(odd: str) -> None:
    events = [
        {"type": "system"},
        {"type": "result", "is_error": True, "result": f"You've hit your limit{odd}resets 4pm"},
    ]
    lines = "\r\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    plain = "\n".join(json.dumps(event) for event in events)
    assert agent_events.read(lines) == agent_events.read(plain)
    assert agent_events.read(lines) != agent_events.AgentResult()


@pytest.mark.parametrize("odd", ["\x85", "\u2028"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_error_in_an_event_stream_is_read_to_its_end(odd: str, end: str) -> None:
    error = json.dumps({"error": {"message": f"slow{odd}down", "code": "rate_limited"}}, ensure_ascii=False)
    said = error_bodies.read(f"event: error{end}data: {error}{end}{end}")
    assert (said.message, said.codes) == (f"slow{odd}down", ["rate_limited"])
