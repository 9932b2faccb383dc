"""The transport: every fault is produced on a real socket, and comes out as an answer of the right kind."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.providers.wire import (
    CHAT,
    KEY,
    LAST,
    LONG_S,
    Admissions,
    Call,
    Script,
    asked,
    chunk,
    completion,
    event,
    http,
    opened,
    request,
    serving,
    stream_head,
)

from headway import config
from headway.core.model import Dimension, Kind, Usage
from headway.errors import ConfigError
from headway.providers.adapter import Adapter, Answer, is_unsent
from headway.providers.dialects.addresses import root_of
from headway.providers.dialects.dialect import KINDS, dialect_of
from headway.providers.http.body_reader import LONGEST_FAILURE
from headway.providers.http.error_text import duration_text
from headway.providers.http.http_adapter import HttpAdapter, adapter_for
from headway.providers.http.http_settings import HttpSettings
from headway.providers.scrubber import Secret

GOOD = json.dumps(completion()).encode()


def failed(answer: Answer, kind: Kind, *words: str) -> None:
    assert answer.outcome.kind is kind, answer
    for word in words:
        assert word in answer.outcome.message, answer.outcome.message


# -- a good answer ------------------------------------------------------------------------------------------------


async def test_an_answer_comes_back_whole() -> None:
    said = http(
        GOOD,
        x_request_id="req_1",
        x_ratelimit_limit_requests="500",
        x_ratelimit_remaining_requests="499",
        x_ratelimit_reset_requests="120ms",
    )
    answer = await asked(said)
    assert (answer.status, answer.request_id, answer.body) == (200, "req_1", GOOD)
    assert answer.outcome.kind is None
    assert answer.outcome.usage == Usage(11.0, 3.0, 4.0)
    hint = answer.outcome.hint
    assert hint is not None
    assert [(r.dimension, r.limit, r.remaining) for r in hint.reports] == [(Dimension.REQUESTS, 500.0, 499.0)]


async def test_what_is_sent() -> None:
    async with (
        serving(http(GOOD)) as wire,
        opened(wire.url, headers={"OpenAI-Organization": "org-1"}) as adapter,
    ):
        sent = request(temperature=0)
        await adapter.send(sent, LONG_S, Admissions())
    (call,) = wire.calls
    assert call.line == f"POST {CHAT} HTTP/1.1"
    assert call.body == sent.body
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.headers["content-type"] == "application/json"
    assert call.headers["openai-organization"] == "org-1"
    assert call.headers["user-agent"].startswith("headway/")
    assert "cookie" not in call.headers


async def test_without_a_key_nothing_is_said_about_one() -> None:
    async with serving(http(GOOD)) as wire, opened(wire.url, key="") as adapter:
        await adapter.send(request(), LONG_S, Admissions())
    assert "authorization" not in wire.calls[0].headers


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "chat/completions"])
@pytest.mark.parametrize(
    ("base", "root"), [("", "/v1"), ("/", "/v1"), ("/v1", "/v1"), ("/api/v1/", "/api/v1")]
)
async def test_a_path_stands_below_its_root(base: str, root: str, path: str) -> None:
    async with serving(http(GOOD)) as wire, opened(wire.url + base) as adapter:
        assert (await adapter.send(request(path), LONG_S, Admissions())).outcome.kind is None
    assert wire.calls[0].path == f"{root}/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1"),
        ("https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai"),
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1"),
        (" http://127.0.0.1:8900/ ", "http://127.0.0.1:8900/v1"),
        ("http://[::1]:8900", "http://[::1]:8900/v1"),
        ("https://host/vision", "https://host/vision/v1"),
    ],
)
def test_roots(base_url: str, root: str) -> None:
    assert root_of(base_url) == root


@pytest.mark.parametrize(
    "base_url", ["api.openai.com", "ftp://host/v1", "https://", "https://h/v1?x=1", "http://h:x/"]
)
def test_invalid_addresses(base_url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        root_of(base_url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        root_of("https://me:hunter22@host/v1")
    assert "hunter22" not in str(refused.value)


async def test_connections_are_kept() -> None:
    async with serving(http(GOOD)) as wire, opened(wire.url) as adapter:
        for _ in range(3):
            assert (await adapter.send(request(), LONG_S, Admissions())).outcome.kind is None
    assert (wire.connections, len(wire.calls)) == (1, 3)


async def test_an_adapter_that_is_not_open_says_so() -> None:
    adapter: Adapter = adapter_for("openai", "http://127.0.0.1:1", KEY)
    with pytest.raises(RuntimeError, match="not open"):
        await adapter.send(request(), LONG_S, Admissions())
    await adapter.close()


def test_kinds() -> None:
    servers = [name for name, kind in config.KINDS.items() if kind.is_server]
    assert [dialect_of(kind).kind for kind in KINDS] == list(KINDS) == sorted(servers)
    with pytest.raises(ConfigError, match=r"'gopher'.*anthropic, azure, bedrock, gemini, openai"):
        adapter_for("gopher", "https://host", KEY)


# -- good answers in odd clothes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        http(GOOD, content_type="text/html"),
        http(GOOD, content_type="nonsense;;;=\x01"),
        http(GOOD, x_ratelimit_limit_requests="NaN", x_ratelimit_remaining_requests="-1", retry_after="soon"),
        http(GOOD, x_ratelimit_reset_tokens="\xff\xfe", date="yesterday", x_request_id="\xe9" * 500),
        http(GOOD, content_security_policy="x" * 30_000),
        http(GOOD, set_cookie="\x7f=;;;"),
        http(b"\n\n \r\n\n" + GOOD + b"\n"),
        http(b"\xef\xbb\xbf" + GOOD),
        http(gzip.compress(GOOD), content_encoding="gzip"),
        b"HTTP/1.0 200\r\n\r\n" + GOOD,
    ],
    ids=lambda said: said[:60].decode("latin-1"),
)
async def test_a_good_answer_is_never_thrown_away(said: bytes) -> None:
    async def script(call: Call) -> None:
        await call.write(said)
        call.writer.close()

    answer = await asked(script)
    assert answer.outcome.kind is None, answer
    assert json.loads(answer.body) == completion()
    assert answer.outcome.usage == Usage(11.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, None),
        ({}, None),
        ("many", None),
        ({"prompt_tokens": None, "completion_tokens": 3}, Usage(0.0, 3.0, partial=True)),
        ({"prompt_tokens": -5, "completion_tokens": "3"}, None),
        (
            {"prompt_tokens": 5, "completion_tokens": True, "prompt_tokens_details": None},
            Usage(5.0, partial=True),
        ),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, Usage(5.0, partial=True)),
        ({"prompt_tokens": 10**40}, None),
        ({"prompt_tokens": 5, "prompt_tokens_details": 7}, Usage(5.0, partial=True)),
    ],
)
async def test_odd_usage_costs_no_answer(usage: Any, counted: Usage | None) -> None:
    answer = await asked(http(completion(usage=usage)))
    assert answer.outcome.kind is None
    assert answer.outcome.usage is None if counted is None else answer.outcome.usage == counted


async def test_what_is_not_quite_json_is_made_json() -> None:
    broken = GOOD.replace(b'"logprobs": null', b'"logprobs": {"a": NaN, "b": -Infinity}')
    broken = broken.replace(b"Hello", b"half \\ud83d and \xff")
    answer = await asked(http(broken))
    assert answer.outcome.kind is None
    choice = msgspec.json.decode(answer.body)["choices"][0]
    assert choice["message"]["content"] == "half � and �"
    assert choice["logprobs"] == {"a": None, "b": None}
    assert answer.outcome.usage == Usage(11.0, 3.0, 4.0)


async def test_invalid_utf8_in_a_field_that_is_not_read() -> None:
    answer = await asked(http(GOOD.replace(b"Hello", b"caf\xe9")))
    assert answer.outcome.kind is None
    assert json.loads(answer.body.decode())["choices"][0]["message"]["content"] == "caf�"


# -- no answer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (http(b""), "empty"),
        (http(GOOD[:-20]), "cut off"),
        (http(b"<html><title>Welcome</title>", content_type="text/html"), "not JSON (text/html)"),
        (http(b"ok"), "not JSON"),
        (http([1, 2]), "no chat completion"),
        (http({}), "no chat completion"),
        (http({"choices": [1]}), "no chat completion"),
        (http({"choices": "none"}), "no chat completion"),
        (http(b"[" * 100_000), "cut off or broken"),
        (http(GOOD, content_length=str(len(GOOD) + 5)), "broke off"),
        (stream_head(content_type="application/json") + chunk(GOOD[:50]), "broke off"),
        (http(b"no gzip at all", content_encoding="gzip"), "broke off"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "closed the connection before it answered"),
        (b"", "closed the connection before it answered"),
    ],
    ids=lambda part: part[:40].decode("latin-1") if isinstance(part, bytes) else "",
)
async def test_a_body_that_is_not_an_answer_is_transient(said: bytes, words: str) -> None:
    async def script(call: Call) -> None:
        await call.write(said)
        call.writer.close()

    failed(await asked(script), Kind.TRANSIENT, words)


@pytest.mark.parametrize("begun", [b"", http(GOOD)[:-30]])
async def test_a_reset_connection_is_transient(begun: bytes) -> None:
    async def script(call: Call) -> None:
        await call.write(begun)
        call.reset()

    answer = await asked(script)
    failed(answer, Kind.TRANSIENT)
    assert answer.outcome.message
    assert answer.status in (None, 200)
    assert answer.outcome.reached is bool(begun)
    assert answer.outcome.sent, "the server may have worked on it"


async def test_a_refused_connection_is_transient() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with opened(url) as adapter:
            answer = await adapter.send(request(), LONG_S, Admissions())
    failed(answer, Kind.TRANSIENT, f"no connection to {url.removeprefix('http://')} (connection refused)")
    assert not answer.outcome.reached
    assert not answer.outcome.sent


async def test_a_host_that_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nothing)
    async with opened("http://nowhere.invalid") as adapter:
        answer = await adapter.send(request(), LONG_S, Admissions())
    failed(answer, Kind.TRANSIENT, "nowhere.invalid cannot be resolved", "check base_url")
    assert not answer.outcome.reached
    assert not answer.outcome.sent


async def test_a_host_that_cannot_be_one() -> None:
    async with opened(f"http://{'x' * 70}.example") as adapter:
        answer = await adapter.send(request(), LONG_S, Admissions())
    failed(answer, Kind.TRANSIENT, "check base_url")
    assert not answer.outcome.sent


@pytest.fixture(scope="session")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    place: Path = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-keyout", place / "key", "-out", place / "cert"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(place / "cert", place / "key")
    return context


async def test_an_untrusted_certificate(self_signed: ssl.SSLContext) -> None:
    async with serving(http(GOOD), self_signed) as wire, opened(wire.url) as adapter:
        answer = await adapter.send(request(), LONG_S, Admissions())
    failed(
        answer,
        Kind.TRANSIENT,
        f"certificate of {wire.url.removeprefix('https://')} is not trusted",
        "self-signed",
        "SSL_CERT_FILE",
    )
    assert wire.calls == []
    assert not answer.outcome.sent


async def test_https_to_a_server_without_it() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(http(b"", 400))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(script, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, opened(f"https://127.0.0.1:{port}") as adapter:
        answer = await adapter.send(request(), LONG_S, Admissions())
    failed(answer, Kind.TRANSIENT, "no TLS connection")
    assert not answer.outcome.sent


@pytest.mark.parametrize("called_off", [False, True])
async def test_nothing_is_sent_while_a_connection_is_made(called_off: bool) -> None:
    """A server that accepts and never shakes hands: neither a timeout nor a cancellation makes the attempt unsure."""
    accepted, over = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await over.wait()
        writer.close()

    server = await asyncio.start_server(script, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, opened(f"https://127.0.0.1:{port}") as adapter:
        if called_off:
            sending = asyncio.ensure_future(adapter.send(request(), LONG_S, Admissions()))
            await accepted.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError) as raised:
                await sending
            assert is_unsent(raised.value)
        else:
            answer = await adapter.send(request(), 0.2, Admissions())
            failed(answer, Kind.TIMEOUT)
            assert not answer.outcome.sent
        over.set()


async def test_a_request_that_is_cancelled_after_sending_counts_as_sent() -> None:
    came = asyncio.Event()

    async def script(call: Call) -> None:
        came.set()
        await asyncio.Event().wait()

    async with serving(script) as wire, opened(wire.url) as adapter:
        sending = asyncio.ensure_future(adapter.send(request(), LONG_S, Admissions()))
        await came.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await sending
    assert not is_unsent(raised.value)


# -- time ---------------------------------------------------------------------------------------------------------


#: Over soon, but not before what the server says at once has come, also on a busy machine.
SHORT_S = 0.5


async def forever(call: Call) -> None:
    await call.reader.read()


@pytest.mark.parametrize("begun", [b"", http(GOOD)[:-30]])
async def test_a_timeout_is_an_answer(begun: bytes) -> None:
    async def script(call: Call) -> None:
        await call.write(begun)
        await forever(call)

    task = asyncio.current_task()
    assert task is not None
    answer = await asked(script, timeout_s=SHORT_S)
    failed(answer, Kind.TIMEOUT, "answer within 0.5 s")
    assert task.cancelling() == 0


async def test_a_timeout_while_a_stream_runs() -> None:
    async def script(call: Call) -> None:
        await call.write(stream_head(), chunk(event({"choices": [{"index": 0, "delta": {"content": "He"}}]})))
        await forever(call)

    failed(
        await asked(script, stream=True, timeout_s=SHORT_S), Kind.TIMEOUT, "no complete answer within 0.5 s"
    )


@pytest.mark.parametrize(
    ("seconds", "words"), [(600.0, "10 min"), (90.0, "90 s"), (0.5, "0.5 s"), (60.0, "1 min")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words


@pytest.mark.parametrize("begun", [b"", http(GOOD)[:-30], stream_head() + chunk(b": hello\n\n")])
@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_closes_the_socket(begun: bytes, stream: bool) -> None:
    came, gone = asyncio.Event(), asyncio.Event()

    async def script(call: Call) -> None:
        await call.write(begun)
        came.set()
        await call.reader.read()  # Ends when the other side is gone.
        gone.set()

    async with serving(script) as wire, opened(wire.url, stream=stream) as adapter:
        sending = asyncio.create_task(adapter.send(request(), LONG_S, Admissions()))
        await came.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with asyncio.timeout(LONG_S):
            await gone.wait()


async def test_a_cancellation_wins_over_a_timeout_of_the_same_moment() -> None:
    async with serving(forever) as wire, opened(wire.url) as adapter:
        sending = asyncio.create_task(adapter.send(request(), 0.02, Admissions()))
        asyncio.get_running_loop().call_later(0.02, sending.cancel)
        try:
            failed(await sending, Kind.TIMEOUT)
        except asyncio.CancelledError:
            assert sending.cancelled()


# -- connections that went stale ----------------------------------------------------------------------------------


class Threaded:
    """A server in a thread, which can close a connection while the client's loop stands still."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.close_now, self.closed = threading.Event(), threading.Event()
        self.requests = 0
        self._listening.settimeout(LONG_S)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._listening:
            for last in (False, True):
                try:
                    connection, _ = self._listening.accept()
                except TimeoutError:
                    return
                with connection:
                    self._answer(connection)
                    if not last:
                        self.close_now.wait(LONG_S)
                self.closed.set()

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while not data.endswith(b"}"):
            data += connection.recv(65_536)
        self.requests += 1
        connection.sendall(http(GOOD))

    def join(self) -> None:
        self._thread.join(LONG_S)


