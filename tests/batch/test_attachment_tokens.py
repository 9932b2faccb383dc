"""How many tokens attachments are, and what APIs reject. The figures are the examples of the providers' documentation."""

from __future__ import annotations

import pytest

from headway.batch.attachments.attached_file import AttachedFile
from headway.batch.attachments.input_tokens import CLAUDE_PAGE, tokens_of
from headway.batch.attachments.media import Media
from headway.batch.attachments.provider_limits import MB, check_files
from headway.errors import UsageError


def image(width: int, height: int) -> Media:
    return Media("image/png", width, height)


@pytest.mark.parametrize(
    ("model", "size", "detail", "tokens"),
    [
        ("gpt-4o", (1024, 1024), "", 765),
        ("gpt-4o", (1024, 1024), "high", 765),
        ("gpt-4o", (4096, 8192), "low", 85),
        ("gpt-4o-2024-11-20", (2048, 4096), "", 1105),
        ("gpt-4o", (512, 512), "", 255),
        ("gpt-4o-mini", (512, 512), "", 2833 + 5667),
        ("gpt-5", (1024, 1024), "", 70 + 4 * 140),
        ("o3-mini", (1024, 1024), "", 75 + 4 * 150),
        ("gpt-4.1-mini", (1024, 1024), "", 1659),
        ("gpt-4.1-nano", (1024, 1024), "", 2520),
        ("o4-mini", (1024, 1024), "", 1762),
        ("gpt-5.4", (1024, 1024), "", 1024),
        ("gpt-5.4", (10_000, 10_000), "", 2500),
        ("gpt-5.4", (10_000, 10_000), "original", 10_000),
        ("gpt-5.5", (3_200, 3_200), "", 10_000),
        ("gpt-6", (3_200, 6_400), "", 20_000),
        ("gpt-6", (3_200, 3_200), "low", 256),
        ("llava", (1024, 1024), "", 765),
        ("openai/gpt-5-mini", (32, 32), "", 2),
    ],
)
def test_openai_counts_tiles_or_patches(model: str, size: tuple[int, int], detail: str, tokens: int) -> None:
    assert tokens_of("chat", model, image(*size), detail) == tokens
    assert tokens_of("responses", model, image(*size), detail) == tokens


def test_a_large_image_is_scaled_to_the_budget_of_patches() -> None:
    assert 1_400 <= tokens_of("chat", "gpt-5.2", image(1800, 2400)) <= 1_536


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("claude-3-5-sonnet-latest", (200, 200), 64),
        ("claude-opus-4-20250514", (1000, 1000), 1296),
        ("claude-opus-4-1", (3840, 2160), 1568),
        ("claude-opus-4-7", (1920, 1080), 2691),
        ("claude-sonnet-5", (3840, 2160), 4784),
        ("anthropic.claude-opus-4-7-20260401-v1:0", (1920, 1080), 2691),
        ("", (200, 200), 64),
    ],
)
def test_anthropic_counts_patches_up_to_what_a_model_looks_at(
    model: str, size: tuple[int, int], tokens: int
) -> None:
    assert tokens_of("messages", model, image(*size)) == pytest.approx(tokens, rel=0.02)
    assert tokens_of("converse", model, image(*size)) == tokens_of("messages", model, image(*size))


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("gemini-2.5-flash", (384, 384), 258),
        ("gemini-2.5-flash", (960, 540), 6 * 258),
        ("models/gemini-1.5-pro", (3000, 3000), 16 * 258),
        ("gemini-3-pro", (3000, 3000), 1120),
    ],
)
def test_gemini_counts_tiles_or_one_figure(model: str, size: tuple[int, int], tokens: int) -> None:
    assert tokens_of("generateContent", model, image(*size)) == tokens


def test_documents_are_counted_by_pages() -> None:
    three = Media("application/pdf", pages=3)
    assert tokens_of("messages", "claude-3", three) == 3 * CLAUDE_PAGE
    assert tokens_of("converse", "claude-3", three) == 999
    assert tokens_of("generateContent", "gemini-2.5-pro", three) == 774
    assert tokens_of("generateContent", "gemini-3-pro", three) == 1680
    assert 3_000 < tokens_of("chat", "gpt-4o", three) < 6_000


@pytest.mark.parametrize("width", [1, 31, 65_535, 2**31 - 1])
def test_any_size_has_a_count(width: int) -> None:
    for api, model in (("chat", "gpt-4o"), ("chat", "gpt-6"), ("messages", "claude-9"), ("generateContent", "gemini-2.0")):  # fmt: skip
        assert tokens_of(api, model, image(width, 1)) > 0


# -- ceilings ---------------------------------------------------------------------------------------------------------


def file(size: int, media: Media) -> AttachedFile:
    return AttachedFile("x.png", "00" * 32, size, media)


SMALL = file(1_000, image(10, 10))
PDF_FILE = file(1_000, Media("application/pdf", pages=10))


@pytest.mark.parametrize(
    ("api", "files", "why"),
    [
        ("messages", [SMALL] * 601, "601 images in a request"),
        ("messages", [file(8 * MB, image(9, 9))], "10.7 MB as base64, and Anthropic's API takes 10 MB"),
        ("messages", [file(9, image(8001, 9))], "x.png is 8001x9, and Anthropic's API takes 8000 pixels a side"),
        ("messages", [file(9, image(2001, 9))] * 21, "2000 pixels a side"),
        ("messages", [file(5 * MB, image(9, 9))] * 5, "its request would have 33.3 MB"),
        ("messages", [PDF_FILE] * 61, "610 pages in a request"),
        ("messages", [file(9, Media("application/pdf", pages=1, encrypted=True))], "an encrypted PDF"),
        ("converse", [SMALL] * 21, "takes 20"),
        ("converse", [PDF_FILE] * 6, "6 documents in a request"),
        ("converse", [file(4 * MB, image(9, 9))], "takes 3.75 MB"),
        ("converse", [file(5 * MB, Media("application/pdf", pages=1))], "takes 4.5 MB"),
        ("invoke", [file(4 * MB, image(9, 9))], "takes 5 MB"),
        ("generateContent", [file(51 * MB, Media("application/pdf", pages=1))], "takes 50 MB"),
        ("generateContent", [file(40 * MB, image(9, 9))] * 2, "Gemini takes 100 MB"),
        ("chat", [SMALL] * 1_501, "takes 1,500"),
        ("chat", [file(51 * MB, Media("application/pdf", pages=1))], "takes 50 MB"),
    ],
)  # fmt: skip
def test_what_an_api_certainly_rejects_is_an_error(api: str, files: list[AttachedFile], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_files(api, files, 100)


def test_what_an_api_may_take_is_no_error() -> None:
    check_files("messages", [SMALL] * 600, 100)
    check_files("messages", [file(9, image(2000, 9))] * 21, 100)
    check_files("converse", [*[SMALL] * 20, *[PDF_FILE] * 5], 100)
    check_files("generateContent", [file(30 * MB, image(9, 9))], 100)
    check_files("chat", [file(90 * MB, image(90_000, 9))], 100)
