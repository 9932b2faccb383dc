"""`.env` is read correctly, and no message shows its values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Config, dotenv_of, read_env_file
from headway.config.env_file import exposed, parse_env
from headway.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=abc", "abc"),
        ("K = abc ", "abc"),
        ("\tK=abc", "abc"),
        ("export K=abc", "abc"),
        ("export\tK=abc", "abc"),
        ("K=", ""),
        ("K=''", ""),
        ("K=a=b", "a=b"),
        ("K=abc # comment", "abc"),
        ("K=abc#none", "abc#none"),
        ("K=# comment", ""),
        ("K='a # b' # comment", "a # b"),
        ('K="a # b"# comment', "a # b"),
        ("K='a\\nb'", "a\\nb"),
        ('K="a\\nb\\t\\"c\\" \\\\ \\x"', 'a\nb\t"c" \\ x'),
        ("K=$HOME/${X}", "$HOME/${X}"),
        ('K="$HOME"', "$HOME"),
        ("K=a'b", "a'b"),
        ("K=ä", "ä"),
        ("K=1\nK=2", "2"),
    ],
)
def test_the_value_of_a_line(line: str, value: str) -> None:
    assert parse_env(line, ".env") == {"K": value}


def test_comments_blank_lines_and_windows_line_ends_are_accepted() -> None:
    assert parse_env("# A=1\r\n\r\n  # B=2\r\nC=3\r\nexport D='4'\r\n", ".env") == {"C": "3", "D": "4"}


def test_export_may_be_a_name() -> None:
    assert parse_env("export=1", ".env") == {"export": "1"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hunter2", "expected KEY=value"),
        ("=hunter2", "expected KEY=value"),
        ("1K=hunter2", "expected KEY=value"),
        ("A-B=hunter2", "expected KEY=value"),
        ("K: hunter2", "expected KEY=value"),
        ("export K", "expected KEY=value"),
        ("K='hunter2", "K: the quote is not closed on its line"),
        ('K="hunter2\\"', "K: the quote is not closed on its line"),
        ("K='hunter2'x", "K: unexpected text after the closing quote"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_env(f"A=1\r\n\r\n{line}\r\n", "/x/.env")
    assert str(caught.value) == f"/x/.env:3: {said}"


def test_a_file_beside_the_config_is_read(tmp_path: Path) -> None:
    config = Config(path=None, root=tmp_path, db="x")
    assert dotenv_of(config) == {}
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbfALPHA_KEY=abc\r\n")
    assert dotenv_of(config) == {"ALPHA_KEY": "abc"}


def test_a_directory_called_env_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert read_env_file(tmp_path / ".env") == {}


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"K=\xff")
    with pytest.raises(ConfigError, match=r"\.env: not a text file — write it in UTF-8"):
        read_env_file(tmp_path / ".env")


PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "))


@given(PRINTABLE)
def test_a_quoted_value_round_trips(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_env(f'K="{escaped}"  # comment', ".env") == {"K": value}
    single = value.replace("'", "")
    assert parse_env(f"export K='{single}'", ".env") == {"K": single}


@given(st.text())
def test_any_text_is_read_or_refused_with_a_line_number(text: str) -> None:
    said = ""
    try:
        parse_env(text, ".env")
    except ConfigError as error:
        said = str(error)
    assert not said or re.match(r"\.env:\d+: ", said)


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line(odd: str) -> None:
    assert parse_env(f'A="x{odd}B=y"\r\nC=z\r\n', ".env") == {"A": f"x{odd}B=y", "C": "z"}


@pytest.mark.parametrize(
    ("mode", "who"),
    [
        (0o600, ""),
        (0o400, ""),
        (0o700, ""),
        (0o644, "every user"),
        (0o602, "every user"),
        (0o640, "its group"),
    ],
)
def test_a_file_that_others_can_read_is_exposed(tmp_path: Path, mode: int, who: str) -> None:
    path = tmp_path / ".env"
    path.write_text("K=abc")
    path.chmod(mode)
    said = exposed(path)
    assert (said is None) == (not who)
    if said is not None:
        assert who in said[0]
        assert f"(mode {mode:03o})" in said[0]
        assert said[1] == f"chmod 600 {path}"


def test_a_file_of_another_user_is_exposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".env"
    path.write_text("K=abc")
    path.chmod(0o600)
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    said = exposed(path)
    assert said is not None
    assert "belongs to another user" in said[0]


def test_no_file_and_a_directory_are_not_exposed(tmp_path: Path) -> None:
    assert exposed(tmp_path / ".env") is None
    (tmp_path / ".env").mkdir()
    assert exposed(tmp_path / ".env") is None
