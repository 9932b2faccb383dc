"""How many tokens an attachment is, as each provider counts. Pure; the figures are those of the providers' documentation (2026).

OpenAI: older models cut an image into tiles of 512 pixels, newer ones into patches of 32 pixels. Anthropic: patches of 28 pixels. All of
them first scale large images down. Gemini 2: 258 tokens for each tile; Gemini 3 and later: 1120 for each image. A PDF is counted by its
pages. These are estimates: an unknown model is counted like the family that its API belongs to, and the lane learns the rest.
"""

from __future__ import annotations

import re
from math import ceil, sqrt
from typing import Final

import msgspec

from headway.batch.attachments.media import Media

#: The size of a page as an image, at 150 dots per inch, and the tokens of its text.
PAGE: Final = (1275, 1650)
PAGE_TEXT: Final = 600
#: Anthropic: text and image of a page. Bedrock's Converse sends the text alone.
CLAUDE_PAGE: Final = 2_333
CONVERSE_PAGE: Final = 333
#: The tokens of what cannot be measured: it is at an address.
UNMEASURED: Final = 1_000


class _Tiles(msgspec.Struct, frozen=True):
    """OpenAI's older models: a base, and so many for each tile."""

    base: int
    tile: int

    def tokens(self, width: int, height: int, detail: str) -> int:
        if detail == "low":
            return self.base
        shrink = min(1.0, 2048 / max(width, height))
        shrink = min(shrink, 768 / min(width, height))
        tiles = ceil(_scaled(width, shrink) / 512) * ceil(_scaled(height, shrink) / 512)
        return self.base + tiles * self.tile


class _Patches(msgspec.Struct, frozen=True):
    """OpenAI's newer models: patches of 32 pixels, up to a budget, times a factor. `original` is the budget of that detail."""

    factor: float = 1.0
    high: int = 1_536
    original: int = 1_536
    auto: str = "high"

    def tokens(self, width: int, height: int, detail: str) -> int:
        if detail in ("", "auto"):
            detail = self.auto
        if detail == "low":
            longest, most = 512, 256
        elif detail == "original":
            longest, most = 6_000 if self.original <= 10_000 else 65_535, self.original
        else:
            longest, most = 2_048, self.high
        shrink = min(1.0, longest / max(width, height))
        shrink = min(shrink, sqrt(most * 32 * 32 / (width * height)))
        patches = ceil(_scaled(width, shrink) / 32) * ceil(_scaled(height, shrink) / 32)
        return ceil(min(patches, most) * self.factor)


def _scaled(pixels: int, shrink: float) -> int:
    return max(1, int(pixels * shrink))


_MINI, _NANO = _Patches(1.62), _Patches(2.46)
_LARGE: Final = _Patches(high=2_500, original=30_000, auto="original")
#: The first that fits the beginning of a model's name.
_OPENAI: Final[tuple[tuple[str, _Tiles | _Patches], ...]] = (
    ("gpt-4o-mini", _Tiles(2_833, 5_667)),
    ("gpt-4.1-mini", _MINI),
    ("gpt-4.1-nano", _NANO),
    ("gpt-5.4-mini", _MINI),
    ("gpt-5.4-nano", _NANO),
    ("gpt-5.4", _Patches(high=2_500, original=10_000)),
    ("gpt-5.5", _Patches(high=2_500, original=10_000, auto="original")),
    ("gpt-5-mini", _MINI),
    ("gpt-5-nano", _NANO),
    ("gpt-5-chat", _Tiles(70, 140)),
    ("gpt-5.1", _Tiles(70, 140)),
    ("gpt-5.2", _Patches()),
    ("gpt-5.3", _Patches()),
    ("gpt-5.", _LARGE),
    ("gpt-5", _Tiles(70, 140)),
    ("gpt-6", _LARGE),
    ("o4-mini", _Patches(1.72)),
    ("o1", _Tiles(75, 150)),
    ("o3", _Tiles(75, 150)),
    ("computer-use", _Tiles(65, 129)),
)
_TILES: Final = _Tiles(85, 170)
#: Claude models that look at 2576 pixels and 4784 patches: from 4.7 on. `claude-opus-4-20250514` is 4.0.
_CLAUDE_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[.-](\d{1,2})(?!\d))?")
_GEMINI_2: Final = re.compile(r"gemini-[12]\b")


def tokens_of(api: str, model: str, media: Media, detail: str = "") -> int:
    """The tokens of an attachment at an API (`request_parts.api_of`)."""
    name = model.rpartition("/")[2].lower()
    if api == "generateContent":
        return _gemini(name, media)
    if api in ("messages", "converse", "invoke"):
        if media.is_pdf:
            return media.pages * (CONVERSE_PAGE if api == "converse" else CLAUDE_PAGE)
        return _claude(name, media.width, media.height)
    rule = next((rule for start, rule in _OPENAI if name.startswith(start)), _TILES)
    if media.is_pdf:
        return media.pages * (PAGE_TEXT + rule.tokens(*PAGE, ""))
    return rule.tokens(media.width, media.height, detail)


def _claude(name: str, width: int, height: int) -> int:
    match = _CLAUDE_VERSION.search(name)
    version = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    longest, most = (2_576, 4_784) if version >= (4, 7) else (1_568, 1_568)
    shrink = min(1.0, longest / max(width, height), sqrt(most * 28 * 28 / (width * height)))
    return min(most, ceil(_scaled(width, shrink) / 28) * ceil(_scaled(height, shrink) / 28))


def _gemini(name: str, media: Media) -> int:
    if media.is_pdf:
        return media.pages * (258 if _GEMINI_2.match(name) else 560)
    if not _GEMINI_2.match(name):
        return 1_120
    width, height = media.width, media.height
    if max(width, height) <= 384:
        return 258
    side = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * ceil(width / side) * ceil(height / side)
