"""Files that commands create: modes, temporary files, links in Headway's folders, network file systems."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

import headway as library
from headway.stores.sqlite import mounts

TABLES = ("--prompt", "say {{text}}")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_a_run_keeps_its_records_to_its_owner_and_results_under_the_umask(
    stage: Stage, headway: Headway, mask: int
) -> None:
    with umask(mask):
        assert headway("plan", "in.jsonl").code == 0
        assert headway("run", "in.jsonl", "-q", "--log-file", "run.log").code == 0
    below = list((stage.root / ".headway").rglob("*"))
    assert {path.name for path in below} >= {"headway.db", "jobs", "lock", "progress.json"}
    for path in (stage.root / ".headway", *below):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(stage.out) == mode(stage.root / "run.log") == 0o666 & ~mask
    assert names(stage.root) == [".headway", "headway.toml", "in.jsonl", "in.results.jsonl", "run.log"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.tsv"])
def test_an_exported_file_keeps_its_mode_and_others_are_not_touched(
    stage: Stage, headway: Headway, name: str
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    mine = stage.root / f"{name}.new"
    mine.write_text("mine")
    with umask(0o022):
        assert headway("export", "--out", name).code == 0
        out = stage.root / name
        assert mode(out) == 0o644
        first = out.read_bytes()
        out.chmod(0o600)
        assert headway("export", "--out", name, "--force").code == 0
    assert (mode(out), out.read_bytes()) == (0o600, first)
    assert mine.read_text() == "mine"
    assert not [each for each in names(stage.root) if each.endswith((".headway-tmp", ".headway-lock"))]


@pytest.mark.parametrize(
    ("out", "flags"), [("out.csv", []), ("out.jsonl", ["--out-order", "completion"]), ("out.jsonl", [])]
)
def test_a_run_that_writes_its_results_again_keeps_their_mode(
    stage: Stage, headway: Headway, out: str, flags: list[str]
) -> None:
    path = stage.root / out
    (stage.root / f"{out}.new").write_text("mine")
    with umask(0o022):
        assert headway("run", "in.jsonl", "-q", "--out", out, *flags).code == 0
        assert mode(path) == 0o644
        path.chmod(0o640)
        assert headway("run", "in.jsonl", "-q", "--out", out, *flags).code == 0
        assert mode(path) == 0o640
        path.write_text("")
        assert headway("run", "in.jsonl", "-q", "--out", out, *flags, "--force").code == 0
    assert mode(path) == 0o640
    assert path.stat().st_size
    assert (stage.root / f"{out}.new").read_text() == "mine"


@pytest.mark.parametrize("what", ["jobs", "job", "lock"])
def test_a_link_in_headways_own_folder_stops_a_run_before_anything_is_sent(
    stage: Stage, headway: Headway, what: str
) -> None:
    assert headway("run", "in.jsonl", "-q", "--max-duration", "1ms").code == 3
    [folder] = (stage.root / ".headway" / "jobs").iterdir()
    elsewhere = stage.root / "elsewhere"
    (elsewhere / folder.name).mkdir(parents=True)
    for path in (elsewhere / "lock", elsewhere / folder.name / "lock"):
        path.write_text("mine")
    sent = sum(stage.sent(index) for index in range(stage.units))
    place, target = {
        "jobs": (folder.parent, elsewhere),
        "job": (folder, elsewhere),
        "lock": (folder / "lock", elsewhere / "lock"),
    }[what]
    place.rename(stage.root / "moved")
    place.symlink_to(target)

    done = headway("run", "in.jsonl", "-q")

    assert done.code == 1
    assert done.err == f"headway: {place} is a symbolic link, which Headway does not follow — remove it\n"
    assert {path.read_text() for path in elsewhere.rglob("lock")} == {"mine"}
    assert sum(stage.sent(index) for index in range(stage.units)) == sent
    assert headway("status").code == headway("jobs").code == 0


def test_a_link_in_the_place_of_the_progress_file_is_replaced_and_not_followed(
    stage: Stage, headway: Headway
) -> None:
    assert headway("run", "in.jsonl", "-q", "--max-duration", "1ms").code == 3
    [path] = (stage.root / ".headway" / "jobs").glob("*/progress.json")
    precious = stage.root / "precious"
    precious.write_text("mine")
    for link in (path, path.with_name("progress.json.new")):
        link.unlink(missing_ok=True)
        link.symlink_to(precious)
    assert headway("run", "in.jsonl", "-q").code == 0
    assert precious.read_text() == "mine"
    assert not path.is_symlink()
    assert stage.progress()["totals"]["succeeded"] == stage.units


def test_a_new_config_is_not_writable_by_others(stage: Stage, headway: Headway) -> None:
    path = stage.root / "headway.toml"
    path.unlink()
    with umask(0):
        assert headway("init").code == 0
        assert mode(path) == 0o644
        path.chmod(0o600)
        (stage.root / "headway.toml.new").write_text("mine")
        assert headway("init", "--force").code == 0
    assert mode(path) == 0o600
    assert (stage.root / "headway.toml.new").read_text() == "mine"


# -- network file systems ------------------------------------------------------------------------------------


@pytest.fixture
def on_nfs(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table of mounts says that the stage is on a network file system."""
    table = tmp_path_factory.mktemp("proc") / "mounts"
    table.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/export {stage.root} nfs4 rw 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    return f"the database is on nfs4 ({stage.root}): locks and durability there depend on the server"


def test_a_run_names_a_network_file_system_under_its_database(
    stage: Stage, headway: Headway, on_nfs: str
) -> None:
    warning = f"warning: {on_nfs}; put db on a local disk\n"
    assert headway("run", "in.jsonl", "--max-duration", "1ms").err.startswith(warning)
    assert headway("resume").err.startswith(warning)
    assert on_nfs not in headway("run", "in.jsonl", "-q").err


def test_doctor_names_it_too(headway: Headway, on_nfs: str) -> None:
    assert f"file system: {on_nfs} — put db on a local disk" in headway("doctor", "--offline").out


def test_python_programs_are_warned(stage: Stage, on_nfs: str) -> None:
    with pytest.warns(UserWarning, match="put db on a local disk") as caught:
        assert library.map(str, [1], db=stage.root / "h.db", key=str) == ["1"]
    [warning] = caught
    assert str(warning.message) == f"{on_nfs}; put db on a local disk"
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert library.map(str, [1]) == ["1"]
