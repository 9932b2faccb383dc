"""A provider that sends too much: what is read and kept in memory has ceilings, and the error names them.

Servers are real sockets. Memory is what Python allocated at most while the answer was read; the ceiling is lowered, so
that a small attack shows what a large one would do.
"""

from __future__ import annotations

import asyncio
import json
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterable

import pytest
from tests.providers.wire import (
    CHAT,
    KEY,
    LAST,
    Admissions,
    Call,
    chunk,
    completion,
    event,
    http,
    opened,
    request,
    serving,
    stream_head,
)

from headway.core.model import Kind
from headway.providers.adapter import Answer
from headway.providers.dialects import lenient_json
from headway.providers.dialects.part_counter import MOST_FIELDS, MOST_PARTS
from headway.providers.http.body_reader import LONGEST_FAILURE, STREAM_FACTOR

MOST = 1_000_000
#: What a server would send at most. Headway stops reading long before, so it only bounds a test that fails.
ENDLESS = 400_000_000
#: Copies, decoded text, buffers of sockets and of aiohttp: a few times the ceiling, and far below what is sent.
MEMORY = 12 * MOST
HEADERS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"


class Attack:
    """What a server says without end, and how much of it was taken."""

    def __init__(self, head: bytes, piece: bytes, most: int = ENDLESS) -> None:
        self.head, self.piece, self.most = head, piece, most
        self.sent = 0

    async def __call__(self, call: Call) -> None:
        await call.write(self.head)
        while self.sent < self.most:
            await call.write(self.piece)
            self.sent += len(self.piece)
        await call.write(LAST)


async def attacked(
    script: Callable[[Call], Awaitable[None]] | bytes,
    *,
    stream: bool = False,
    memory: int = MEMORY,
    most: int = MOST,
    kind: str = "openai",
    path: str = CHAT,
) -> Answer:
    """One request; fails where more memory than this was in use."""
    async with (
        serving(script) as wire,
        opened(wire.url, kind, stream=stream, max_answer_bytes=most) as adapter,
    ):
        tracemalloc.start()
        try:
            answer = await adapter.send(request(path), 60.0, Admissions())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < memory, f"{peak:,} bytes"
    return answer


def too_long(answer: Answer, what: str = "the answer is longer than 1 MB") -> None:
    outcome = answer.outcome
    assert outcome.kind is Kind.INVALID, outcome
    assert outcome.message == f"HTTP 200, but {what}: raise max_answer_bytes of this provider to take it"
    assert outcome.worked, "it may have to be paid for"
    assert answer.body == b""


