"""Which headway.toml is used, and which is refused."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.ownership import STRANGER, give_away

from headway.config import find, load
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


def test_the_nearest_config_up_to_the_home_directory_is_used(tree: Path) -> None:
    project = tree / "work" / "project"
    assert find(project) is None
    assert find(project) == find(tree)
    for folder in (tree, tree / "work", project):
        path = write(folder)
        assert find(project) == path


def test_a_config_above_the_home_directory_is_an_error(tree: Path) -> None:
    above = write(tree.parent)
    with pytest.raises(ConfigError, match=f"{above}: it is above {tree}, your home directory") as caught:
        find(tree / "work")
    assert f"--config {above}" in (caught.value.hint or "")


@pytest.mark.parametrize("mark", [".git", ".hg", ".jj"])
def test_a_config_above_the_repository_is_an_error(tree: Path, mark: str) -> None:
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


def test_outside_of_home_and_repository_the_search_goes_up_to_the_root(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    path = write(tmp_path)
    assert find(tree / "work") == path


def test_a_config_of_another_user_is_refused_in_a_parent(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tree)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="it belongs to another user") as caught:
        find(tree / "work")
    assert f"--config {path}" in (caught.value.hint or "")


def test_a_config_of_another_user_is_refused_in_the_working_directory(
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


def test_a_config_of_root_is_used_in_the_working_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tree)
    give_away(path, monkeypatch, user=0)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert find(tree) == path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root")
@pytest.mark.parametrize("how", ["the directory's owner", "sudo"])
def test_root_uses_configs_of_a_checkout_and_of_the_user_who_called_sudo(
    tree: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = write(tree)
    give_away(path, monkeypatch)
    if how == "sudo":
        monkeypatch.setenv("SUDO_UID", str(STRANGER))
    else:
        give_away(tree, monkeypatch)
    assert find(tree) == path


def test_our_own_writable_config_is_used_in_the_working_directory(tree: Path) -> None:
    """Some file systems (Windows mounts) show all files as writable for every user."""
    path = write(tree)
    path.chmod(0o666)
    assert find(tree) == path


def test_a_config_that_every_user_may_write_is_refused_in_a_parent(tree: Path) -> None:
    path = write(tree)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="every user may write it"):
        find(tree / "work")
    path.chmod(0o664)
    assert find(tree / "work") == path


def test_a_config_that_every_user_may_replace_is_refused_in_a_parent(tree: Path) -> None:
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


# -- groups -------------------------------------------------------------------------------------------------------

ME, GROUP = "me", 4321


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the users of the files' group, as the system reports them."""

    def told(primary: int = GROUP, members: tuple[str, ...] = (), others: tuple[int, ...] = ()) -> None:
        me = SimpleNamespace(pw_name=ME, pw_uid=os.geteuid(), pw_gid=primary)
        users = [me, *(SimpleNamespace(pw_name="b", pw_uid=os.geteuid() + 1, pw_gid=gid) for gid in others)]
        monkeypatch.setattr(pwd, "getpwuid", lambda _: me)
        monkeypatch.setattr(pwd, "getpwall", lambda: users)
        monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name="team", gr_mem=list(members)))

    real = {name: getattr(os, name) for name in ("stat", "lstat")}
    for name in real:
        monkeypatch.setattr(os, name, lambda path, name=name, **how: _in_group(real[name](path, **how)))
    return told


def _in_group(seen: os.stat_result) -> os.stat_result:
    return os.stat_result((*seen[:5], GROUP, *seen[6:10]))


SHARED = [{"primary": 7}, {"members": (ME, "b")}, {"others": (GROUP,)}]


@pytest.mark.parametrize("how", SHARED, ids=["not our own", "other members", "another user's own, too"])
def test_a_config_that_a_shared_group_may_write_is_refused_in_a_parent(
    tree: Path, group: Callable[..., None], how: dict[str, Any]
) -> None:
    group(**how)
    path = write(tree)
    path.chmod(0o664)
    with pytest.raises(ConfigError, match=r"its group \(team\) may write it") as caught:
        find(tree / "work")
    assert f"--config {path}" in (caught.value.hint or "")
    assert find(tree) == path


@pytest.mark.parametrize("how", SHARED, ids=["not our own", "other members", "another user's own, too"])
def test_a_config_that_a_shared_group_may_replace_is_refused_in_a_parent(
    tree: Path, group: Callable[..., None], how: dict[str, Any]
) -> None:
    group(**how)
    path = write(tree)
    tree.chmod(0o775)
    with pytest.raises(ConfigError, match=r"its group \(team\) may replace it"):
        find(tree / "work")
    tree.chmod(0o1775)
    assert find(tree / "work") == path


def test_a_private_group_is_trusted(tree: Path, group: Callable[..., None]) -> None:
    group(members=(ME,), others=(7,))
    path = write(tree)
    path.chmod(0o664)
    tree.chmod(0o775)
    assert find(tree / "work") == path


def test_an_unknown_group_or_user_counts_as_shared(
    tree: Path, group: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    group()

    def unknown(number: int) -> Any:
        raise KeyError(number)

    write(tree).chmod(0o664)
    monkeypatch.setattr(grp, "getgrgid", unknown)
    with pytest.raises(ConfigError, match=rf"its group \(number {GROUP}\) may write it"):
        find(tree / "work")
    group()
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(ConfigError, match=r"its group \(team\) may write it"):
        find(tree / "work")


# -- .env ---------------------------------------------------------------------------------------------------------


def env_file(folder: Path) -> Path:
    path = folder / ".env"
    path.write_text("OPENAI_API_KEY=theirs\nOPENAI_BASE_URL=https://evil.example/v1\n")
    path.chmod(0o600)
    return path


def providers(start: Path, config: Path | None = None) -> list[str]:
    return list(load(config, start, {}).providers)


@pytest.mark.parametrize("mode", [0o606, 0o602])
def test_an_env_file_that_every_user_may_write_is_refused_in_a_parent(tree: Path, mode: int) -> None:
    write(tree)
    path = env_file(tree)
    assert providers(tree / "work") == ["openai"]
    path.chmod(mode)
    with pytest.raises(ConfigError, match=rf"{path}: every user may write it") as caught:
        load(None, tree / "work", {})
    assert f"--config {tree / 'headway.toml'}" in (caught.value.hint or "")
    assert providers(tree) == ["openai"]


@pytest.mark.parametrize("where", ["parent", "here", "here, without a config"])
def test_an_env_file_of_another_user_is_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = env_file(tree)
    if "without" not in where:
        write(tree)
    give_away(path, monkeypatch)
    with pytest.raises(ConfigError, match=rf"{path}: it belongs to another user") as caught:
        load(None, tree / "work" if where == "parent" else tree, {})
    assert "--config" in (caught.value.hint or "")


def test_an_env_file_beside_a_named_config_is_used(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tree)
    give_away(env_file(tree), monkeypatch)
    assert providers(tree / "work", config) == ["openai"]


def test_a_virtual_environment_called_env_is_not_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree)
    (tree / ".env").mkdir()
    give_away(tree / ".env", monkeypatch)
    assert providers(tree / "work") == []
