"""Foreign text controls no terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.safe_text import escaped, visible, without_breaks

HARMFUL = [chr(n) for n in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))] + list(
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


@pytest.mark.parametrize("character", HARMFUL, ids=lambda character: f"U+{ord(character):04X}")
def test_terminal_control_characters_are_escaped(character: str) -> None:
    shown = visible(f"a{character}b")
    assert character not in shown
    assert f"{ord(character):02x}" in shown


@pytest.mark.parametrize(
    "text", ["", "plain", "two\nlines\tand a tab", "é ü 你好 🙂 עברית العربية", "a\\x1b"]
)
def test_everything_else_stays(text: str) -> None:
    assert visible(text) == text


def test_an_escape_sequence_is_readable() -> None:
    assert visible("\x1b]0;title\x07\x9b2J\u202e") == "\\x1b]0;title\\x07\\x9b2J\\u202e"


@given(st.text())
def test_json_means_the_same_and_controls_nothing(text: str) -> None:
    try:
        plain = json.dumps(text, ensure_ascii=False)
        plain.encode()
    except UnicodeEncodeError:
        return
    safe = escaped(plain)
    assert json.loads(safe) == text
    assert not any(character in safe for character in HARMFUL)


def test_a_line_keeps_its_tabs_and_loses_its_breaks() -> None:
    assert without_breaks("a\n\tb\r\x85c\u2028d") == "a\\n\tb\\x0d\\x85c\\u2028d"
