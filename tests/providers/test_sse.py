"""The event parser, and JSON as it really comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.growth import LINEAR, growth

from headway.providers.dialects.answer_errors import AnswerTooLong, UnreadableAnswer, size_text
from headway.providers.dialects.lenient_json import counts, decoded, encoded
from headway.providers.dialects.sse import SseEvent, SseParser, event_object


def parsed(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces."""
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\r", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data\n\n", [(b"", b"")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
        (b": keep-alive\n\n: again\n\ndata: a\n\n", [(b"", b"a")]),
        (b"id: 7\nretry: 10\nnonsense\ndata: a\n\n", [(b"", b"a")]),
        (b"event: x\n\ndata: a\n\n", [(b"", b"a")]),
        (b"data: a", [(b"", b"a")]),
        (b"data: a\n", [(b"", b"a")]),
        (b"data: a\r", [(b"", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b'data: {"x": "a: b"}\n\ndata: [DONE]\n\n', [(b"", b'{"x": "a: b"}'), (b"", b"[DONE]")]),
        ("data: naïve\u2028 ✓\n\n".encode(), [(b"", "naïve\u2028 ✓".encode())]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_what_streams_say(stream: bytes, events: list[tuple[bytes, bytes]]) -> None:
    assert [(event.name, event.data) for event in parsed(stream)] == events
    single = [stream[place : place + 1] for place in range(len(stream))]
    assert [(event.name, event.data) for event in parsed(*single)] == events


LINES = st.lists(
    st.sampled_from(
        ["data: a", "data: ü✓🙂", "data:", "event: x", ": c", "", "", "odd", "data: {}", "id: 1"]
    ),
    max_size=12,
)


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 500), max_size=20))
def test_pieces_make_no_difference(lines: list[str], end: bytes, places: list[int]) -> None:
    stream = end.join(line.encode() for line in lines)
    assert parsed(*cut(stream, places)) == parsed(stream)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_garbage_is_parsed_alike_in_any_pieces(stream: bytes, places: list[int]) -> None:
    assert parsed(*cut(stream, places)) == parsed(stream)


def test_an_event_is_here_as_soon_as_its_blank_line_is() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [SseEvent(b"", b"a")]
    assert parser.feed(b"data: b\r\n\r") == []
    assert parser.feed(b"\n") == [SseEvent(b"", b"b")]


@pytest.mark.parametrize("chunk", [b"x" * 100, b"data: " + b"x" * 100 + b"\n", b"data: " + b"x" * 94])
def test_an_endless_event_is_a_failure(chunk: bytes) -> None:
    parser = SseParser(longest=1000)
    for _ in range(9):
        parser.feed(chunk)
    with pytest.raises(UnreadableAnswer, match="longer than"):
        parser.feed(chunk * 2)


def test_many_short_events_are_no_long_one() -> None:
    parser = SseParser(longest=1000)
    assert sum(len(parser.feed(b": comment\n\nevent: x\ndata: 0123456789\n\n")) for _ in range(500)) == 500


def test_long_lines_take_linear_time() -> None:
    parser = SseParser()
    piece = b"x" * 1000
    parser.feed(b"data: ")
    for _ in range(20_000):
        parser.feed(piece)
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == 20_000_000


def test_halves_of_a_character_are_joined_again() -> None:
    first, second = decoded(b'"\\ud83d"'), decoded(b'"\\ude42"')
    assert encoded([first + second]) == '["🙂"]'.encode()
    assert encoded([first]) == '["�"]'.encode()


@pytest.mark.parametrize(
    ("data", "value"),
    [(b'{"a": NaN}', {"a": None}), (b"[-Infinity, 1]", [None, 1]), (b"\xef\xbb\xbf{}", {}), (b'"\xff"', "�")],
)
def test_json_that_is_not_quite(data: bytes, value: object) -> None:
    assert decoded(data) == value


@pytest.mark.parametrize("data", [b"", b"{", b"nonsense", b"[" * 100_000, b'{"a":' * 100_000])
def test_data_that_is_not_json(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the decoder says
        decoded(data)
    with pytest.raises(UnreadableAnswer, match="not JSON"):
        event_object(SseEvent(b"", data))


def test_big_integers_survive() -> None:
    assert json.loads(encoded({"seed": 10**30})) == {"seed": 10**30}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_encoding_loses_nothing(value: object) -> None:
    assert decoded(encoded(value)) == value
    assert msgspec.json.decode(encoded(value)) == value


@given(JSON)
def test_counts_are_numbers(value: object) -> None:
    for count in counts({"a": value, "b_details": value}).values():
        assert isinstance(count, int | float | dict)


# -- linear time, and ceilings ------------------------------------------------------------------------------------


def in_chunks(line: bytes, count: int, per_chunk: int) -> None:
    parser = SseParser()
    for _ in range(count // per_chunk):
        parser.feed(line * per_chunk)


@pytest.mark.parametrize(
    "work",
    [
        lambda n: in_chunks(b"data:\n", n, 10),
        lambda n: in_chunks(b"data: a\n", n, 10),
        lambda n: in_chunks(b": comment\n", n, 10),
        lambda n: in_chunks(b"a", n, 10),
        lambda n: in_chunks(b"data: a\n\n", n, 10),
    ],
    ids=["empty lines", "lines of one event", "comments", "one line", "events"],
)
def test_parsing_takes_time_in_proportion_to_the_bytes(work: Callable[[int], None]) -> None:
    assert growth(work, 20_000) < LINEAR


def test_empty_data_lines_count_towards_the_length_of_an_event() -> None:
    parser = SseParser(longest=1000)
    parser.feed(b"data:\n" * 160)
    with pytest.raises(AnswerTooLong, match="an event of the stream is longer than 1 KB"):
        parser.feed(b"data:\n" * 7)


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"a":1}', b"1", b'""'])
def test_a_text_of_countless_values_is_not_decoded(value: bytes) -> None:
    data = b"[" + (value + b",") * 8_000_000 + b"1]"
    with pytest.raises(ValueError, match="more values than fit into 300 MB"):
        decoded(data)


def test_long_texts_and_many_numbers_are_decoded() -> None:
    assert len(decoded(b'{"a":"' + b"lorem ipsum, " * 1_000_000 + b'"}')["a"]) == 13_000_000
    assert len(decoded(b"[" + b"0.0123," * 1_000_000 + b"1]")) == 1_000_001


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (64_000_000, "64 MB"),
        (1_500_000, "1.5 MB"),
        (65_536, "65.54 KB"),
        (999, "999 bytes"),
        (2 * 10**9, "2 GB"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert size_text(size) == words