def zipped(parts: Iterable[bytes], wbits: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return b"".join([*map(packer.compress, parts), packer.flush()])


ENCODINGS = {"gzip": 31, "deflate": 15}
BOMB = [b'{"choices":[{"message":{"content":"', *[b"a" * 1_000_000] * 60, b'"}}]}']


# -- answers ------------------------------------------------------------------------------------------------------


async def test_an_answer_that_says_how_long_it_is_is_not_read() -> None:
    attack = Attack(HEADERS + b"content-length: 400000000\r\n\r\n", b" " * 65_536)
    too_long(await attacked(attack))
    assert attack.sent < 10 * MOST


@pytest.mark.parametrize("stream", [False, True])
async def test_an_endless_answer_is_cut(stream: bool) -> None:
    attack = Attack(HEADERS + CHUNKED + b"\r\n" + chunk(b'{"a":"'), chunk(b"a" * 65_536))
    too_long(await attacked(attack, stream=stream))
    assert attack.sent < 10 * MOST


async def test_an_answer_without_an_end_of_its_own_is_cut() -> None:
    attack = Attack(HEADERS + b"connection: close\r\n\r\n", b" " * 65_536)
    too_long(await attacked(attack))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_small_body_that_becomes_a_huge_one_is_cut(encoding: str, stream: bool) -> None:
    body = zipped(BOMB, ENCODINGS[encoding])
    assert len(body) < MOST / 10
    too_long(await attacked(http(body, content_encoding=encoding), stream=stream))


async def test_a_bomb_in_a_stream_is_cut() -> None:
    body = zipped([b"data: ", *BOMB, b"\n\n"], ENCODINGS["gzip"])
    answer = await attacked(stream_head(content_encoding="gzip") + chunk(body) + LAST, stream=True)
    too_long(answer, "an event of the stream is longer than 1 MB")


@pytest.mark.parametrize("encoding", [*ENCODINGS, "identity"])
@pytest.mark.parametrize("close", [False, True])
async def test_an_answer_as_long_as_the_ceiling_is_accepted(encoding: str, close: bool) -> None:
    empty = len(json.dumps(completion("")).encode())
    body = json.dumps(completion("a" * (MOST - empty))).encode()
    assert len(body) == MOST
    packed = zipped([body], ENCODINGS[encoding]) if encoding in ENCODINGS else body

    async def script(call: Call) -> None:
        await call.write(
            http(packed, content_encoding=encoding, connection="close" if close else "keep-alive")
        )
        if close:
            call.writer.close()

    answer = await attacked(script)
    assert answer.outcome.kind is None
    assert answer.body == body


async def test_no_ceiling() -> None:
    body = json.dumps(completion("a" * MOST)).encode()
    answer = await attacked(http(body), most=0)
    assert answer.body == body


async def test_an_answer_in_crumbs_takes_no_more_memory_than_in_one_piece() -> None:
    body = json.dumps(completion("a" * 20_000)).encode()

    async def script(call: Call) -> None:
        await call.write(HEADERS + CHUNKED + b"\r\n")
        for place in range(len(body)):
            await call.write(chunk(body[place : place + 1]))
            if place % 100 == 0:
                await asyncio.sleep(0)
        await call.write(LAST)

    answer = await attacked(script)
    assert answer.body == body


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_of_an_endless_error_the_beginning_is_read(stream: bool) -> None:
    attack = Attack(b"HTTP/1.1 503 No\r\n" + CHUNKED + b"\r\n", chunk(b"e" * 65_536))
    answer = await attacked(attack, stream=stream)
    assert (answer.outcome.kind, answer.status) == (Kind.OVERLOAD, 503)
    assert len(answer.body) == LONGEST_FAILURE
    assert attack.sent < 10 * MOST, "the connection is closed"


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_of_an_error_that_is_a_bomb_the_beginning_is_read(encoding: str) -> None:
    said = http(zipped([b"e" * 60_000_000], ENCODINGS[encoding]), 400, content_encoding=encoding)
    answer = await attacked(said)
    assert (answer.outcome.kind, answer.status) == (Kind.INVALID, 400)
    assert answer.body == b"e" * LONGEST_FAILURE
    assert not answer.outcome.worked


async def test_a_key_that_is_cut_in_two_where_the_reading_ends_is_not_kept() -> None:
    """Blotted keys make a body shorter: what stood behind the part that is kept moves into it."""
    for shift in range(len(KEY)):
        body = b"x" * shift + KEY.encode() * 4000
        answer = await attacked(http(body, 500))
        assert KEY[:4].encode() not in answer.body


# -- streams ------------------------------------------------------------------------------------------------------


def deltas(text: str, count: int = 100) -> bytes:
    return chunk(event({"choices": [{"index": 0, "delta": {"content": text}}]}) * count)


async def test_an_endless_stream_is_cut_when_its_answer_is_too_long() -> None:
    attack = Attack(stream_head(), deltas("a" * 2000, 10))
    too_long(await attacked(attack, stream=True))
    assert attack.sent < 10 * MOST


@pytest.mark.parametrize(
    "piece",
    [
        deltas("a"),
        deltas(""),
        chunk(b": wait\n\n" * 1000),
        chunk(b"\n" * 1000),
        chunk(b"event: x\n\n" * 1000),
    ],
    ids=["crumbs", "nothing", "comments", "blanks", "names"],
)
async def test_a_stream_that_leads_nowhere_is_cut(piece: bytes) -> None:
    attack = Attack(stream_head() + deltas("a", 1), piece)
    too_long(await attacked(attack, stream=True), f"the stream is longer than {STREAM_FACTOR} MB")
    assert attack.sent < 20 * MOST


@pytest.mark.parametrize(
    "piece",
    [
        chunk(b"data:\n" * 10_000),
        chunk(b"data: a\n" * 10_000),
        chunk(b"data: a" * 1000),
        chunk(b"a" * 10_000),
    ],
    ids=["empty lines", "lines", "one line", "garbage"],
)
async def test_an_endless_event_is_cut(piece: bytes) -> None:
    attack = Attack(stream_head() + chunk(b"data: "), piece)
    too_long(await attacked(attack, stream=True), "an event of the stream is longer than 1 MB")
    assert attack.sent < 10 * MOST


async def test_blanks_before_a_stream_have_an_end() -> None:
    too_long(
        await attacked(Attack(stream_head(), chunk(b" " * 10_000)), stream=True),
        f"the stream is longer than {STREAM_FACTOR} MB",
    )


async def test_envelopes_do_not_count_towards_the_answer() -> None:
    """Tokens come in envelopes that are several times as long as they are: the answer is what is measured."""
    said = stream_head() + deltas("a token of text ", 40_000) + chunk(event("[DONE]")) + LAST
    assert 2 * MOST < len(said) < STREAM_FACTOR * MOST
    answer = await attacked(said, stream=True, memory=3 * MEMORY)
    assert answer.outcome.kind is None
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "a token of text " * 40_000


async def test_endless_data_after_the_last_event_is_not_read() -> None:
    attack = Attack(stream_head() + deltas("a", 1) + chunk(event("[DONE]")), chunk(b": more\n" * 10_000))
    answer = await attacked(attack, stream=True)
    assert answer.outcome.kind is None
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "a"
    assert attack.sent < 10 * MOST


async def test_a_stream_of_countless_values_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list has three bytes in JSON, and 64 in memory."""
    monkeypatch.setattr(lenient_json, "LIGHT", 1000)
    lists = event({"choices": [{"index": 0, "delta": {"a": [[]] * 1000}}]}).replace(b" ", b"")
    attack = Attack(stream_head(), chunk(lists))
    answer = await attacked(attack, stream=True)
    too_long(answer, "the answer as it is put together is longer than 5 MB")
    assert attack.sent < 5 * MOST


@pytest.mark.parametrize("depth", [300, 500, 900, 2000])
async def test_a_delta_that_is_nested_deep_is_an_answer_or_a_failure(depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    said = event('{"choices":[{"index":0,"finish_reason":"stop","delta":' + deep + "}]}") + event("[DONE]")
    answer = await attacked(stream_head() + chunk(said) + LAST, stream=True)
    assert answer.outcome.kind in (None, Kind.TRANSIENT)


# -- countless parts ----------------------------------------------------------------------------------------------


def listed(before: str, item: str, after: str) -> Callable[[int], bytes]:
    """An event whose list, or object, has a thousand items that no other event has."""
    return lambda start: (
        f"data: {before}{','.join(item % n for n in range(start, start + 1000))}{after}\n\n".encode()
    )


def in_delta(item: str) -> Callable[[int], bytes]:
    return listed('{"choices":[{"index":0,"delta":{', item, "}}]}")


def in_message(before: str, item: str) -> Callable[[int], bytes]:
    return listed('{"type":"message_delta",' + before, item, "}}")


def blocks(start: int) -> bytes:
    begun = '{"type":"content_block_start","index":%d}'
    return b"".join(event(begun % n) for n in range(start, start + 1000))


PATHS = {"openai": CHAT, "anthropic": "/v1/messages", "gemini": "/v1beta/models/x:generateContent"}
BLOCK = {"type": "message_start", "message": {"id": "m", "content": [{"type": "text", "text": ""}]}}
#: Each takes ten bytes or so in a stream, and some hundred in memory.
COUNTLESS: dict[str, tuple[str, str, Callable[[int], bytes]]] = {
    "choices": ("openai", "choices", listed('{"choices":[', '{"index":%d}', "]}")),
    "calls": (
        "openai",
        "tool calls",
        listed('{"choices":[{"delta":{"tool_calls":[', '{"index":%d}', "]}}]}"),
    ),
    "calls of one number": (
        "openai",
        "tool calls",
        listed('{"choices":[{"delta":{"tool_calls":[', '{"id":"c%d"}', "]}}]}"),
    ),
    "fields of a delta": ("openai", "fields", in_delta('"%d":""')),
    "objects in a delta": ("openai", "fields", in_delta('"%d":{}')),
    "nothing in a delta": ("openai", "fields", in_delta('"%d":null')),
    "fields of a choice": ("openai", "fields", listed('{"choices":[{', '"%d":0', "}]}")),
    "fields of a chunk": ("openai", "fields", listed("{", '"%d":0', "}")),
    "blocks": ("anthropic", "blocks", blocks),
    "fields of a block": (
        "anthropic",
        "fields",
        listed('{"type":"content_block_delta","index":0,"delta":{', '"%d":0', "}}"),
    ),
    "texts of a block": (
        "anthropic",
        "fields",
        listed('{"type":"content_block_delta","index":0,"delta":{', '"%d":""', "}}"),
    ),
    "fields of a message": ("anthropic", "fields", in_message('"delta":{', '"%d":0')),
    "counts": ("anthropic", "fields", in_message('"usage":{', '"%d":0')),
    "candidates": ("gemini", "candidates", listed('{"candidates":[', '{"index":%d}', "]}")),
    "fields of a candidate": ("gemini", "fields", listed('{"candidates":[{', '"%d":0', "}]}")),
    "fields of an answer": ("gemini", "fields", listed("{", '"%d":0', "}")),
    "parts": ("gemini", "parts", listed('{"candidates":[{"content":{"parts":[', '{"a":%d}', "]}}]}")),
}


class Parts(Attack):
    """An attack that says something new in every piece."""

    def __init__(self, piece_at: Callable[[int], bytes], kind: str) -> None:
        super().__init__(stream_head() + (chunk(event(BLOCK)) if kind == "anthropic" else b""), b"")
        self.piece_at = piece_at

    async def __call__(self, call: Call) -> None:
        await call.write(self.head)
        for start in range(0, 1_000_000, 1000):
            piece = self.piece_at(start)
            await call.write(chunk(piece))
            self.sent += len(piece)
        await call.write(LAST)


@pytest.mark.parametrize("name", COUNTLESS)
async def test_an_answer_of_countless_parts_is_cut(name: str) -> None:
    """The ceiling of an answer is far away: its bytes are few, and its parts in memory are many."""
    kind, what, piece_at = COUNTLESS[name]
    attack = Parts(piece_at, kind)
    answer = await attacked(attack, stream=True, kind=kind, most=64 * MOST, path=PATHS[kind])
    outcome = answer.outcome
    most = MOST_FIELDS if what in ("fields", "parts") else MOST_PARTS
    assert outcome.kind is Kind.INVALID, outcome
    assert (
        outcome.message
        == f"HTTP 200, but the answer has more than {most:,} {what}, which no model sends: check base_url"
    )
    assert outcome.worked, "it may have to be paid for"
    assert attack.sent < 10 * MOST


async def test_as_many_calls_and_choices_as_anybody_makes_are_taken() -> None:
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(1000)]
    first = [event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}) for call in calls]
    others = [event({"choices": [{"index": n, "delta": {"content": "a"}}]}) for n in range(1, 128)]
    said = stream_head() + chunk(*first, *others, event("[DONE]")) + LAST
    answer = await attacked(said, stream=True)
    choices = json.loads(answer.body)["choices"]
    assert (len(choices), len(choices[0]["message"]["tool_calls"])) == (128, 1000)


@pytest.mark.parametrize(
    ("head", "item", "tail"),
    [
        ('{"choices":[', "{}", "]}"),
        ('{"choices":[{}],"a":NaN,"b":[', "{}", "]}"),
        ('{"choices":[{}],"a":NaN,"b":{', '"%d":0', "}}"),
    ],
    ids=["choices", "odd", "fields"],
)
@pytest.mark.parametrize("way", ["whole", "stream", "unannounced stream"])
async def test_countless_values_in_one_piece_are_not_decoded(
    way: str, head: str, item: str, tail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lenient_json, "LIGHT", 1000)
    monkeypatch.setattr(lenient_json, "HEAVY", 3 * MOST)
    items = ",".join(item % n if "%" in item else item for n in range(MOST // 8))
    body = f"{head}{items}{tail}".encode()
    assert len(body) < 2 * MOST
    if way == "whole":
        said = http(body)
    else:
        said = stream_head() + chunk(b"data: ", body, b"\n\n", event("[DONE]")) + LAST
    answer = await attacked(said, stream=way == "stream", most=4 * MOST)
    outcome = answer.outcome
    assert outcome.kind is Kind.INVALID, outcome
    assert outcome.message == (
        "HTTP 200, but the answer has more values than fit into 3 MB of memory, which no model sends: check base_url"
    )
    assert outcome.worked, "it may have to be paid for"


# -- heads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (b"a" * 10_000, "Got more than"),
        (b"1\r\nx-b: " * 1000, "headers"),
        (b"1\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-a: " * 1000, "too many interim answers"),
    ],
    ids=["a long header", "many headers", "many heads"],
)
async def test_heads_have_an_end(piece: bytes, words: str) -> None:
    attack = Attack(b"HTTP/1.1 103 Early Hints\r\nx-a: ", piece)
    answer = await attacked(attack)
    assert answer.outcome.kind is Kind.TRANSIENT
    assert words in answer.outcome.message
    assert attack.sent < 20 * MOST


# -- bytes around the answer --------------------------------------------------------------------------------------

DEFLATED = HEADERS + b"content-encoding: deflate\r\n" + CHUNKED + b"\r\n" + chunk(b"\x78\x9c")
#: What is sent without end, and nothing of it is an answer.
AROUND: dict[str, tuple[bytes, bytes]] = {
    "blank lines before the head": (b"", b"\r\n" * 30_000),
    "blanks in a header": (HEADERS + b"x-a:", b" " * 60_000),
    "one chunk extension": (HEADERS + CHUNKED + b"\r\n5;a=", b"x" * 60_000),
    "a quoted extension": (HEADERS + CHUNKED + b'\r\n5;a="', b"x" * 60_000),
    "many extensions": (HEADERS + CHUNKED + b"\r\n5;", b"a=b;" * 15_000),
    "extensions of many chunks": (HEADERS + CHUNKED + b"\r\n", b"1;a=" + b"x" * 60_000 + b"\r\n \r\n"),
    "blanks in the size of a chunk": (HEADERS + CHUNKED + b"\r\n5", b" " * 60_000),
    "zeros in the size of a chunk": (HEADERS + CHUNKED + b"\r\n", b"0" * 60_000),
    "empty compressed blocks": (DEFLATED, chunk(b"\x00\x00\x00\xff\xff" * 12_000)),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", AROUND)
async def test_bytes_that_are_no_part_of_an_answer_have_an_end(name: str, stream: bool) -> None:
    attack = Attack(*AROUND[name])
    answer = await attacked(attack, stream=stream)
    assert answer.outcome.kind is Kind.TRANSIENT
    assert "it sent 4 MB more than the answer has" in answer.outcome.message
    assert attack.sent < 20 * MOST


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_small_chunks_are_no_attack(size: int) -> None:
    body = json.dumps(completion("a" * 900_000)).encode()
    pieces = [body[at : at + size] for at in range(0, len(body), size)]

    async def script(call: Call) -> None:
        await call.write(HEADERS + CHUNKED + b"\r\n")
        for at in range(0, len(pieces), 5000):
            await call.write(*map(chunk, pieces[at : at + 5000]))
        await call.write(LAST)

    async with serving(script) as wire, opened(wire.url, max_answer_bytes=MOST) as adapter:
        for _ in range(2):  # Each answer of a connection counts by itself.
            answer = await adapter.send(request(), 60.0, Admissions())
            assert (answer.outcome.kind, answer.body) == (None, body)
    assert wire.connections == 1


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nx-a: ", b"y"),
        (HEADERS + CHUNKED + b"\r\n5;a=", b"x"),
        (HEADERS + CHUNKED + b"\r\n", b"1\r\n \r\n"),
        (HEADERS + CHUNKED + b"\r\n0\r\nx-a: ", b"y"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    ],
    ids=["blank lines", "a header", "an extension", "a body", "a trailer", "interim answers"],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_slow_body_ends_with_the_attempt(head: bytes, piece: bytes, stream: bool) -> None:
    async def script(call: Call) -> None:
        await call.write(head)
        while True:
            await call.write(piece)
            await asyncio.sleep(0.05)

    began = asyncio.get_running_loop().time()
    async with serving(script) as wire, opened(wire.url, stream=stream) as adapter:
        answer = await adapter.send(request(), 0.4, Admissions())
        assert answer.outcome.kind is Kind.TIMEOUT
    assert asyncio.get_running_loop().time() - began < 5.0


@pytest.mark.parametrize("piece", [http(b"{}"), b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n", b"?"])
async def test_a_connection_with_unrequested_data_is_closed(piece: bytes) -> None:
    """Nothing reads an idle connection: what comes there would stay in memory."""
    closed = asyncio.Event()

    async def script(call: Call) -> None:
        await call.write(http(completion()))
        await asyncio.sleep(0.05)
        try:
            for _ in range(2000):
                await call.write(piece * (60_000 // len(piece)))
        except ConnectionError:
            closed.set()
            raise

    async with serving(script) as wire, opened(wire.url) as adapter:
        tracemalloc.start()
        try:
            assert (await adapter.send(request(), 60.0, Admissions())).outcome.kind is None
            async with asyncio.timeout(30.0):
                await closed.wait()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY
        assert (await adapter.send(request(), 60.0, Admissions())).outcome.kind is None
    assert wire.connections == 2
