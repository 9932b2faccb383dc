"""The file of results: a section that is measured again is replaced, and the others stay as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench import results
from bench.results import Part


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    assert results.read(path) == {}
    parts = {
        "lanes": Part("2026-01-02", "CPython, two cores", [], ["## Lanes", "", "| a |", "|---|", "| 1 |"]),
        "speed": Part(
            "2026-01-03", "CPython, 4 cores", ["20 µs, the bar is 10"], ["## Speed", "", "20 µs"], "0a1b2c3d"
        ),
    }
    results.write(path, parts)
    assert results.read(path) == parts
    assert "- speed: 20 µs, the bar is 10" in path.read_text(encoding="utf-8")
    met = Part("2026-01-04", "CPython, 4 cores", [], ["## Speed", "", "9 µs"])
    results.write(path, {**results.read(path), "speed": met})
    assert results.read(path) == {**parts, "speed": met}
    assert "Every bar is met." in path.read_text(encoding="utf-8")


def test_a_section_with_a_hyphen_in_its_name_is_kept(tmp_path: Path) -> None:
    parts = {
        name: Part("2026-01-02", "CPython", [], ["## A", "", "1"], "0a1b2c3d")
        for name in ("cold-start", "real")
    }
    results.write(tmp_path / "RESULTS.md", parts)
    assert results.read(tmp_path / "RESULTS.md") == parts


def test_a_section_is_not_outdated_by_code_that_only_another_one_runs(tmp_path: Path) -> None:
    def commit(name: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        for arguments in (["init", "-q"], ["add", "-A"], [*person, "commit", "-qm", "a change"]):
            subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)
        return results.present_commit(tmp_path)

    first = commit("src/headway/engine/engine.py")
    commit("src/headway/flows/flow_file.py")
    assert results.outdated(tmp_path, first, "flows")
    assert not results.outdated(tmp_path, first, "million")
    commit("src/headway/stores/store.py")
    assert results.outdated(tmp_path, first, "million")


def test_a_section_names_its_commit_and_is_marked_once_the_code_has_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *person, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        git("add", "-A")
        git("commit", "-m", "a change")
        return results.present_commit(tmp_path)

    git("init", "-q")
    first = commit("src/code.py", "1")
    assert not results.outdated(tmp_path, first)
    second = commit("bench/RESULTS.md", "figures")
    assert second != first
    assert not results.outdated(tmp_path, first), "the results are not what is measured"
    (tmp_path / "src/code.py").write_text("2")
    assert results.present_commit(tmp_path) == second + "+"
    assert results.outdated(tmp_path, first)
    commit("src/code.py", "2")
    assert results.outdated(tmp_path, first)
    assert results.outdated(tmp_path, ""), "a section without a commit may be of any age"
    assert results.outdated(tmp_path, "0a1b2c3d"), "a commit that is not here"

    path = tmp_path / "RESULTS.md"
    parts = {name: Part("2026-01-02", "CPython", [], ["## A", "", "1"], first) for name in ("old", "new")}
    results.write(path, parts, ["old"])
    assert results.read(path) == parts
    text = path.read_text(encoding="utf-8")
    assert "**Older than the code:** old." in text
    assert text.count(f"Measured on 2026-01-02, commit {first} (older than the code): CPython.") == 1
    assert text.count(f"Measured on 2026-01-02, commit {first}: CPython.") == 1


def test_a_section_depends_on_what_it_measures_and_a_record_keeps_the_others(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *person, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for name in ("src/headway/core/lane.py", "src/headway/cli/run.py", "tests/crash/test_kill.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-m", "all")
    path = tmp_path / "RESULTS.md"
    for name in ("fuzz", "crash", "lanes", "real"):
        results.record(tmp_path, path, {name: (["## A", "", "1"], [])})
    assert list(results.read(path)) == ["lanes", "real", "crash", "fuzz"], "in the usual order"
    assert "Older than the code" not in path.read_text(encoding="utf-8")

    (tmp_path / "src/headway/cli/run.py").write_text("2")
    git("commit", "-am", "a command")
    results.record(tmp_path, path, {})
    assert "**Older than the code:** real, crash." in path.read_text(encoding="utf-8")
    (tmp_path / "src/headway/core/lane.py").write_text("2")
    git("commit", "-am", "a lane")
    results.record(tmp_path, path, {"crash": (["## A", "", "2"], ["one"])})
    assert "**Older than the code:** lanes, real." in path.read_text(encoding="utf-8")
    assert results.read(path)["crash"].missed == ["one"]
