"""Files that differ from a git revision, or are staged: which ones, and their diffs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.reviews.files.trees import commit_all, make_repository, make_tree, selected

from headway.errors import UsageError
from headway.executors.worktrees.git_command import GitError, git
from headway.reviews.files.changes import changed_files
from headway.reviews.files.selection import FileChoice, select


def run_git(root: Path, *arguments: str) -> None:
    git(arguments, directory=os.fspath(root))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit of four files."""
    root = tmp_path / "tree"
    make_repository(root)
    lines = "".join(f"line {number}\n" for number in range(1, 101))
    make_tree(root, {"a.py": lines, "b.py": "b\n", "old.py": lines.replace("line", "row"), "sub/c.py": "c\n"})
    make_tree(root, {".gitignore": "*.log\n"})
    commit_all(root, "first")
    return root


def kinds(root: Path, base: str = "", *, staged: bool = False) -> dict[str, str]:
    return {path: file.kind for path, file in changed_files(str(root), base, staged=staged).files.items()}


def test_every_kind_of_change_is_found(tree: Path) -> None:
    assert kinds(tree) == {}
    (tree / "b.py").unlink()
    (tree / "sub" / "c.py").write_text("changed\n")
    run_git(tree, "mv", "old.py", "new.py")
    make_tree(tree, {"odd\nname é.py": "x\n", "x.log": "ignored\n"})
    changes = changed_files(str(tree))
    assert {path: file.kind for path, file in changes.files.items()} == {
        "b.py": "deleted",
        "new.py": "renamed",
        "sub/c.py": "changed",
        "odd\nname é.py": "added",
    }
    assert changes.files["new.py"].before == "old.py"
    assert changes.paths == {"new.py", "sub/c.py", "odd\nname é.py"}
    assert changes.overview() == [
        "deleted: b.py (+0 -1)",
        "renamed: old.py → new.py",
        "added: odd\\nname é.py",
        "changed: sub/c.py (+1 -1)",
    ]


def test_a_branch_is_compared_from_where_it_began(tree: Path) -> None:
    run_git(tree, "checkout", "--quiet", "-b", "work")
    make_tree(tree, {"b.py": "mine\n"})
    commit_all(tree)
    run_git(tree, "checkout", "--quiet", "main")
    make_tree(tree, {"a.py": "of others\n"})
    commit_all(tree)
    run_git(tree, "checkout", "--quiet", "work")
    make_tree(tree, {"sub/c.py": "not committed\n"})
    assert kinds(tree, "main") == {"b.py": "changed", "sub/c.py": "changed"}
    assert kinds(tree) == {"sub/c.py": "changed"}


def test_paths_are_those_of_the_tree_that_is_reviewed(tree: Path) -> None:
    make_tree(tree, {"sub/c.py": "changed\n", "sub/d.py": "new\n", "a.py": "outside\n"})
    assert kinds(tree / "sub") == {"c.py": "changed", "d.py": "added"}


def test_a_diff_has_the_hunks_of_the_lines_that_are_asked_for(tree: Path) -> None:
    lines = (tree / "a.py").read_text().splitlines(keepends=True)
    lines[9], lines[49], lines[89] = "ten\n", "fifty\n", "ninety\n"
    (tree / "a.py").write_text("".join(lines))
    changes = changed_files(str(tree))
    whole = changes.diff_of("a.py", 1, 100, 10_000)
    assert [line for line in whole.splitlines() if line[0] in "+-"] == [
        "-line 10",
        "+ten",
        "-line 50",
        "+fifty",
        "-line 90",
        "+ninety",
    ]
    middle = changes.diff_of("a.py", 40, 60, 10_000)
    assert middle.startswith("@@ -47,7 +47,7 @@")
    assert "fifty" in middle
    assert "ninety" not in middle
    first = whole[: whole.index("@@ -47")]
    assert changes.diff_of("a.py", 1, 100, len(first)) == first + "[2 more hunks are not shown]\n"
    assert changes.diff_of("b.py", 1, 100, 10_000) == ""


def test_files_without_a_changed_line_have_no_hunks(tree: Path) -> None:
    run_git(tree, "mv", "old.py", "new.py")
    (tree / "b.py").chmod(0o755)
    make_tree(tree, {"added.py": "x\n"})
    changes = changed_files(str(tree))
    assert sorted(changes.paths) == ["added.py", "b.py", "new.py"]
    assert [changes.diff_of(path, 1, 100, 1000) for path in sorted(changes.paths)] == ["", "", ""]


