"""What files are, by their content: types, pixels, pages; and what is refused."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.batch.attachment_files import gif, jpeg, packed_pdf, pdf, png, webp

from headway.batch.attachments.attached_file import MOST_BYTES, FileFacts, read_file
from headway.batch.attachments.input_tokens import tokens_of
from headway.batch.attachments.media import Media, media_of
from headway.batch.attachments.pdf_pages import page_count
from headway.errors import UsageError


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (png(3, 5), Media("image/png", 3, 5)),
        (jpeg(300, 70_000 % 65_536), Media("image/jpeg", 300, 70_000 % 65_536)),
        (gif(320, 200), Media("image/gif", 320, 200)),
        (webp("VP8X", 16_384, 9), Media("image/webp", 16_384, 9)),
        (webp("VP8L", 16_384, 9), Media("image/webp", 16_384, 9)),
        (webp("VP8 ", 1_000, 9), Media("image/webp", 1_000, 9)),
        (pdf(7), Media("application/pdf", pages=7)),
        (packed_pdf(3), Media("application/pdf", pages=3)),
        (pdf(1, b"/Encrypt 9 0 R"), Media("application/pdf", pages=1, encrypted=True)),
    ],
    ids=lambda value: value.text if isinstance(value, Media) else "",
)
def test_the_content_says_what_a_file_is(data: bytes, media: Media) -> None:
    assert media_of(data) == media


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"OPENAI_API_KEY=sk-1\n", "is neither"),
        (b"GIF", "is neither"),
        (b"<svg/>", "is neither"),
        (b"prefix %PDF-1.4 %%EOF", "is neither"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "is neither"),
        (png()[:20], "damaged PNG"),
        (png()[:40], "cut off"),
        (png(0, 5), "damaged PNG"),
        (png(1 << 31, 5), "damaged PNG"),
        (jpeg()[:12], "damaged JPEG"),
        (b"\xff\xd8\xff\xe0\x00\x00" + b"\0" * 40, "damaged JPEG"),
        (b"\xff\xd8\xff\xda" + b"\0" * 40, "damaged JPEG"),
        (b"\xff\xd8" + b"\xff" * 100, "damaged JPEG"),
        (gif(0, 0), "damaged GIF"),
        (webp("VP8X")[:28], "damaged WEBP"),
        (webp("VP8X")[:-1] + b"", "damaged WEBP"),
        (webp("VP8L")[:-2], "cut off"),
        (webp("ANIM"), "damaged WEBP"),
        (b"%PDF-1.4 and no end", "cut off"),
    ],
)
def test_other_and_damaged_files_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        media_of(data)


WHOLE = (png(), jpeg(), gif(), webp("VP8X"), webp("VP8L"), webp("VP8 "), pdf(), packed_pdf())


@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8),
    st.integers(0, 400),
)
def test_damage_of_any_kind_is_only_refused(whole: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(whole)
    for place, value in changes:
        damaged[place % len(damaged)] = value
    try:
        media = media_of(bytes(damaged[: len(damaged) - cut] if cut < len(damaged) else damaged))
    except UsageError:
        return
    assert media.pages > 0 or (media.width > 0 and media.height > 0)
    for api, model in (("chat", "gpt-4o"), ("messages", "claude-5"), ("generateContent", "gemini-2.0")):
        assert tokens_of(api, model, media) > 0


def test_pages_of_odd_documents() -> None:
    assert page_count(pdf(4) + pdf(4)) == 4  # Edited: every page twice, and one count.
    outline = b"9 0 obj<</Type /Outlines /First 10 0 R /Count 2>>endobj" + b" " * 400
    assert page_count(b"%PDF-" + outline + b"<</Type /Page>>" * 9 + b" " * 400) == 9
    assert (
        page_count(b"%PDF-" + outline + b"<</Kids[" + b"1 0 R " * 90 + b"] /Count 90>>" + b" " * 3_000) == 90
    )
    assert page_count(b"%PDF-" + b"<</Type /Pages /Count 9999999>>" + b" " * 3_200 + b"%%EOF") < 150
    assert page_count(b"%PDF-1.4" + b"\0" * 150_000 + b"%%EOF") == 3  # Nothing says it.
    assert page_count(b"%PDF-1.4 %%EOF") == 1


def test_a_document_that_unpacks_to_gigabytes_costs_little() -> None:
    bomb = packed_pdf(3, filler=50_000_000)
    many = bomb.replace(b"%%EOF", b"") * 60 + b"%%EOF"
    hostile = [many, b"/Count 1 " * 1_000_000, b"/Type /ObjStm " * 700_000, b"/Type/Page" * 1_000_000]
    began = time.process_time()
    assert all(page_count(data) > 0 for data in hostile)
    assert time.process_time() - began < 5.0


# -- files ------------------------------------------------------------------------------------------------------------


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.png").touch()
    (tmp_path / "link.png").symlink_to("a.png")
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "a.png").write_bytes(png())
    secret = tmp_path / "secret.png"
    secret.write_text("password")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        said = {
            "pipe": "is a pipe, not a file",
            "folder": "is a directory, not a file",
            "/dev/zero": "is a device, not a file",
            "s": "cannot be read",
            "empty.png": "is empty",
            "loop.png": "cannot be read",
            "none.png": "does not exist",
            "secret.png": "is neither a PNG",
            "/proc/self/environ": "is neither a PNG",
            "a\0b": "cannot be read",
        }
        files = FileFacts(tmp_path)
        for path, why in said.items():
            with pytest.raises(UsageError, match=why):
                files.file(path)
    assert files.file("link.png").digest == files.file("a.png").digest
    assert files.file(str(tmp_path / "a.png")).media == Media("image/png", 640, 480)


def test_a_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    path.write_bytes(png())
    os.truncate(path, 1 << 40)
    with pytest.raises(UsageError, match=r"has 1,099,512 MB, and no API takes more than 100 MB"):
        read_file(path)
    assert MOST_BYTES == 100_000_000


def test_a_file_that_changes_after_it_was_checked_is_an_error(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(png(comment=name.encode()))
    files = FileFacts(tmp_path)
    first = files.file("a.png")
    files.file("b.png")
    assert files.content(first) == png(comment=b"a.png")
    (tmp_path / "a.png").write_bytes(png(1, 1))
    with pytest.raises(UsageError, match="changed while the input was read"):
        files.content(first)
