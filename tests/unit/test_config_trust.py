"""Which headway.toml is used, and which one is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.ownership import STRANGER, give_away

from headway.config import find
from headway.errors import ConfigError


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a project two levels down."""
    home = tmp_path / "home" / "me"
    (home / "work" / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def write(folder: Path) -> Path:
    path = folder / "headway.toml"
    path.write_text("")
    return path


def test_the_nearest_one_up_to_the_home_directory_is_used(tree: Path) -> None:
    project = tree / "work" / "project"
    assert find(project) is None
    assert find(project) == find(tree)
    for folder in (tree, tree / "work", project):
        path = write(folder)
        assert find(project) == path


def test_one_above_the_home_directory_is_an_error_that_names_it(tree: Path) -> None:
    above = write(tree.parent)
    with pytest.raises(ConfigError, match=f"{above}: it is above {tree}, your home directory") as caught:
        find(tree / "work")
    assert f"--config {above}" in (caught.value.hint or "")


@pytest.mark.parametrize("mark", [".git", ".hg", ".jj"])
def test_one_above_the_repository_is_an_error_that_names_it(tree: Path, mark: str) -> None:
    above = write(tree)
    root = tree / "work"
    (root / mark).mkdir()
    with pytest.raises(ConfigError, match=f"{above}: it is above {root}, the root of the repository"):
        find(root / "project")
    inside = write(root)
    assert find(root / "project") == inside


def test_a_worktree_whose_git_is_a_file_is_a_repository(tree: Path) -> None:
    write(tree)
    (tree / "work" / ".git").write_text("gitdir: elsewhere\n")
    with pytest.raises(ConfigError, match="the root of the repository"):
        find(tree / "work" / "project")


def test_outside_of_both_the_search_goes_up_to_the_root(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    path = write(tmp_path)
    assert find(tree / "work") == path


def test_one_of_another_user_is_refused_in_a_parent(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tree)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="it belongs to another user") as caught:
        find(tree / "work")
    assert f"--config {path}" in (caught.value.hint or "")


def test_one_of_another_user_is_refused_in_the_working_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tree)
    give_away(path, monkeypatch)
    with pytest.raises(ConfigError, match="it belongs to another user") as caught:
        find(tree)
    assert f"--config {path}" in (caught.value.hint or "")


def test_a_link_of_another_user_is_refused_in_the_working_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write(tree / "work")
    (tree / "headway.toml").symlink_to(target)
    assert find(tree) == tree / "headway.toml"
    give_away(tree / "headway.toml", monkeypatch)
    with pytest.raises(ConfigError, match="it belongs to another user"):
        find(tree)


def test_one_of_root_is_used_in_the_working_directory(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tree)
    give_away(path, monkeypatch, user=0)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert find(tree) == path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root")
@pytest.mark.parametrize("how", ["the directory's owner", "sudo"])
def test_root_uses_the_one_of_a_checkout_and_of_the_user_who_called_sudo(
    tree: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = write(tree)
    give_away(path, monkeypatch)
    if how == "sudo":
        monkeypatch.setenv("SUDO_UID", str(STRANGER))
    else:
        give_away(tree, monkeypatch)
    assert find(tree) == path


def test_our_own_that_every_user_may_write_is_used_in_the_working_directory(tree: Path) -> None:
    """Some file systems (mounts of Windows) show all files so."""
    path = write(tree)
    path.chmod(0o666)
    assert find(tree) == path


def test_one_that_every_user_may_write_is_refused_in_a_parent(tree: Path) -> None:
    path = write(tree)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="every user may write it"):
        find(tree / "work")
    path.chmod(0o664)
    assert find(tree / "work") == path


def test_one_that_every_user_may_replace_is_refused_in_a_parent(tree: Path) -> None:
    path = write(tree)
    tree.chmod(0o777)
    with pytest.raises(ConfigError, match="every user may replace it"):
        find(tree / "work")
    tree.chmod(0o1777)  # As /tmp is: only the owner replaces a file.
    assert find(tree / "work") == path


def test_a_link_to_a_file_that_every_user_may_write_is_refused(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "theirs.toml"
    target.write_text("")
    target.chmod(0o666)
    (tree / "headway.toml").symlink_to(target)
    with pytest.raises(ConfigError, match="every user may write it"):
        find(tree / "work")
