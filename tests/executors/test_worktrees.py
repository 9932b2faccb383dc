"""Worktrees of units: made, repaired after a kill, read without a change to the repository, and removed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.executors.worktrees.collected_files import collect_files
from headway.executors.worktrees.git_command import GitError, git
from headway.executors.worktrees.repository import RepositoryLock, repository_of
from headway.executors.worktrees.safe_names import safe_name
from headway.executors.worktrees.unit_worktrees import UnitWorktrees, WorktreeRecord

#: What git itself says about a branch's name.
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def run(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        ("git", "-c", "user.name=n", "-c", "user.email=e", *arguments),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo with: space"
    (root / "sub").mkdir(parents=True)
    run("init", "--quiet", "--initial-branch=main", cwd=root)
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "sub" / "b.bin").write_bytes(bytes(range(256)))
    (root / ".gitignore").write_text("ignored\n")
    run("add", "--all", cwd=root)
    run("commit", "--quiet", "--message=first", cwd=root)
    return root


@pytest.fixture
def worktrees(tmp_path: Path) -> UnitWorktrees:
    return UnitWorktrees(tmp_path / "worktrees", tmp_path / "jobs" / "job" / "worktrees", "job")


def opened(
    worktrees: UnitWorktrees, repository: Path, unit: str = "u", owner: str = "job 1 0"
) -> WorktreeRecord:
    return worktrees.open(owner, unit, str(repository))[0]


def branches(repository: Path) -> list[str]:
    return run("branch", "--format=%(refname:short)", cwd=repository).split()


def test_a_diff_has_new_and_binary_files_and_applies(
    repository: Path, worktrees: UnitWorktrees, tmp_path: Path
) -> None:
    record, place = worktrees.open("job 1 0", "u", str(repository / "sub"))
    assert place == os.path.join(record.directory, "sub")
    work = Path(record.directory)
    (work / "a.txt").write_bytes(b"one\nzw\xf6lf\n")
    (work / "sub" / "b.bin").write_bytes(bytes(reversed(range(256))))
    (work / "new file.txt").write_text("new\n")
    (work / "ignored").write_text("x")
    before = run("count-objects", "-v", cwd=repository)
    changes = worktrees.changes(record)
    assert run("count-objects", "-v", cwd=repository) == before, (
        "reading the changes added objects to the repository"
    )
    assert run("status", "--porcelain", cwd=work) == ' M a.txt\n M sub/b.bin\n?? "new file.txt"\n', (
        "the index was changed"
    )
    assert changes.status.splitlines() == [" M a.txt", " M sub/b.bin", '?? "new file.txt"']
    clone = tmp_path / "clone"
    run("clone", "--quiet", str(repository), str(clone), cwd=tmp_path)
    (tmp_path / "p").write_bytes(changes.diff)
    run("apply", str(tmp_path / "p"), cwd=clone)
    assert (clone / "a.txt").read_bytes() == b"one\nzw\xf6lf\n"
    assert (clone / "sub" / "b.bin").read_bytes() == bytes(reversed(range(256)))
    assert (clone / "new file.txt").read_text() == "new\n"


def test_commits_are_part_of_the_diff_and_keep_the_branch(repository: Path, worktrees: UnitWorktrees) -> None:
    record = opened(worktrees, repository)
    (Path(record.directory) / "a.txt").write_text("three\n")
    run("commit", "--quiet", "--all", "--message=a change", cwd=Path(record.directory))
    changes = worktrees.changes(record)
    assert [line.partition(" ")[2] for line in changes.commits] == ["a change"]
    assert changes.status == ""
    assert b"+three" in changes.diff
    assert not changes.is_clean(record.start_commit)
    worktrees.remove(record)
    assert not os.path.exists(record.directory)
    assert branches(repository) == ["headway/job/u", "main"]
    worktrees.drop_branch(record)
    assert branches(repository) == ["main"]


def test_a_clean_one_leaves_nothing(repository: Path, worktrees: UnitWorktrees, tmp_path: Path) -> None:
    record = opened(worktrees, repository)
    assert worktrees.changes(record).is_clean(record.start_commit)
    worktrees.remove(record)
    assert branches(repository) == ["main"]
    assert not (tmp_path / "worktrees").exists()
    assert not (repository / ".git" / "worktrees").exists()
    assert list(worktrees.all()) == []


def test_a_further_attempt_works_in_the_same_one_without_stale_locks(
    repository: Path, worktrees: UnitWorktrees
) -> None:
    record = opened(worktrees, repository)
    (Path(record.directory) / "half").write_text("done")
    Path(record.git_dir, "index.lock").touch()  # Of a git that was killed.
    again = opened(worktrees, repository)
    assert again == record
    assert (Path(record.directory) / "half").read_text() == "done"
    run("add", "half", cwd=Path(record.directory))


@pytest.mark.parametrize("left", ["nothing", "folder", "no_folder", "half_state", "branch"])
def test_one_that_a_kill_left_half_made_is_made_again(
    repository: Path, worktrees: UnitWorktrees, left: str, tmp_path: Path
) -> None:
    record = opened(worktrees, repository)
    path = tmp_path / "jobs" / "job" / "worktrees" / "u.json"
    path.write_text(path.read_text().replace('"is_ready":true', '"is_ready":false'))
    state, folder = Path(record.git_dir), Path(record.directory)
    if left in ("no_folder", "half_state", "branch"):
        run("worktree", "lock", record.directory, cwd=repository)
        for name in ("a.txt", "sub/b.bin", ".gitignore", ".git"):
            (folder / name).unlink()
        (folder / "sub").rmdir()
        folder.rmdir()
    if left == "half_state":  # git was killed after its first file.
        for name in ("gitdir", "HEAD", "commondir"):
            (state / name).unlink()
    if left == "branch":
        run("worktree", "remove", "--force", "--force", record.directory, cwd=repository)
    if left == "folder":
        (folder / "a.txt").unlink()
        (folder / "stray").write_text("of a checkout that was killed")
    (repository / ".git" / "refs" / "heads" / "headway" / "job" / "u.lock").touch()
    again = opened(worktrees, repository)
    assert again.is_ready
    assert worktrees.changes(again).is_clean(record.start_commit)
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert len(list((repository / ".git" / "worktrees").iterdir())) == 1
    worktrees.remove(again)
    assert branches(repository) == ["main"]


def test_all_units_of_a_job_start_from_one_commit(repository: Path, worktrees: UnitWorktrees) -> None:
    first = opened(worktrees, repository)
    run("commit", "--quiet", "--allow-empty", "--message=meanwhile", cwd=repository)
    second = opened(worktrees, repository, "v", "job 1 1")
    assert second.start_commit == first.start_commit


def test_names_that_are_taken_are_avoided(repository: Path, worktrees: UnitWorktrees) -> None:
    run("branch", "headway/job/u", cwd=repository)  # The user's.
    record = opened(worktrees, repository)
    assert record.branch != "headway/job/u"
    other = opened(worktrees, repository, "u", "job 2 0")  # A job of the same name in another database.
    assert len({record.branch, other.branch, "headway/job/u"}) == 3
    assert opened(worktrees, repository) == record


def test_many_at_once(repository: Path, worktrees: UnitWorktrees) -> None:
    def one(n: int) -> bytes:
        record = opened(worktrees, repository, f"u{n}", f"job 1 {n}")
        (Path(record.directory) / f"new{n}").write_text(str(n))
        diff = worktrees.changes(record).diff
        worktrees.remove(record)
        return diff

    with ThreadPoolExecutor(8) as pool:
        diffs = list(pool.map(one, range(16)))
    assert all(f"+++ b/new{n}".encode() in diff for n, diff in enumerate(diffs))
    assert branches(repository) == ["main"]
    assert list((repository / ".git").rglob("*.lock")) == []


def test_hooks_and_variables_of_the_shell_have_no_effect(
    repository: Path, worktrees: UnitWorktrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repository / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 1\n")
        hook.chmod(0o755)
    run("config", "core.fsmonitor", f"touch {tmp_path}/monitor-ran", cwd=repository)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    record = opened(worktrees, repository)
    (Path(record.directory) / "new").write_text("x")
    assert b"+x" in worktrees.changes(record).diff
    worktrees.remove(record)
    assert not (tmp_path / "hook-ran").exists()
    assert not (tmp_path / "monitor-ran").exists()


def test_an_agent_cannot_lead_git_elsewhere(
    repository: Path, worktrees: UnitWorktrees, tmp_path: Path
) -> None:
    """The `.git` file of a worktree is the agent's to write: what it names is not read."""
    record = opened(worktrees, repository)
    evil = tmp_path / "evil"
    run("init", "--quiet", str(evil), cwd=tmp_path)
    run("config", "core.fsmonitor", f"touch {tmp_path}/monitor-ran", cwd=evil)
    Path(record.directory, ".git").write_text(f"gitdir: {evil}/.git\n")
    Path(record.directory, "a.txt").write_text("changed\n")
    assert b"+changed" in worktrees.changes(record).diff
    worktrees.remove(record)
    assert not (tmp_path / "monitor-ran").exists()
    assert not os.path.exists(record.directory)
    assert evil.exists()


