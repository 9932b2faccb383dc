"""Follows the attempts of a run: a span for each unit, over all of its attempts and the waits between them, and one for each attempt.

The span of a unit is the conventions' span of a model call, and the root of a trace: traces stay small however long a job is. It has a link
to the span of the run. What units used is on their own spans alone, so that sums over spans count nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.core.unit_states import Status
from headway.engine.attempt_tracer import AttemptTracer
from headway.engine.flights import RequestFlight
from headway.providers.adapter import Request
from headway.stores.records import Attempt, UnitChange
from headway.tracing import genai_names as names
from headway.tracing.genai_metrics import GenAiMetrics
from headway.tracing.genai_names import Versions
from headway.tracing.message_texts import message_texts
from headway.tracing.request_facts import Attributes, answer_attributes, request_attributes
from headway.tracing.route_facts import RouteFacts

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

#: Attributes of Headway's own.
JOB: Final = "headway.job"
LANE: Final = "headway.lane"
INDEX: Final = "headway.unit.index"
ID: Final = "headway.unit.id"
STATUS: Final = "headway.unit.status"
ATTEMPTS: Final = "headway.unit.attempts"
COST: Final = "headway.cost_usd"
NUMBER: Final = "headway.attempt.number"
OUTCOME: Final = "headway.attempt.outcome"
#: A message of a provider is foreign text: no longer than this in a status.
_LONGEST_MESSAGE: Final = 500
#: The id of a row may be as long as its author likes.
_LONGEST_ID: Final = 200
_GOOD: Final = str(Status.SUCCEEDED)


class TraceOptions(msgspec.Struct, frozen=True):
    """`content`: the texts of prompts and answers go with the spans. `propagate`: providers over HTTP get a `traceparent`."""

    content: bool = False
    propagate: bool = False
    versions: Versions = Versions()


class _OpenUnit:
    """A unit whose span has begun: what its attempts used so far."""

    __slots__ = (
        "answer",
        "attempt_span",
        "attempts",
        "body",
        "cached",
        "cost",
        "input",
        "output",
        "path",
        "route",
        "span",
    )

    def __init__(self, span: Span, route: RouteFacts, request: Request) -> None:
        self.span, self.route = span, route
        self.path, self.body, self.answer = request.path, request.body, b""
        self.attempt_span: Span | None = None
        self.attempts = self.input = self.output = self.cached = 0
        self.cost: float | None = None


class UnitSpans(AttemptTracer):
    """`failed` gets a line once, if a span could not be made: that never ends a run."""

    def __init__(
        self,
        tracer: Tracer,
        metrics: GenAiMetrics,
        job: str,
        routes: Mapping[int, RouteFacts],
        options: TraceOptions,
        scrub: Callable[[str], str],
    ) -> None:
        from opentelemetry import trace

        self._otel = trace
        self._tracer, self._metrics, self._options, self._scrub = tracer, metrics, options, scrub
        self._job, self._routes = job, routes
        self._units: dict[int, _OpenUnit] = {}
        self._run: Span | None = None
        #: Why it does nothing any more: spans must not disturb the run.
        self.trouble = ""

    # -- the run ------------------------------------------------------------------------------------------------------

    def begin(self, parent: Any) -> None:
        """The run begins. `parent` is the context of the command: that of the trace that started it."""
        self._run = self._tracer.start_span(
            f"run {self._job}"[:200], context=parent, attributes={JOB: self._job}
        )

    def finish(self, state: str) -> None:
        """The run has ended: so do the spans of units that are left."""
        for unit in self._units.values():
            unit.span.set_attribute(STATUS, str(Status.PENDING))
            self._close(unit)
        self._units.clear()
        if self._run is not None:
            self._run.set_attribute("headway.state", state)
            self._run.end()

    # -- attempts -----------------------------------------------------------------------------------------------------

    def started(self, flight: RequestFlight, request: Request) -> str:
        """Begin the span of an attempt, and that of its unit if it is the first one."""
        if self.trouble:
            return ""
        try:
            return self._started(flight, request)
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
            return ""

    def ended(self, flight: RequestFlight, attempt: Attempt | None, change: UnitChange) -> None:
        """End the span of an attempt, and that of its unit if that has ended, too."""
        if self.trouble or (unit := self._units.get(flight.index)) is None:
            return
        try:
            self._ended(unit, flight, attempt, change)
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def unit_ended(self, index: int, change: UnitChange) -> None:
        """End the span of a unit that waited for another attempt."""
        if not self.trouble and (unit := self._units.pop(index, None)) is not None:
            self._end_unit(unit, change)

    def _started(self, flight: RequestFlight, request: Request) -> str:
        unit = self._units.get(flight.index)
        if unit is None:
            unit = self._units[flight.index] = self._begin_unit(flight, request)
        unit.attempts += 1
        unit.body, unit.path = request.body, request.path
        span = unit.attempt_span = self._tracer.start_span(
            "attempt",
            context=self._otel.set_span_in_context(unit.span),
            kind=self._kind(unit.route),
            attributes={NUMBER: flight.attempts, LANE: unit.route.lane},
        )
        if unit.route.is_remote and not self._options.propagate:
            return ""
        return _traceparent(span)

    def _begin_unit(self, flight: RequestFlight, request: Request) -> _OpenUnit:
        route = self._routes[flight.route]
        attributes = {
            JOB: self._job,
            LANE: route.lane,
            INDEX: flight.index,
            **self._shared(route, request.path),
            **request_attributes(request.body, route.model),
        }
        if request.unit_id:
            attributes[ID] = request.unit_id[:_LONGEST_ID]
        name = f"{attributes[names.OPERATION]} {attributes.get(names.REQUEST_MODEL, '')}".strip()
        links = [] if self._run is None else [self._otel.Link(self._run.get_span_context())]
        context = self._otel.set_span_in_context(self._otel.INVALID_SPAN)
        scrubbed = {key: self._clean(value) for key, value in attributes.items()}
        span = self._tracer.start_span(name, context, self._kind(route), scrubbed, links)
        return _OpenUnit(span, route, request)

    def _ended(
        self, unit: _OpenUnit, flight: RequestFlight, attempt: Attempt | None, change: UnitChange
    ) -> None:
        span, unit.attempt_span = unit.attempt_span, None
        if attempt is not None:
            unit.input += attempt.input_tokens or 0
            unit.output += attempt.output_tokens or 0
            unit.cached += attempt.cached_tokens or 0
            if attempt.cost_usd is not None:
                unit.cost = (unit.cost or 0.0) + attempt.cost_usd
            took_s = max(0.0, (attempt.finished_utc or 0.0) - (attempt.started_utc or 0.0))
            model = {names.REQUEST_MODEL: unit.route.model} if unit.route.model else {}
            self._metrics.observe(attempt, took_s, {**self._shared(unit.route, unit.path), **model})
        if span is not None:
            self._end_attempt(span, attempt)
        if change.finished_utc is not None:
            if flight.answer is not None and change.status == _GOOD:
                unit.answer = flight.answer.body
            del self._units[flight.index]
            self._end_unit(unit, change)

    def _end_attempt(self, span: Span, attempt: Attempt | None) -> None:
        if attempt is None:
            span.set_attribute(OUTCOME, "not sent")
        else:
            span.set_attribute(OUTCOME, attempt.outcome)
            if attempt.status_code is not None:
                span.set_attribute("http.response.status_code", attempt.status_code)
            if attempt.kind is not None:
                self._fail(span, attempt.kind, attempt.message)
        span.end()

    def _end_unit(self, unit: _OpenUnit, change: UnitChange) -> None:
        span = unit.span
        span.set_attribute(STATUS, change.status)
        if unit.answer:
            span.set_attributes(
                {key: self._clean(value) for key, value in answer_attributes(unit.answer).items()}
            )
            if self._options.content:
                texts = message_texts(unit.route.kind, unit.path, unit.body, unit.answer, self._scrub)
                span.set_attributes(
                    dict(zip((names.INPUT_MESSAGES, names.OUTPUT_MESSAGES), texts, strict=True))
                )
        if change.status != _GOOD:
            self._fail(span, change.code or change.status, change.message)
        self._close(unit)

    def _close(self, unit: _OpenUnit) -> None:
        """The end of a unit's span, with what it used."""
        span = unit.span
        span.set_attribute(ATTEMPTS, unit.attempts)
        if unit.input or unit.output:
            span.set_attributes({names.INPUT_TOKENS: unit.input, names.OUTPUT_TOKENS: unit.output})
        if unit.cached:
            span.set_attribute(names.CACHE_READ, unit.cached)
        if unit.cost is not None:
            span.set_attribute(COST, unit.cost)
        if unit.attempt_span is not None:
            unit.attempt_span.end()
        span.end()

    # -- attributes ---------------------------------------------------------------------------------------------------

    def _shared(self, route: RouteFacts, path: str) -> Attributes:
        """What spans and metrics have: attributes with few values."""
        name = names.provider_name(route.kind, route.profile)
        attributes: Attributes = {
            names.OPERATION: names.operation_name(route.kind, path, is_agent=route.is_agent)
        }
        if self._options.versions.latest:
            attributes[names.PROVIDER] = name
        if self._options.versions.deployed:
            attributes[names.SYSTEM] = name
        if route.host:
            attributes |= {names.SERVER_ADDRESS: route.host, names.SERVER_PORT: route.port}
        return attributes

    def _kind(self, route: RouteFacts) -> Any:
        return (
            self._otel.SpanKind.CLIENT if route.is_remote or route.is_agent else self._otel.SpanKind.INTERNAL
        )

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._scrub(value)
        return [self._scrub(each) for each in value] if isinstance(value, list) else value

    def _fail(self, span: Span, code: str, message: str | None) -> None:
        span.set_attribute(names.ERROR_TYPE, code)
        text = self._scrub(message or code)[:_LONGEST_MESSAGE]
        span.set_status(self._otel.Status(self._otel.StatusCode.ERROR, text))


def _traceparent(span: Span) -> str:
    """W3C Trace Context of a span."""
    context = span.get_span_context()
    return (
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
        if context.is_valid
        else ""
    )
