"""Every line is read with the number an editor shows, and the digest is that of the decompressed bytes."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.batch import reader as reading
from headway.batch.reader import CHUNK, Reader, digest_of
from headway.errors import ConfigError, UsageError

LINES = [(1, b'{"a":1}'), (3, b'{"b":2}')]


def from_file(tmp_path: Path, data: bytes, name: str = "r.jsonl") -> Reader:
    path = tmp_path / name
    path.write_bytes(data)
    return Reader(path)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}\n\n{"b":2}\n',
        b'{"a":1}\n\n{"b":2}',
        b'{"a":1}\r\n\r\n{"b":2}\r\n',
        b'{"a":1}\r\n  \t\r\n{"b":2}\r\n\r\n\r\n',
        b'\xef\xbb\xbf{"a":1}\n\n{"b":2}\n',
        b'  {"a":1}  \n\n\t{"b":2}',
    ],
)
def test_line_ends_byte_order_marks_and_blank_lines_are_handled(tmp_path: Path, data: bytes) -> None:
    reader = from_file(tmp_path, data)
    assert list(reader) == LINES
    assert reader.digest == blake2b(data, digest_size=32).hexdigest() == digest_of(tmp_path / "r.jsonl")
    packed = from_file(tmp_path, gzip.compress(data), "r.jsonl.gz")
    assert list(packed) == LINES
    assert packed.digest == reader.digest == digest_of(tmp_path / "r.jsonl.gz")


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\n \n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_empty_file_has_no_lines(tmp_path: Path, data: bytes, pack: Callable[[bytes], bytes]) -> None:
    assert list(from_file(tmp_path, pack(data))) == []


def test_compressed_parts_one_after_another_are_one_file(tmp_path: Path) -> None:
    data = gzip.compress(b'{"a":1}\n\n') + gzip.compress(b'{"b":2}\n')
    assert list(from_file(tmp_path, data, "r.jsonl.gz")) == LINES


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_read_compressed_or_not_and_stays_open(pack: Callable[[bytes], bytes]) -> None:
    data = b'{"a":1}\n\n{"b":2}'
    stdin = io.BytesIO(pack(data))
    reader = Reader("-", stdin)
    assert list(reader) == LINES
    assert (reader.name, reader.digest) == ("stdin", blake2b(data, digest_size=32).hexdigest())
    assert not stdin.closed


def test_lines_longer_than_a_chunk_come_in_one_piece(tmp_path: Path) -> None:
    chance = random.Random(7)
    lines = [
        bytes([chance.randrange(97, 123)]) * chance.choice((1, 50, CHUNK - 1, CHUNK, 3 * CHUNK))
        for _ in range(40)
    ]
    assert [line for _, line in from_file(tmp_path, b"\n".join(lines))] == lines


def test_a_line_that_is_too_long_is_counted_but_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 3 * CHUNK)
    data = b"a\n" + b"x" * (3 * CHUNK + 1) + b"\nb\n" + b"y" * (3 * CHUNK) + b"\n" + b"z" * (9 * CHUNK)
    reader = from_file(tmp_path, data)
    found = [(number, line if line is None else line[:1], len(line or b"")) for number, line in reader]
    assert found == [(1, b"a", 1), (2, None, 0), (3, b"b", 1), (4, b"y", 3 * CHUNK), (5, None, 0)]
    assert reader.digest == digest_of(tmp_path / "r.jsonl")


@given(st.lists(st.text("ab \r\t{}", max_size=6)), st.booleans(), st.booleans())
def test_lines_equal_those_of_a_plain_split(lines: list[str], end: bool, packed: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if end else b"")
    expected = [(n, line.strip()) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    reader = Reader("-", io.BytesIO(gzip.compress(data) if packed else data))
    assert list(reader) == expected


def test_compressed_data_that_ends_too_early_says_how_much_could_be_read(tmp_path: Path) -> None:
    chance = random.Random(3)
    data = b"".join(b"%d\n" % chance.getrandbits(400) for _ in range(20_000))
    reader = from_file(tmp_path, gzip.compress(data)[:-2000], "r.jsonl.gz")
    rows: list[tuple[int, bytes | None]] = []
    with pytest.raises(ConfigError) as caught:
        rows.extend(reader)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/r.jsonl.gz: the compressed data ends too early after ")
    assert said.endswith(" lines that could be read — create or copy the file again")
    assert reader.lines > 15_000
    assert f"{reader.lines:,} lines" in said
    with pytest.raises(ConfigError, match="the compressed data ends too early — create or copy"):
        digest_of(tmp_path / "r.jsonl.gz")


@pytest.mark.parametrize("place", [12, -6])
def test_damaged_compressed_data_is_an_error(tmp_path: Path, place: int) -> None:
    packed = bytearray(gzip.compress(random.Random(3).randbytes(5000)))
    packed[place] ^= 0xFF
    with pytest.raises(ConfigError, match="the compressed data is damaged after"):
        list(from_file(tmp_path, bytes(packed)))
    with pytest.raises(ConfigError, match="the compressed data is damaged — create"):
        digest_of(tmp_path / "r.jsonl")


def test_a_gz_file_that_is_not_compressed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"r\.jsonl\.gz: not compressed by gzip — remove \.gz from its name"
    ):
        list(from_file(tmp_path, b"{}", "r.jsonl.gz"))


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le"])
def test_utf_16_is_recognised_by_its_mark(tmp_path: Path, codec: str) -> None:
    data = "\ufeff{}\n".encode(codec)
    with pytest.raises(ConfigError, match="written in UTF-16 — save it as UTF-8"):
        list(from_file(tmp_path, data))


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: no such file"):
        list(Reader(tmp_path / "nowhere.jsonl"))
    with pytest.raises(UsageError, match="cannot be read: is a directory"):
        list(Reader(tmp_path))
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: no such file"):
        digest_of(tmp_path / "nowhere.jsonl")
    with pytest.raises(UsageError, match="standard input can be read only once — write it to a file first"):
        digest_of("-")


def test_a_reader_that_is_left_half_way_closes_its_file(tmp_path: Path) -> None:
    lines = iter(from_file(tmp_path, b"a\nb\n"))
    assert next(lines) == (1, b"a")
    del lines  # an open file would be a ResourceWarning, which is an error


@pytest.mark.parametrize("odd", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_line_feed_ends_a_row(tmp_path: Path, odd: str) -> None:
    """Whatever else ends lines elsewhere: in texts, between the parts of a row, and before its line feed."""
    rows = f'{{"a":"x{odd}y"}}\n{{"b":{odd}2}}{odd}\n'.encode()
    read = list(from_file(tmp_path, rows))
    assert [number for number, _ in read] == [1, 2]
    assert read[0][1] == f'{{"a":"x{odd}y"}}'.encode()