async def test_a_connection_that_was_closed_unnoticed_costs_no_attempt() -> None:
    server = Threaded()
    async with opened(server.url) as adapter:
        assert (await adapter.send(request(), LONG_S, Admissions())).outcome.kind is None
        server.close_now.set()
        server.closed.wait(LONG_S)  # Blocks the loop: it cannot see the end that is in the socket now.
        assert (await adapter.send(request(), LONG_S, Admissions())).outcome.kind is None
    server.join()
    assert server.requests == 2


async def test_nothing_is_sent_twice() -> None:
    async def script(call: Call) -> None:
        if len(wire.calls) == 1:
            await call.write(http(GOOD))
        else:
            call.writer.close()

    async with serving(script) as wire, opened(wire.url) as adapter:
        assert (await adapter.send(request(), LONG_S, Admissions())).outcome.kind is None
        failed(await adapter.send(request(), LONG_S, Admissions()), Kind.TRANSIENT)
        assert len(wire.calls) == 2


# -- refusals -----------------------------------------------------------------------------------------------------


def error(code: str, message: str = "No.") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "type": "error"}}


@pytest.mark.parametrize(
    ("said", "kind", "source", "wait"),
    [
        (http(b"", 429, retry_after="7"), Kind.RATE, "headers", 7.0),
        (http(error("rate_limit_exceeded", "Please try again in 3s."), 429), Kind.RATE, "body", 3.0),
        (http(error("rate_limit_exceeded", "In 3s."), 429, retry_after="7"), Kind.RATE, "headers", 7.0),
        (http(error("insufficient_quota"), 429, retry_after="7"), Kind.QUOTA, "body", None),
        (http(b"", 429), Kind.RATE, "status", None),
        (http(b"<html>", 503), Kind.OVERLOAD, "status", None),
        (http(b"", 529, retry_after_ms="1500"), Kind.OVERLOAD, "headers", 1.5),
    ],
)
async def test_where_a_limit_was_met(said: bytes, kind: Kind, source: str, wait: float | None) -> None:
    answer = await asked(said)
    failed(answer, kind)
    assert answer.rate_limit is not None
    assert answer.rate_limit.source == source
    if wait is not None:
        assert answer.rate_limit.retry_after_s == pytest.approx(wait, abs=0.01)
        assert answer.outcome.hint is not None
        assert answer.outcome.hint.retry_after_s == answer.rate_limit.retry_after_s
    assert answer.rate_limit.message == answer.outcome.message
    assert answer.rate_limit.detected_utc > 1.7e9


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (http(error("invalid_api_key"), 401), Kind.AUTH),
        (http(error("model_not_found"), 404), Kind.AUTH),
        (http(error("context_length_exceeded"), 400), Kind.TOO_LARGE),
        (http(error("bad"), 400), Kind.INVALID),
        (http(b"oops", 500), Kind.TRANSIENT),
    ],
)
async def test_other_refusals(said: bytes, kind: Kind) -> None:
    answer = await asked(said)
    failed(answer, kind)
    assert answer.rate_limit is None
    assert answer.body == said.partition(b"\r\n\r\n")[2]


