"""Requests of an eval have every parameter that the configuration sets."""

from __future__ import annotations

import msgspec

from headway.config.routing import Target
from headway.evals.running.target_requests import chat_request, embedding_request

_TARGET = Target("alpha", "openai", "m")


def test_parameters_that_rows_of_batches_take_as_their_own_are_sent() -> None:
    options = {"metadata": {"team": "a"}, "priority": 3, "temperature": 0}
    assert msgspec.json.decode(chat_request(_TARGET, "hi", options).body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        **options,
    }
    assert msgspec.json.decode(embedding_request(_TARGET, ["hi"], {"metadata": {"a": "b"}}).body) == {
        "model": "m",
        "input": ["hi"],
        "metadata": {"a": "b"},
    }
