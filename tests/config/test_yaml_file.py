"""YAML with line numbers, and files that would cost more than their size."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config.yaml_file import Marked, YamlError, parse_yaml, read_yaml


def test_values_know_their_lines() -> None:
    tree = parse_yaml("a: 1\nb:\n  - x\n  - {c: yes, d: 1.5}\n")
    assert tree.plain() == {"a": 1, "b": ["x", {"c": "yes", "d": 1.5}]}
    assert tree.key_lines == {"a": 1, "b": 2}
    assert [item.line for item in tree.value["b"].value] == [3, 4]


def test_only_true_false_null_and_numbers_are_not_texts() -> None:
    tree = parse_yaml("[no, on, 12:30, 2026-01-01, 0x1f, '3', true, ~, -2, 1e3, null]")
    assert tree.plain() == ["no", "on", "12:30", "2026-01-01", "0x1f", "3", True, None, -2, 1000.0, None]


def test_aliases_repeat_a_value() -> None:
    assert parse_yaml("a: &x {b: 1}\nc: *x").plain() == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3", 3, "twice"),
        ("a: [1\n", 2, "not YAML"),
        ("a: b: c", 1, "not YAML"),
        ("a: !!python/object:os.system x", 1, "not allowed"),
        ("? [a, b]\n: c", 1, "must be a text"),
        ("a: *unknown", 1, "unknown"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("[" * 100_000, 1, "nested more than"),
        ("a: \x00", 0, "not YAML"),
    ],
)
def test_errors_have_a_line(text: str, line: int, says: str) -> None:
    with pytest.raises(YamlError, match=says) as caught:
        parse_yaml(text)
    assert caught.value.line in (line, line - 1)


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    with pytest.raises(YamlError, match="repeat too much"):
        parse_yaml("\n".join(lines))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(YamlError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(YamlError, match="UTF-8"):
        read_yaml(tmp_path / "latin.yaml")


@given(st.text(alphabet="ab:-[]{}&*!?|>#\"' \n", max_size=80))
def test_any_text_is_a_tree_or_an_error(text: str) -> None:
    with contextlib.suppress(YamlError):
        assert isinstance(parse_yaml(text), Marked)
