"""An OTLP/HTTP receiver, and a provider that remembers the headers of its requests: two small servers on loopback."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def value_of(value: Any) -> Any:
    """A Python value of an AnyValue."""
    which = value.WhichOneof("value")
    if which == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return getattr(value, which)


class ReceivedSpan:
    """A span, with its attributes as Python values."""

    def __init__(self, span: Span) -> None:
        self.name, self.kind = span.name, span.kind
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.attributes = {one.key: value_of(one.value) for one in span.attributes}
        self.took_s = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        self.is_error, self.message = span.status.code == 2, span.status.message
        self.links = [link.span_id.hex() for link in span.links]


class Receiver:
    """What was received: spans, metrics with their points, resources; and all bytes, for a search."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.resources: list[dict[str, Any]] = []
        self.bytes = b""
        self.headers: list[dict[str, str]] = []
        #: The status of the answers.
        self.status = 200

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.bytes += body
        self.headers.append(headers)
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append({one.key: value_of(one.value) for one in group.resource.attributes})
                self.spans += [ReceivedSpan(span) for scope in group.scope_spans for span in scope.spans]
            return
        for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in metrics.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    points = [
                        {one.key: value_of(one.value) for one in point.attributes}
                        for point in data.data_points
                    ]
                    self.metrics[metric.name] = points

    def named(self, start: str) -> list[ReceivedSpan]:
        """The spans whose names begin so."""
        return [span for span in self.spans if span.name.startswith(start)]


@contextmanager
def receiving() -> Iterator[tuple[Receiver, str]]:
    """A receiver, and its address."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.take(self.path, body, dict(self.headers))
            answer(self, receiver.status, b"")

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as url:
        yield receiver, url


@contextmanager
def providing() -> Iterator[tuple[list[dict[str, str]], str]]:
    """A provider that answers the first request of each unit with 500, and the headers of its requests."""
    seen: list[dict[str, str]] = []
    known: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({name.lower(): value for name, value in self.headers.items()})
            prompt = json.dumps(asked["messages"])
            if prompt not in known:
                known.add(prompt)
                answer(
                    self,
                    500,
                    json.dumps({"error": {"message": f"broken; {self.headers['Authorization']}"}}).encode(),
                )
                return
            message = {"role": "assistant", "content": "the answer"}
            body = {
                "id": "chatcmpl-1", "object": "chat.completion", "model": asked["model"] + "-2026",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
            }  # fmt: skip
            answer(self, 200, json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as url:
        yield seen, url


def answer(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on loopback, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
