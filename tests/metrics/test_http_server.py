"""The server of metrics: what it answers, and to whom. Real connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from headway.errors import UsageError
from headway.metrics import http_server
from headway.metrics.families import UNITS
from headway.metrics.http_server import MetricsServer
from headway.metrics.open_port import MetricsAddress, MetricsSocket, parse_address
from headway.metrics.text_format import OPEN_METRICS, Exposition


@pytest.fixture
def server() -> Iterator[MetricsSocket]:
    port = MetricsSocket(MetricsAddress("127.0.0.1", 0))
    with MetricsServer(port, lambda: Exposition({UNITS: {("job", "failed"): 2}})):
        yield port


def talk(port: MetricsSocket, request: bytes) -> bytes:
    """Everything that the server says to these bytes."""
    with socket.create_connection((port.address.host, port.address.port), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def status(port: MetricsSocket, request: str) -> int:
    return int(talk(port, request.encode()).split(b" ")[1])


def test_the_metrics_are_at_one_path(server: MetricsSocket) -> None:
    answer = talk(server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b'headway_units{job="job",status="failed"} 2\n' in body
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"text/plain; version=0.0.4" in head
    accept = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {OPEN_METRICS}\r\n\r\n"
    assert talk(server, accept.encode()).endswith(b"\n# EOF\n")
    assert talk(server, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\n")
    assert status(server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == 404
    assert status(server, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "[", "127.0.0.1.evil.example", "10.0.0.7"]
)
def test_on_loopback_a_foreign_host_gets_nothing(server: MetricsSocket, host: str) -> None:
    """A page of another site that has its name resolve to this machine (DNS rebinding)."""
    answer = talk(server, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"headway_units" not in answer


def test_a_client_that_says_nothing_is_left_and_disturbs_no_other(
    server: MetricsSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_S", 0.2)
    with socket.create_connection((server.address.host, server.address.port), timeout=20) as silent:
        silent.sendall(b"GET /metrics")
        assert status(server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") == 200
        began_at = time.monotonic()
        assert silent.recv(100) == b""
        assert time.monotonic() - began_at < 10.0
    assert talk(server, b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 10_000) == b""  # A head without an end.
    assert status(server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") == 200


def test_a_taken_port_is_an_error_that_names_it(server: MetricsSocket) -> None:
    with pytest.raises(
        UsageError, match=rf"--metrics 127\.0\.0\.1:{server.address.port} cannot be opened: .* — name another"
    ):
        MetricsSocket(server.address)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("9464", "127.0.0.1:9464"),
        ("0.0.0.0:9464", "0.0.0.0:9464"),
        ("[::1]:9464", "[::1]:9464"),
        ("metrics.example:1", "metrics.example:1"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert parse_address(text).shown == shown


@pytest.mark.parametrize("text", ["", "x", ":9464", "0.0.0.0", "127.0.0.1:", "99999", "-1", "1.5"])
def test_an_address_without_a_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected PORT or HOST:PORT — for example 9464"):
        parse_address(text)