def test_a_repository_with_submodules(repository: Path, worktrees: UnitWorktrees, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    run("init", "--quiet", cwd=inner)
    run("commit", "--quiet", "--allow-empty", "--message=i", cwd=inner)
    run(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "module",
        cwd=repository,
    )
    run("commit", "--quiet", "--message=with a submodule", cwd=repository)
    record = opened(worktrees, repository)
    assert worktrees.changes(record).is_clean(record.start_commit)
    (Path(record.directory) / "a.txt").write_text("x\n")
    assert b"a/a.txt" in worktrees.changes(record).diff
    worktrees.remove(record)
    assert branches(repository) == ["main"]


def test_a_repository_inside_of_the_worktree_is_a_remark(repository: Path, worktrees: UnitWorktrees) -> None:
    record = opened(worktrees, repository)
    (Path(record.directory) / "clone").mkdir()
    run("init", "--quiet", cwd=Path(record.directory) / "clone")
    changes = worktrees.changes(record)
    assert not changes.is_clean(record.start_commit)
    worktrees.remove(record)


def test_directories_without_a_usable_repository_are_errors(worktrees: UnitWorktrees, tmp_path: Path) -> None:
    with pytest.raises(GitError, match="not a git repository"):
        worktrees.open("job 1 0", "u", str(tmp_path))
    run("init", "--quiet", str(tmp_path / "empty"), cwd=tmp_path)
    with pytest.raises(GitError, match="has no commit yet"):
        worktrees.open("job 1 0", "u", str(tmp_path / "empty"))
    with pytest.raises(GitError, match="is not there"):
        worktrees.open("job 1 0", "u", str(tmp_path / "missing"))


def test_a_git_process_keeps_the_lock_of_a_killed_owner(repository: Path) -> None:
    """The owner is killed while git runs under its lock: others wait until git has ended."""
    script = (
        "import os, subprocess, sys\n"
        "from headway.executors.worktrees.repository import RepositoryLock\n"
        "with RepositoryLock(sys.argv[1]) as lock:\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import sys; print(1, flush=True); sys.stdin.read()'],"
        " pass_fds=(lock.descriptor,), stdin=0, stdout=1, start_new_session=True)\n"
        "    child.wait()\n"
    )
    common = repository_of(str(repository)).common
    owner = subprocess.Popen(
        (sys.executable, "-c", script, common), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    assert owner.stdout.readline() == b"1\n"
    owner.kill()
    owner.wait()
    descriptor = os.open(common, os.O_RDONLY)
    import fcntl

    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    owner.stdin.close()  # The child ends.
    with RepositoryLock(common):
        pass
    os.close(descriptor)
    owner.stdout.close()


@given(st.lists(st.text(min_size=1, max_size=120), unique=True, max_size=20))
def test_names_are_distinct_and_valid_refs(ids: list[str]) -> None:
    names = [safe_name(text) for text in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert _REF.fullmatch(name)
        assert len(name) <= 100
        assert ".." not in name
        assert not name.endswith((".", ".lock"))


@pytest.mark.parametrize(
    "text",
    [
        "-x",
        "--force",
        "../../etc",
        "a/b",
        "a..b",
        "x.lock",
        "@{u}",
        "HEAD^",
        "a\nb",
        "\udcff",
        " ",
        "é" * 300,
    ],
)
def test_hostile_names_become_valid_branches(text: str, tmp_path: Path) -> None:
    git(("check-ref-format", f"refs/heads/headway/job/{safe_name(text)}"), directory=str(tmp_path))


def test_plain_names_stay() -> None:
    assert [safe_name(text) for text in ("u1", "row-17", "v1.2_x")] == ["u1", "row-17", "v1.2_x"]
    assert safe_name("src/app.py").startswith("src-app.py-")


def test_collected_files_are_copies_of_regular_files_only(tmp_path: Path) -> None:
    work, target = tmp_path / "work", tmp_path / "kept"
    (work / "out" / "deep").mkdir(parents=True)
    (work / "out" / "a.txt").write_text("a")
    (work / "out" / "deep" / "b.txt").write_text("b")
    (work / "other.txt").write_text("c")
    (tmp_path / "secret").write_text("s")
    (work / "out" / "link").symlink_to(tmp_path / "secret")
    (work / "out" / "folder").symlink_to(tmp_path)
    os.mkfifo(work / "out" / "pipe")
    assert collect_files(str(work), ["out/**"], target).files == ["out/a.txt", "out/deep/b.txt"]
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()) == [
        "out/a.txt", "out/deep/b.txt"
    ]  # fmt: skip
    assert collect_files(str(work), ["*.txt", "out/*/b.txt"], target).files == ["other.txt", "out/deep/b.txt"]
    assert collect_files(str(work), ["../secret", "/secret"], target).files == []
    (work / ".git").write_text("gitdir: elsewhere")
    assert collect_files(str(work), ["*"], target).files == ["other.txt"]


def test_too_many_and_too_large_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.executors.worktrees import collected_files

    work = tmp_path / "work"
    work.mkdir()
    for n in range(4):
        (work / f"f{n}").write_bytes(b"x" * 10)
    monkeypatch.setattr(collected_files, "MOST_BYTES", 25)
    found = collect_files(str(work), ["**"], tmp_path / "kept")
    assert found.files == ["f0", "f1"]
    assert found.remarks[0] == "f2 was not collected: a unit keeps at most 25 bytes of files"
    monkeypatch.setattr(collected_files, "MOST_FILES", 1)
    assert collect_files(str(work), ["**"], tmp_path / "kept").remarks == [
        "only the first 1 files were collected"
    ]


def test_a_change_in_the_moment_of_the_checkout_is_seen(repository: Path, worktrees: UnitWorktrees) -> None:
    """A file of the same size and time as the one in the index: git looks into it only if the index has the same time."""
    record = opened(worktrees, repository)
    file, index = Path(record.directory, "a.txt"), Path(record.git_dir, "index")
    before = file.stat()
    file.write_text("ONE\nTWO\n")
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))
    os.utime(index, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert b"+ONE" in worktrees.changes(record).diff


def test_filters_work_as_in_the_users_checkout(
    repository: Path, worktrees: UnitWorktrees, tmp_path: Path
) -> None:
    """As git LFS does: the repository has another content than the working tree."""
    run("config", "filter.up.clean", "tr a-z A-Z", cwd=repository)
    run("config", "filter.up.smudge", "tr A-Z a-z", cwd=repository)
    (repository / ".gitattributes").write_text("*.up filter=up\n")
    (repository / "x.up").write_text("one\n")
    run("add", "--all", cwd=repository)
    run("commit", "--quiet", "--message=filtered", cwd=repository)
    record = opened(worktrees, repository)
    assert worktrees.changes(record).is_clean(record.start_commit)
    assert Path(record.directory, "x.up").read_text() == "one\n"
    Path(record.directory, "x.up").write_text("one\ntwo\n")
    (tmp_path / "p").write_bytes(worktrees.changes(record).diff)
    run("apply", str(tmp_path / "p"), cwd=repository)
    assert (repository / "x.up").read_text() == "one\ntwo\n"


def test_git_runs_no_program_that_an_agent_names_in_a_submodule(
    repository: Path, worktrees: UnitWorktrees, tmp_path: Path
) -> None:
    """An agent in a sandbox may write inside of its worktree only: what git runs afterwards is outside of the sandbox."""
    run("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module", cwd=repository)
    run("commit", "--quiet", "--message=with a submodule", cwd=repository)
    record = opened(worktrees, repository)
    module = Path(record.directory, "module")
    run("init", "--quiet", cwd=module)
    (module / "f").write_text("1")
    run("add", "f", cwd=module)
    run("commit", "--quiet", "--message=inner", cwd=module)
    commit = run("rev-parse", "HEAD", cwd=module).strip()
    (module / ".gitattributes").write_text("* filter=evil\n")
    run("config", "filter.evil.clean", f"touch {tmp_path}/filter-ran; cat", cwd=module)
    (module / "f").write_text("2")
    Path(record.directory, ".gitmodules").write_text('[submodule "m"]\npath = module\nignore = none\n')
    for _ in range(2):
        changes = worktrees.changes(record)
        assert not changes.is_clean(record.start_commit)
        assert f"+Subproject commit {commit}".encode() in changes.diff
        assert changes.remark == "files inside of the submodule module are not recorded"
        run("update-index", "--cacheinfo", f"160000,{commit},module", cwd=Path(record.directory))
        (module / "f").write_text("3")
    worktrees.remove(record)
    assert not (tmp_path / "filter-ran").exists()


def test_commits_without_a_branch_are_kept_on_the_branch_of_the_unit(
    repository: Path, worktrees: UnitWorktrees
) -> None:
    record = opened(worktrees, repository)
    place = Path(record.directory)
    run("checkout", "--quiet", "--detach", cwd=place)
    (place / "new").write_text("x")
    run("add", "new", cwd=place)
    run("commit", "--quiet", "--message=on no branch", cwd=place)
    worktrees.remove(record)
    assert run("log", "-1", "--format=%s", record.branch, cwd=repository).strip() == "on no branch"
    worktrees.drop_branch(record)
    assert branches(repository) == ["main"]