def test_an_open_merge_is_no_crash(tree: Path) -> None:
    run_git(tree, "checkout", "--quiet", "-b", "other")
    make_tree(tree, {"b.py": "theirs\n"})
    commit_all(tree)
    run_git(tree, "checkout", "--quiet", "main")
    make_tree(tree, {"b.py": "ours\n"})
    commit_all(tree)
    with pytest.raises(GitError):
        run_git(
            tree, "-c", "user.name=Test", "-c", "user.email=test@example.com", "merge", "--quiet", "other"
        )
    assert kinds(tree) == {"b.py": "changed"}
    with pytest.raises(UsageError, match="is a merge open") as caught:
        changed_files(str(tree), staged=True)
    assert "git status" in str(caught.value)


def test_a_submodule_is_no_file(tree: Path) -> None:
    other = tree.parent / "other"
    make_repository(other)
    make_tree(other, {"x.py": "x\n"})
    commit_all(other)
    run_git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "module")
    make_tree(tree, {"b.py": "changed\n"})
    assert kinds(tree) == {".gitmodules": "added", "b.py": "changed"}
    assert "+changed" in changed_files(str(tree)).diff_of("b.py", 1, 1, 1000)


def test_before_the_first_commit_everything_is_added(tmp_path: Path) -> None:
    make_repository(tmp_path)
    make_tree(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    run_git(tmp_path, "add", "a.py")
    assert kinds(tmp_path) == {"a.py": "added", "b.py": "added"}
    assert kinds(tmp_path, staged=True) == {"a.py": "added"}


def test_what_is_staged_is_read_as_it_is_staged(tree: Path) -> None:
    make_tree(tree, {"b.py": "staged\n", "sub/c.py": "only in the tree\n", "new.py": "new\n"})
    run_git(tree, "add", "b.py", "new.py")
    (tree / "b.py").write_text("staged\nand more\n")
    (tree / "new.py").unlink()
    changes = changed_files(str(tree), staged=True)
    assert {path: file.kind for path, file in changes.files.items()} == {"b.py": "changed", "new.py": "added"}
    assert "more" not in changes.diff_of("b.py", 1, 10, 1000)
    found = select(tree, FileChoice(among=changes.paths, staged=True))
    assert [file.path for file in found.files] == ["b.py"]
    assert found.read("b.py").data == b"staged\n"
    assert found.left_out == {"new.py": "not in the tree"}


def test_a_file_that_changes_during_its_review_is_noticed(tree: Path) -> None:
    found = select(tree, FileChoice())
    files = {file.path: file for file in found.files}
    assert found.current_hash("b.py") == files["b.py"].hash
    make_tree(tree, {"b.py": "other\n"})
    (tree / "a.py").unlink()
    assert found.current_hash("b.py") not in ("", files["b.py"].hash)
    assert found.current_hash("a.py") == ""


def test_changed_files_in_folders_that_are_left_out_are_named(tree: Path) -> None:
    make_tree(tree, {"vendor/v.go": "v\n", "gen_pb2.py": "x\n"})
    _, left_out = selected(tree, FileChoice(among=changed_files(str(tree)).paths))
    assert left_out == {
        "gen_pb2.py": "generated: files that end in _pb2.py",
        "vendor/": "vendored: the code of others, or files of a tool",
        "vendor/v.go": "in vendor/, which is left out",
    }


def test_programs_of_the_repository_are_not_run(tree: Path, tmp_path: Path) -> None:
    for key in ("diff.external", "diff.own.command", "diff.own.textconv"):
        run_git(tree, "config", key, f"touch {tmp_path}/ran; cat")
    make_tree(tree, {".gitattributes": "*.py diff=own\n", "b.py": "changed\n"})
    assert "+changed" in changed_files(str(tree)).diff_of("b.py", 1, 1, 1000)
    assert not (tmp_path / "ran").exists()


def test_settings_of_the_user_do_not_change_the_diff(tree: Path) -> None:
    for key, value in {
        "color.diff": "always",
        "diff.noprefix": "true",
        "diff.context": "0",
        "diff.renames": "no",
    }.items():
        run_git(tree, "config", key, value)
    (tree / "b.py").write_text("changed\n")
    run_git(tree, "mv", "old.py", "new.py")
    changes = changed_files(str(tree))
    assert changes.files["b.py"].diff.startswith("diff --git a/b.py b/b.py\n")
    assert changes.files["new.py"].kind == "renamed"


@pytest.mark.parametrize("base", ["nothing", "--output=x", "main:b.py"])
def test_a_wrong_revision_is_named(tree: Path, base: str) -> None:
    with pytest.raises(UsageError, match="is no commit"):
        changed_files(str(tree), base)


def test_without_a_repository_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--staged: git rev-parse: not a git repository"):
        changed_files(str(tmp_path), staged=True)
