"""Metrics of the conventions, an observation for each attempt: how long it took, and what it used."""

from __future__ import annotations

from typing import Any, Final, Protocol

from headway.stores.records import Attempt
from headway.tracing import genai_names as names
from headway.tracing.genai_names import Versions
from headway.tracing.request_facts import Attributes

#: The buckets that the conventions give.
DURATIONS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_DURATION_TEXT: Final = "GenAI operation duration."
_TOKENS_TEXT: Final = "Number of tokens used."


class _Recording(Protocol):
    def record(self, amount: float, attributes: Attributes) -> None: ...


class _Adding(Protocol):
    def add(self, amount: int, attributes: Attributes) -> None: ...


class GenAiMetrics:
    """The instruments of a run, made by an OpenTelemetry meter."""

    def __init__(self, meter: Any, chosen: Versions) -> None:
        self._chosen = chosen
        self._durations: list[_Recording] = []
        self._counters: dict[str, _Adding] = {}
        self._sizes: dict[str, _Recording] = {}
        if chosen.deployed:
            self._durations.append(_durations(meter, "gen_ai.client.operation.duration"))
            self._usage: _Recording = _tokens(meter, "gen_ai.client.token.usage")
        if chosen.latest:
            self._durations.append(_durations(meter, "gen_ai.client.inference.duration"))
            for direction in ("input", "output"):
                name = f"gen_ai.client.inference.usage.{direction}_tokens"
                self._counters[direction] = meter.create_counter(name, "{token}", _TOKENS_TEXT)
                self._sizes[direction] = _tokens(
                    meter, f"gen_ai.client.inference.operation.{direction}_tokens"
                )

    def observe(self, attempt: Attempt, took_s: float, attributes: Attributes) -> None:
        """An attempt has ended. `attributes` are those that metrics have: few values each."""
        if attempt.kind is not None:
            attributes = {**attributes, names.ERROR_TYPE: attempt.kind}
        for duration in self._durations:
            duration.record(took_s, attributes)
        for direction, tokens in (("input", attempt.input_tokens), ("output", attempt.output_tokens)):
            if tokens is None:
                continue
            if self._chosen.deployed:
                self._usage.record(tokens, {**attributes, names.TOKEN_TYPE: direction})
            if self._chosen.latest:
                self._counters[direction].add(max(0, tokens), attributes)
                self._sizes[direction].record(tokens, attributes)


def _durations(meter: Any, name: str) -> Any:
    return meter.create_histogram(name, "s", _DURATION_TEXT, explicit_bucket_boundaries_advisory=DURATIONS_S)


def _tokens(meter: Any, name: str) -> Any:
    return meter.create_histogram(name, "{token}", _TOKENS_TEXT, explicit_bucket_boundaries_advisory=TOKENS)