def bare_head(status: int, **headers: str) -> bytes:
    """A head that ends a response: nothing follows."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    length = "" if status < 200 or status in (204, 304) else "content-length: 0\r\n"
    return f"HTTP/1.1 {status} \x1b[31mSaid\r\n{lines}{length}\r\n".encode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (101, Kind.INVALID, "101 Switching Protocols"),
        (202, Kind.INVALID, "202 Accepted"),
        (204, Kind.INVALID, "204 No Content"),
        (205, Kind.INVALID, "205 Reset Content"),
        (300, Kind.INVALID, "300 Multiple Choices"),
        (304, Kind.INVALID, "304 Not Modified"),
        (306, Kind.INVALID, "306"),
        (399, Kind.INVALID, "399"),
        (405, Kind.INVALID, "405 Method Not Allowed"),
        (426, Kind.INVALID, "426 Upgrade Required"),
        (501, Kind.INVALID, "501 Not Implemented"),
        (600, Kind.TRANSIENT, "600"),
        (999, Kind.TRANSIENT, "999"),
    ],
)
async def test_a_status_that_no_chat_api_sends(status: int, kind: Kind, words: str, stream: bool) -> None:
    answer = await asked(bare_head(status), stream=stream)
    outcome = answer.outcome
    assert outcome.message == f"the server answered {words}, which no chat API sends; check base_url"
    assert (outcome.kind, answer.status) == (kind, status)
    assert outcome.worked is (status < 300 and status != 101), "a 2xx may have to be paid for"


@pytest.mark.parametrize("status", [101, 204, 304])
@pytest.mark.parametrize("more", [{"connection": "upgrade", "upgrade": "websocket"}, {"content-length": "7"}])
async def test_a_status_without_a_body_is_not_waited_for(status: int, more: dict[str, str]) -> None:
    head = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in more.items())
    async with serving(head.encode() + b"\r\n") as wire, opened(wire.url) as adapter:
        for _ in range(2):
            answer = await adapter.send(request(), LONG_S, Admissions())
            assert (answer.outcome.kind, answer.status) == (Kind.INVALID, status)
            assert "which no chat API sends" in answer.outcome.message


@pytest.mark.parametrize("status", [201, 202, 203, 206])
async def test_an_answer_counts_with_any_2xx_status(status: int) -> None:
    answer = await asked(http(completion(), status))
    assert (answer.outcome.kind, answer.status) == (None, status)
    assert json.loads(answer.body) == completion()


@pytest.mark.parametrize("status", [300, 405, 501, 999])
async def test_an_odd_status_that_says_why_is_quoted(status: int) -> None:
    answer = await asked(http({"error": {"message": "POST is not for this"}}, status))
    assert "POST is not for this" in answer.outcome.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with (
        serving(http(b"moved", status, location="/elsewhere?token=abc")) as wire,
        opened(wire.url) as adapter,
    ):
        answer = await adapter.send(request(), LONG_S, Admissions())
    failed(answer, Kind.INVALID, f"HTTP {status}", "/elsewhere,", "check base_url")
    assert len(wire.calls) == 1


async def test_a_refusal_that_breaks_off_is_a_refusal() -> None:
    async def script(call: Call) -> None:
        await call.write(http(b"", 429, retry_after="7", content_length="1000"))
        call.writer.close()

    answer = await asked(script)
    failed(answer, Kind.RATE)
    assert answer.rate_limit is not None
    assert answer.rate_limit.retry_after_s == 7.0


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (error("rate_limit_exceeded"), Kind.RATE),
        ({"error": {"code": 429, "message": "slow"}}, Kind.RATE),
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, Kind.OVERLOAD),
        ({"error": "something"}, Kind.TRANSIENT),
        (completion(**error("rate_limit_exceeded")), Kind.RATE),
    ],
)
async def test_an_error_with_status_200_is_an_error(body: Any, kind: Kind) -> None:
    answer = await asked(http(body))
    failed(answer, kind)
    assert answer.status == 200
    assert answer.outcome.message
    assert (answer.rate_limit is not None) is (kind is not Kind.TRANSIENT)


async def test_a_failures_body_is_bounded() -> None:
    answer = await asked(http(b"x" * 300_000, 500))
    assert len(answer.body) == LONGEST_FAILURE


# -- streams ------------------------------------------------------------------------------------------------------


def pieces(text: str = "Hello") -> list[bytes]:
    """The events of `completion(text)`."""
    top = {name: value for name, value in completion().items() if name not in ("choices", "usage")}
    top["object"] = "chat.completion.chunk"
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": letter} for letter in text]
    chunks: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas
    ]
    chunks.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
    told = [event(top | {"choices": [one], "usage": None}) for one in chunks]
    return [*told, event(top | {"choices": [], "usage": completion()["usage"]}), event("[DONE]")]


def whole_stream(**headers: str) -> bytes:
    return stream_head(**headers) + chunk(*pieces()) + LAST


async def test_a_streamed_answer_is_the_unstreamed_one() -> None:
    admissions = Admissions()
    async with serving(whole_stream()) as wire, opened(wire.url, stream=True) as adapter:
        for _ in range(2):
            answer = await adapter.send(request(), LONG_S, admissions)
            assert answer.outcome.kind is None
            assert json.loads(answer.body) == completion()
            assert answer.outcome.usage == Usage(11.0, 3.0, 4.0)
    assert wire.connections == 1, "a stream that ended leaves its connection usable"
    assert len(admissions.told) == 2
    said = wire.calls[0].said
    assert said["stream"] is True
    assert said["stream_options"] == {"include_usage": True}
    assert wire.calls[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("content_type", "before"),
    [("text/event-stream; charset=utf-8", b""), ("text/plain", chunk(pieces()[0]))],
    ids=["with the headers", "with the first event"],
)
async def test_admission_comes_before_the_rest(content_type: str, before: bytes) -> None:
    admissions = Admissions()

    async def script(call: Call) -> None:
        head = stream_head(
            content_type=content_type, x_ratelimit_limit_requests="500", x_ratelimit_remaining_requests="499"
        )
        await call.write(head, before)
        await admissions.came.wait()
        await call.write(chunk(*pieces()[bool(before) :]), LAST)

    answer = await asked(script, stream=True, admitted=admissions)
    assert answer.outcome.kind is None
    ((hint, usage),) = admissions.told
    assert usage is None
    assert hint is not None
    assert hint.reports[0].limit == 500.0
    (early,), late = hint.reports, answer.outcome.hint
    assert late is not None
    assert msgspec.structs.replace(late.reports[0], minute_left_s=early.minute_left_s) == early


@pytest.mark.parametrize(
    ("url", "kind", "stream", "streams"),
    [
        ("", "openai", None, True),
        ("", "anthropic", None, True),
        ("https://eu.api.openai.com/v1", "openai", None, True),
        ("https://api.groq.com/openai/v1", "openai", None, False),
        ("http://127.0.0.1:8900/v1", "openai", None, False),
        ("http://127.0.0.1:8900/v1", "anthropic", None, False),
        ("http://127.0.0.1:8900/v1", "openai", True, True),
        ("", "openai", False, False),
    ],
)
def test_where_requests_become_streams(url: str, kind: str, stream: bool | None, streams: bool) -> None:
    assert adapter_for(kind, url, KEY, stream=stream).streams is streams


async def test_a_request_that_wants_a_stream_gets_it_assembled() -> None:
    sent = request(stream=True)
    async with serving(whole_stream()) as wire, opened(wire.url) as adapter:
        answer = await adapter.send(sent, LONG_S, Admissions())
    assert json.loads(answer.body) == completion()
    assert wire.calls[0].body == sent.body


@pytest.mark.parametrize(
    "sent",
    [request(stream=False), request(modalities=["text", "audio"]), request("/v1/embeddings", input="x")],
)
async def test_a_request_that_forbids_it_stays_whole(sent: Any) -> None:
    said = http({"data": [], "usage": {"prompt_tokens": 2}, "choices": []})
    async with serving(said) as wire, opened(wire.url, stream=True) as adapter:
        answer = await adapter.send(sent, LONG_S, Admissions())
    assert answer.outcome.kind is None
    assert answer.outcome.usage == Usage(2.0, partial=not sent.path.endswith("embeddings"))
    assert wire.calls[0].body == sent.body


async def test_an_unrequested_stream_is_understood() -> None:
    answer = await asked(whole_stream())
    assert answer.outcome.kind is None
    assert json.loads(answer.body) == completion()


async def test_a_whole_answer_to_a_stream_is_an_answer() -> None:
    admissions = Admissions()
    answer = await asked(http(b"\n\n" + GOOD), stream=True, admitted=admissions)
    assert answer.outcome.kind is None
    assert answer.body == GOOD
    assert admissions.told == []


async def test_a_refusal_of_a_stream_admits_nothing() -> None:
    admissions = Admissions()
    answer = await asked(http(b"", 429, retry_after="7"), stream=True, admitted=admissions)
    failed(answer, Kind.RATE)
    assert admissions.told == []


def ends(call: Call) -> None:
    call.writer.close()


def resets(call: Call) -> None:
    call.reset()


@pytest.mark.parametrize("how", [ends, resets])
@pytest.mark.parametrize(("sent", "good"), [(0, False), (3, False), (-2, True), (-1, True)])
async def test_a_stream_that_breaks_off(how: Callable[[Call], None], sent: int, good: bool) -> None:
    admissions = Admissions()

    async def script(call: Call) -> None:
        # A reset takes along what was not read yet. Where the type is odd, admission waits for the first piece.
        await call.write(stream_head(content_type="text/odd"), chunk(*pieces()[:sent], b": so far\n\n"))
        await admissions.came.wait()
        how(call)

    answer = await asked(script, stream=True, admitted=admissions)
    if good:
        assert answer.outcome.kind is None, answer
        assert json.loads(answer.body)["choices"] == completion()["choices"]
    else:
        failed(answer, Kind.TRANSIENT)
        assert answer.status == 200


@pytest.mark.parametrize(("sent", "good"), [(0, False), (3, False), (-1, True)])
async def test_a_stream_that_ends_in_good_form_but_too_early(sent: int, good: bool) -> None:
    answer = await asked(stream_head() + chunk(*pieces()[:sent], b": so far\n\n") + LAST, stream=True)
    if good:
        assert answer.outcome.kind is None
    else:
        failed(answer, Kind.TRANSIENT, "ended before the answer did")


async def test_a_stream_whose_connection_stays_open_after_its_last_word() -> None:
    async def script(call: Call) -> None:
        await call.write(stream_head(), chunk(*pieces()))
        await forever(call)

    answer = await asked(script, stream=True)
    assert json.loads(answer.body) == completion()


async def test_an_answer_that_is_whole_when_time_is_up_is_an_answer() -> None:
    async def script(call: Call) -> None:
        await call.write(stream_head(), chunk(*pieces()[:-1]))
        await forever(call)

    answer = await asked(script, stream=True, timeout_s=SHORT_S)
    assert json.loads(answer.body) == completion()


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (event(error("rate_limit_exceeded", "Try again in 2s.")), Kind.RATE),
        (event(error("server_error"), "error"), Kind.TRANSIENT),
        (event({"error": {"message": "Overloaded", "type": "overloaded_error"}}), Kind.OVERLOAD),
        (event("{broken"), Kind.TRANSIENT),
        (event("[1]"), Kind.TRANSIENT),
    ],
)
async def test_an_error_in_mid_stream(last: bytes, kind: Kind) -> None:
    answer = await asked(stream_head() + chunk(*pieces()[:3], last) + LAST, stream=True)
    failed(answer, kind)
    assert answer.outcome.message
    assert (answer.rate_limit is not None) is (kind is not Kind.TRANSIENT)


async def test_where_streaming_is_not_allowed_requests_go_unstreamed_from_then_on() -> None:
    refusal = {"error": {"message": "Verify to stream.", "param": "stream", "code": "unsupported_value"}}

    async def script(call: Call) -> None:
        await call.write(http(refusal, 400) if call.said.get("stream") else http(GOOD))

    async with serving(script) as wire, opened(wire.url, stream=True) as adapter:
        failed(
            await adapter.send(request(), LONG_S, Admissions()), Kind.TRANSIENT, "streaming is not allowed"
        )
        assert (await adapter.send(request(), LONG_S, Admissions())).outcome.kind is None
    assert "stream" not in wire.calls[1].said


async def test_anthropic_admits_with_the_input_counted() -> None:
    admissions = Admissions()
    start = {
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }

    async def script(call: Call) -> None:
        await call.write(stream_head(request_id="req_a"), chunk(b": ping\n\n"))
        await call.write(chunk(event({"type": "message_start", "message": start}, "message_start")))
        await admissions.came.wait()
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
        await call.write(
            chunk(event(end, "message_delta"), event({"type": "message_stop"}, "message_stop")), LAST
        )

    sent = request("/v1/messages", max_tokens=5)
    answer = await asked(script, sent, kind="anthropic", stream=True, admitted=admissions)
    assert answer.outcome.kind is None
    assert answer.request_id == "req_a"
    assert admissions.told == [(None, Usage(7.0, 1.0))]
    assert answer.outcome.usage == Usage(7.0, 9.0)


async def test_the_usage_of_a_broken_stream_is_partial() -> None:
    start = {
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }

    async def script(call: Call) -> None:
        await call.write(
            stream_head(), chunk(event({"type": "message_start", "message": start}, "message_start"))
        )
        call.reset()

    answer = await asked(script, request("/v1/messages", max_tokens=5), kind="anthropic", stream=True)
    failed(answer, Kind.TRANSIENT)
    assert answer.outcome.usage == Usage(7.0, 1.0, partial=True)


async def test_anthropic_overloaded_in_mid_stream() -> None:
    last = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    said = stream_head() + chunk(event(last, "error")) + LAST
    admissions = Admissions()
    answer = await asked(said, request("/v1/messages"), kind="anthropic", stream=True, admitted=admissions)
    failed(answer, Kind.OVERLOAD, "Overloaded")
    assert admissions.told == []


# -- secrets ------------------------------------------------------------------------------------------------------

ODD_KEY = "AKID/with+odd/characters=="
FURTHER = "proxy-token-123456"


def echoing(status: int, key: str) -> Script:
    async def script(call: Call) -> None:
        said = (
            {"error": {"message": f"bad key {key} {FURTHER}", "code": key}}
            if status != 200
            else completion(key)
        )
        body = json.dumps(said).replace(key, key.replace("/", "\\/"), 1).encode()
        await call.write(http(body, status, x_request_id=f"req-{key}", location=f"https://h/{key}"))

    return script


@pytest.mark.parametrize("key", [KEY, ODD_KEY])
@pytest.mark.parametrize("status", [200, 302, 400, 401, 429, 500])
async def test_a_key_that_is_echoed_shows_nowhere(status: int, key: str) -> None:
    async with (
        serving(echoing(status, key)) as wire,
        opened(wire.url, key=key, headers={"X-Proxy-Token": FURTHER}) as adapter,
    ):
        answer = await adapter.send(request(), LONG_S, Admissions())
        shown = repr(adapter) + repr(vars(adapter)["_dialect"])
    for secret in (key, FURTHER):
        for text in (repr(answer), msgspec.json.encode(answer).decode(), answer.body.decode(), shown):
            assert secret not in text
            assert secret.replace("/", "\\/") not in text
    assert b"***" in answer.body


async def test_a_key_that_is_echoed_in_pieces_shows_nowhere() -> None:
    said = stream_head() + chunk(*pieces(f"your key is {KEY}!")) + LAST
    answer = await asked(said, stream=True)
    assert answer.outcome.kind is None
    assert KEY not in answer.body.decode()
    assert "your key is ***!" in answer.body.decode()


async def test_a_key_at_the_edge_of_what_is_kept_is_not_cut_in_two() -> None:
    answer = await asked(http(b"x" * (LONGEST_FAILURE - 10) + KEY.encode(), 500))
    assert KEY[:8].encode() not in answer.body


@pytest.mark.parametrize("key", [KEY, ODD_KEY])
@pytest.mark.parametrize("status", [200, 401, 429, 500])
@pytest.mark.parametrize("whole", [True, False])
async def test_an_error_that_quotes_the_key_in_json_escapes(key: str, status: int, whole: bool) -> None:
    """Before, a message had the beginning of the key, and the record all of it."""
    for step in (1, 2, 100):
        quoted = "".join(f"\\u{ord(c):04x}" if n % step == 0 else c for n, c in enumerate(key))
        quoted = quoted.replace("/", "\\/")
        body = f'{{"error": {{"message": "Incorrect API key provided: {quoted}", "code": "{quoted}"}}}}'
        answer = await asked(http(body[: None if whole else -2].encode(), status), key=key)
        limit = answer.rate_limit
        assert answer.outcome.kind is not None
        for text in (answer.outcome.message, answer.body.decode(), "" if limit is None else limit.message):
            unescaped = re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text).replace("\\", "")
            assert not any(key[at : at + 4] in unescaped for at in range(len(key) - 4)), text


async def test_no_fault_tells_the_key(caplog: pytest.LogCaptureFixture) -> None:
    async def script(call: Call) -> None:
        await call.write(f"HTTP/1.1 {KEY}\r\n\r\n".encode())
        call.writer.close()

    caplog.set_level("DEBUG")
    answer = await asked(script)
    failed(answer, Kind.TRANSIENT)
    assert KEY not in repr(answer)
    assert KEY not in caplog.text


def test_settings_hide_their_key() -> None:
    settings = HttpSettings("https://host/v1", Secret(KEY), headers={"Authorization": KEY})
    adapter = HttpAdapter(dialect_of("openai"), settings)
    for text in (repr(settings), str(settings), repr(settings.key), repr(adapter)):
        assert KEY not in text
    with pytest.raises(TypeError):
        msgspec.json.encode(settings)


@pytest.mark.parametrize("key", ["sk-secret\nX-Other: 1", "sk-sécret-0123"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        adapter_for("openai", "https://host", key)
    assert key not in str(refused.value)


def test_a_header_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError, match="X-Bad") as refused:
        adapter_for("openai", "https://host", KEY, headers={"X-Bad": "value-1\r\nX: y"})
    assert "value-1" not in str(refused.value)


async def test_a_placeholder_key_takes_no_word_out_of_an_answer() -> None:
    answer = await asked(http(completion("EMPTY is a word")), key="EMPTY")
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "EMPTY is a word"


@pytest.mark.parametrize(("profile", "asked_for"), [("", True), ("groq", True), ("mistral", False)])
async def test_a_stream_is_asked_for_its_usage_where_that_is_allowed(profile: str, asked_for: bool) -> None:
    """Mistral refuses the question with 422, and tells it unasked."""
    seen: list[Call] = []

    async def script(call: Call) -> None:
        seen.append(call)
        await call.write(http(GOOD))

    answer = await asked(script, stream=True, profile=profile)
    assert answer.outcome.kind is None
    assert seen[0].said["stream"] is True
    assert ("stream_options" in seen[0].said) is asked_for
