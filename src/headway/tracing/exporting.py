"""The OpenTelemetry SDK and its OTLP/HTTP exporters: set up from the standard variables, and shut down within a bounded time.

Spans and metrics leave in threads of the SDK. A queue that is full loses spans, and a server that cannot be reached loses all of them:
neither is noticed by the run, except as one line.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from headway.errors import UsageError
from headway.install_hint import install_command

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

#: The time for what is left when the run has ended. A server that does not answer must not keep the terminal.
LAST_S: Final = 8.0
_PROTOCOL: Final = "http/protobuf"
_LOGGER: Final = "opentelemetry"
#: Addresses in what the SDK logs: some services take their token in the path, the query or before the host.
_ADDRESS: Final = re.compile(r"(https?://)(?:[^\s/'\"@]*@)?([^\s/'\"?#)]+)[^\s'\")]*")
_PATH: Final = re.compile(r"(\burl: )[^\s'\")]*")


class Exporting:
    """The SDK, from its creation to `close`. `failed` gets the first line that the SDK logs, in any thread."""

    def __init__(self, resource: Mapping[str, str], failed: Callable[[str], None]) -> None:
        _check_protocol(os.environ)
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise UsageError("--otel needs OpenTelemetry", hint=f"run: {install_command('otel')}") from None

        self._log = _LogLines(failed)
        everything = Resource.create(dict(resource))
        self._traces: TracerProvider | None = None
        self._meters: MeterProvider | None = None
        if _is_wanted("OTEL_TRACES_EXPORTER"):
            self._traces = TracerProvider(resource=everything, shutdown_on_exit=False)
            self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        if _is_wanted("OTEL_METRICS_EXPORTER"):
            reader = PeriodicExportingMetricReader(OTLPMetricExporter())
            self._meters = MeterProvider([reader], resource=everything, shutdown_on_exit=False)
        version = resource["service.version"]
        traces = self._traces or trace.NoOpTracerProvider()
        meters = self._meters or metrics.NoOpMeterProvider()
        self.tracer: Any = traces.get_tracer("headway", version)
        self.meter: Any = meters.get_meter("headway", version)

    def parent(self) -> Any:
        """The context of the trace that started this command (the variable TRACEPARENT); an empty one without it."""
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {
            name.lower(): value for name in ("TRACEPARENT", "TRACESTATE") if (value := os.environ.get(name))
        }
        return TraceContextTextMapPropagator().extract(carrier, context=Context())

    def close(self) -> None:
        """Send what is left, and end the threads. Gives up after `LAST_S`."""
        last = threading.Thread(target=self._shut_down, name="headway-otel", daemon=True)
        last.start()
        last.join(LAST_S)
        if last.is_alive():
            self._log.failed("the last spans were not sent in time")
        self._log.close()

    def _shut_down(self) -> None:
        for provider in (self._traces, self._meters):
            if provider is not None:
                with suppress(Exception):  # The run has ended: there is nothing to save.
                    provider.shutdown()


class _LogLines(logging.Handler):
    """Takes what the SDK logs, which would otherwise be printed in the middle of a display. The first line is passed on."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._failed: Callable[[str], None] | None = failed
        self._logger = logging.getLogger(_LOGGER)
        self._propagated = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.failed(record.getMessage())

    def failed(self, text: str) -> None:
        tell, self._failed = self._failed, None
        if tell is not None:
            tell(f"warning: OpenTelemetry: {without_paths(' '.join(text.split()))[:300]}")

    def close(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated
        super().close()


def without_paths(text: str) -> str:
    """The text, with nothing of an address but its host and port."""
    return _PATH.sub(r"\1…", _ADDRESS.sub(r"\1\2", text))


def _is_wanted(variable: str) -> bool:
    return os.environ.get(variable, "otlp").strip().lower() != "none" and (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
    )


def _check_protocol(environ: Mapping[str, str]) -> None:
    for name in (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    ):
        if (protocol := environ.get(name, _PROTOCOL)) != _PROTOCOL:
            raise UsageError(
                f"{name}={protocol}: Headway sends {_PROTOCOL}",
                hint=f"leave it out, or set it to {_PROTOCOL}",
            )
