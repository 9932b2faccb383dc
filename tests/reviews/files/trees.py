"""Makes trees of files for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headway.executors.worktrees.git_command import git
from headway.reviews.files.selection import FileChoice, select
from headway.reviews.records import ReviewedFile


def make_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a root; a path that ends in a slash is an empty folder."""
    for name, content in files.items():
        place = root / name
        if name.endswith("/"):
            place.mkdir(parents=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def selected(root: Path, choice: FileChoice | None = None) -> tuple[dict[str, ReviewedFile], dict[str, str]]:
    """The files of a tree by path, in their order, and what is left out."""
    found = select(root, choice or FileChoice())
    files = {file.path: file for file in found.files}
    return files, found.left_out


def make_repository(root: Path) -> None:
    """An empty git repository with an author, on the branch `main`."""
    root.mkdir(parents=True, exist_ok=True)
    git(("init", "--quiet", "--initial-branch=main"), directory=os.fspath(root))


def commit_all(root: Path, subject: str = "change") -> None:
    """Commit every file of the tree."""
    git(("add", "--all"), directory=os.fspath(root))
    author = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgSign=false")
    git((*author, "commit", "--quiet", "--allow-empty", "-m", subject), directory=os.fspath(root))
