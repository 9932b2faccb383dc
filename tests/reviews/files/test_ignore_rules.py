"""The rules of .gitignore files: ours beside git's own on random trees."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reviews.files.trees import make_repository, make_tree, selected

from headway.executors.worktrees.git_command import git
from headway.reviews.files.selection import FileChoice

FILES = tuple(f"{folder}{name}" for folder in ("", "x/", "x/y/", "y/") for name in ("a.py", "b.log", "c"))
PATTERNS = (
    *(
        "*",
        "*.py",
        "*.log",
        "/a.py",
        "x/",
        "/x",
        "x/*",
        "x/y",
        "**/y",
        "x/**",
        "y/",
        "c",
        "[ab].*",
        "?",
        "x/**/c",
    ),
    *(
        "!*/",
        "!*.py",
        "!a.py",
        "!x",
        "!/x/",
        "!x/y/",
        "!c",
        "!x/y/c",
        "# note",
        "",
        " ",
        "\\#c",
        "!",
        "[",
        "a.py  ",
    ),
)
RULES = st.dictionaries(
    st.sampled_from(["", "x/", "x/y/", "y/"]),
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=5),
    max_size=3,
)


def files_of_git(root: Path) -> set[str]:
    """The files that git would add."""
    listing = git(("ls-files", "-z", "--others", "--exclude-standard"), directory=os.fspath(root))
    return {name.decode() for name in listing.split(b"\0") if name}


@settings(max_examples=60, deadline=None)
@given(RULES)
def test_the_same_files_as_git(rules: dict[str, list[str]]) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        make_repository(root)
        make_tree(root, dict.fromkeys(FILES, "x\n"))
        make_tree(root, {f"{folder}.gitignore": "\n".join(lines) + "\n" for folder, lines in rules.items()})
        files, left_out = selected(root)
        empty = {path for path, reason in left_out.items() if reason == "empty"}
        assert set(files) | empty == files_of_git(root)
    finally:
        shutil.rmtree(root)


def test_rules_from_outside_of_the_tree_count(tmp_path: Path) -> None:
    make_repository(tmp_path)
    make_tree(tmp_path, {".gitignore": "*.log\n/pkg/sub/only.py\n", "pkg/.gitignore": "!kept.log\n"})
    make_tree(tmp_path, {".git/info/exclude": "mine.py\n"})
    names = ("a.log", "kept.log", "only.py", "mine.py", "b.py")
    root = make_tree(tmp_path / "pkg" / "sub", dict.fromkeys(names, "x\n"))
    files, left_out = selected(root)
    assert set(files) == {"kept.log", "b.py"}
    assert left_out == {
        "a.log": "ignored by .gitignore",
        "only.py": "ignored by .gitignore",
        "mine.py": "ignored by exclude",
    }


def test_a_tree_that_is_ignored_itself_is_reviewed(tmp_path: Path) -> None:
    make_repository(tmp_path)
    make_tree(tmp_path, {".gitignore": "out/\n"})
    root = make_tree(tmp_path / "out" / "deep", {"a.py": "x\n"})
    assert selected(root) == selected(root, FileChoice(paths=(".",)))
    assert list(selected(root)[0]) == ["a.py"]


def test_a_link_instead_of_a_gitignore_is_not_read(tmp_path: Path) -> None:
    elsewhere = make_tree(tmp_path / "elsewhere", {"list": "*.py\n"})
    root = make_tree(tmp_path / "tree", {"a.py": "x\n"})
    (root / ".gitignore").symlink_to(elsewhere / "list")
    assert list(selected(root)[0]) == ["a.py"]
