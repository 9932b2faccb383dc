"""Patterns that are compiled at their first use."""

from __future__ import annotations

import re

import pytest

from headway.lazy_pattern import lazy_pattern


def test_it_matches_like_a_compiled_one() -> None:
    lazy, compiled = lazy_pattern(r"(\d+) ?s", re.IGNORECASE), re.compile(r"(\d+) ?s", re.IGNORECASE)
    for text in ("wait 12 S, then 3s", "", "no figure"):
        assert lazy.findall(text) == compiled.findall(text)
        assert lazy.sub("#", text) == compiled.sub("#", text)
        assert (lazy.search(text) is None) == (compiled.search(text) is None)
    assert (lazy.pattern, lazy.flags) == (compiled.pattern, compiled.flags)


def test_it_is_compiled_once_and_only_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compile_now = re.compile

    def counted(text: str, flags: int = 0) -> re.Pattern[str]:
        made.append(text)
        return compile_now(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    lazy = lazy_pattern("a+")
    assert not made
    for _ in range(3):
        assert lazy.match("aa")
    assert made == ["a+"]


def test_a_wrong_pattern_is_an_error_at_its_first_use() -> None:
    lazy = lazy_pattern("(")
    with pytest.raises(re.error):
        lazy.match("")
