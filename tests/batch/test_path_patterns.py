"""Patterns, directories and lists of files: which files they mean, and in which order."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from headway.batch.inputs.path_patterns import files_of, is_file_set, results_place
from headway.errors import UsageError

TREE = [
    "docs/b.txt",
    "docs/a.txt",
    "docs/a/z.txt",
    "docs/a.d/y.txt",
    "docs/deep/er/x.txt",
    "docs/deep/note.md",
    "docs/.hidden.txt",
    "docs/.git/config.txt",
    "other/a.txt",
]


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(*arguments: str) -> list[str]:
    return list(files_of(arguments))


def by_parts(paths: Sequence[str]) -> list[str]:
    return sorted(paths, key=lambda path: path.split("/"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("docs/*.txt", ["docs/a.txt", "docs/b.txt"]),
        ("docs/?.txt", ["docs/a.txt", "docs/b.txt"]),
        ("docs/[b-z].txt", ["docs/b.txt"]),
        ("docs/*/*.txt", ["docs/a/z.txt", "docs/a.d/y.txt"]),
        (
            "docs/**/*.txt",
            ["docs/a/z.txt", "docs/a.d/y.txt", "docs/a.txt", "docs/b.txt", "docs/deep/er/x.txt"],
        ),
        ("**/a.txt", ["docs/a.txt", "other/a.txt"]),
        ("docs/**/er/**/*.txt", ["docs/deep/er/x.txt"]),
        ("docs/.*.txt", ["docs/.hidden.txt"]),
        ("./docs/../docs/b.*", ["docs/b.txt"]),
    ],
)
def test_a_pattern_matches_as_in_a_shell(pattern: str, expected: list[str]) -> None:
    assert files(pattern) == expected


@pytest.mark.parametrize(
    "pattern", ["docs/*.txt", "docs/**/*", "**", "*/*", "docs/**/*.txt", "**/deep/**/*", "do*/**/a*/*.txt"]
)
def test_patterns_match_what_pythons_glob_matches(pattern: str) -> None:
    found = {path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)}
    assert files(pattern) == by_parts(list(found))


def test_a_directory_means_all_files_below_it_except_hidden_ones() -> None:
    everything = [name for name in TREE if name.startswith("docs/") and "/." not in name]
    assert files("docs") == files("docs/") == by_parts(everything)


def test_overlapping_arguments_name_each_file_once_in_order(tree: Path) -> None:
    several = ("other", "docs/b.txt", "docs/*.txt", str(tree / "docs" / "a.txt"), "docs/b.txt")
    assert files(*several) == ["docs/a.txt", "docs/b.txt", "other/a.txt"]


def test_a_name_with_a_star_that_exists_is_literal(tree: Path) -> None:
    (tree / "docs" / "[1]*.txt").write_text("x")
    assert files("docs/[1]*.txt") == ["docs/[1]*.txt"]
    assert files("docs/*.txt") == ["docs/[1]*.txt", "docs/a.txt", "docs/b.txt"]


def test_links_to_folders_make_no_loops(tree: Path) -> None:
    (tree / "docs" / "loop").symlink_to(tree / "docs")
    (tree / "docs" / "c.txt").symlink_to("b.txt")
    assert files("docs/**/*.txt").count("docs/b.txt") == 1
    assert "docs/c.txt" in files("docs/*.txt")
    assert "docs/loop/b.txt" in files("docs/loop/*.txt"), "a link that is named is followed"
    assert not any("loop" in path for path in files("docs/*/*.txt")), "one that a wildcard matches is not"
    assert "docs/loop" not in files("docs/*")


def test_files_outside_of_the_working_directory_keep_their_path(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree / "other")
    assert files("../docs/*.txt") == ["../docs/a.txt", "../docs/b.txt"]
    assert files(f"{tree}/docs/*.txt") == [f"{tree}/docs/a.txt", f"{tree}/docs/b.txt"]


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(UsageError, match="there is no directory dosc"):
        files("dosc/*.txt")


@pytest.mark.parametrize(
    ("arguments", "prompt", "expected"),
    [
        (["docs/*.txt"], "p", True),
        (["docs"], None, True),
        (["a.jsonl", "b.jsonl"], None, True),
        (["docs/a.txt"], "p", True),
        (["docs/a.txt"], None, False),
        (["missing.txt"], "p", False),
        (["-"], "p", False),
        ([""], None, False),
    ],
)
def test_what_counts_as_a_set_of_files(arguments: list[str], prompt: str | None, expected: bool) -> None:
    assert is_file_set(arguments, prompt) is expected


def test_rows_and_tables_are_not_texts(tree: Path) -> None:
    for name in ("in.jsonl", "in.jsonl.gz", "in.csv", "in.parquet"):
        (tree / name).write_text("")
        assert not is_file_set([name], "p")


def test_results_are_named_after_the_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert results_place(["docs/*.txt"]).name == "docs"
    assert results_place(["docs/**/*.txt"]).name == "docs"
    assert results_place(["docs/deep/"]).name == "deep"
    assert results_place(["docs/a.txt", "docs/b.txt"]).name == "docs"
    assert results_place(["docs/a.txt", "other/a.txt"]).name == tree.name
    monkeypatch.chdir(tree / "docs")
    assert results_place(["*.txt"]).name == "docs"
