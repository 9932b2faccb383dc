"""`headway run` with agents: files and tables as their work, worktrees, directories that writers do not share, folders of results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

#: Speaks like Claude Code. It notes when it begins and ends, and edits a file unless its prompt says otherwise.
AGENT = """#!{python}
import json, os, pathlib, sys, time
prompt = sys.stdin.read()
log = pathlib.Path({log!r})
def note(what):
    with log.open("a") as file:
        file.write(json.dumps({{"what": what, "at": time.monotonic(), "cwd": os.getcwd(), "argv": sys.argv[1:], "prompt": prompt}}) + "\\n")
note("begin")
time.sleep(0.2)
if "nothing" not in prompt:
    pathlib.Path("edited.txt").write_text(prompt)
    pathlib.Path("out").mkdir(exist_ok=True)
    pathlib.Path("out/report.txt").write_text("report")
print(json.dumps({{"type": "system", "subtype": "init", "session_id": "s"}}))
print(json.dumps({{"type": "assistant", "message": {{"content": [{{"type": "text", "text": "working"}}]}}}}))
note("end")
print(json.dumps({{"type": "result", "subtype": "success", "result": "done: " + prompt, "num_turns": 2, "session_id": "s",
    "usage": {{"input_tokens": 10, "output_tokens": 5}}, "total_cost_usd": 0.25}}))
"""


def git(*arguments: str, cwd: Path, data: bytes | None = None) -> str:
    done = subprocess.run(
        ("git", "-c", "user.name=n", "-c", "user.email=e", *arguments),
        cwd=cwd,
        input=data,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


class Agents:
    """A directory with the program `claude` on the path, and what it noted."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "agents.log"

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def most_at_once(self) -> int:
        now = most = 0
        for note in sorted(self.notes(), key=lambda note: note["at"]):
            now += 1 if note["what"] == "begin" else -1
            most = max(most, now)
        return most

    def rows(self, *rows: dict[str, Any]) -> str:
        path = self.root / "tasks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def repository(self) -> None:
        (self.root / ".gitignore").write_text("*\n!kept.txt\n!edited.txt\n!out/**\n")
        (self.root / "kept.txt").write_text("kept\n")
        git("init", "--quiet", "--initial-branch=main", cwd=self.root)
        git("add", "kept.txt", cwd=self.root)
        git("commit", "--quiet", "--message=first", cwd=self.root)


@pytest.fixture
def agents(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Agents:
    made = Agents(stage.root)
    folder = stage.root / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(AGENT.format(python=sys.executable, log=str(made.log)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (stage.root / "headway.toml").unlink()
    return made


def test_files_are_work_for_an_agent_without_a_table_for_it(agents: Agents, headway: Headway) -> None:
    (agents.root / "src" / "b").mkdir(parents=True)
    (agents.root / "src" / "a.py").write_text("x = 1")
    (agents.root / "src" / "b" / "c.py").write_text("y = 2")
    (agents.root / "fix.md").write_text("Fix {{path}}: {{text}}\n")
    planned = headway("plan", "src/**/*.py", "--prompt", "@fix.md", "--provider", "claude", "--json")
    assert json.loads(planned.out)["requests"] == 2
    done = headway("run", "src/**/*.py", "--prompt", "@fix.md", "--provider", "claude", "--quiet")
    assert done.code == 0, done.err
    for command in (("status",), ("lanes",), ("jobs",), ("export",)):
        assert headway(*command).code == 0, command
    prompts = sorted(note["prompt"] for note in agents.notes() if note["what"] == "end")
    assert prompts == ["Fix src/a.py: x = 1", "Fix src/b/c.py: y = 2"]
    rows = [json.loads(line) for line in (agents.root / "src.results.jsonl").read_text().splitlines()]
    assert [row["headway"]["text"] for row in rows] == [f"done: {prompt}" for prompt in prompts]
    assert headway("resume").code == 0  # Without --provider: the job knows its own.


def test_rows_of_a_table_are_work_for_an_agent(agents: Agents, headway: Headway) -> None:
    (agents.root / "tickets.csv").write_text("id,title\nt1,Broken login\nt2,Slow page\n")
    done = headway("run", "tickets.csv", "--prompt", "Fix: {{title}}", "--model", "claude/sonnet", "--quiet")
    assert done.code == 0, done.err
    ends = [note for note in agents.notes() if note["what"] == "end"]
    assert sorted(note["prompt"] for note in ends) == ["Fix: Broken login", "Fix: Slow page"]
    assert all(note["argv"][note["argv"].index("--model") + 1] == "sonnet" for note in ends)


def test_a_system_prompt_and_an_unknown_provider_are_errors(agents: Agents, headway: Headway) -> None:
    (agents.root / "t.csv").write_text("id,title\nt1,a\n")
    done = headway("run", "t.csv", "--prompt", "{{title}}", "--provider", "claude", "--system", "Be brief")
    assert done.code == 2
    assert "a program gets no system prompt: write it at the beginning of the prompt" in done.err
    done = headway("run", "t.csv", "--prompt", "{{title}}", "--provider", "claud")
    assert done.code == 2
    assert "--provider: there is no provider of that name; did you mean 'claude'?" in done.err
    done = headway("run", "t.csv", "--prompt", "{{title}}", "--provider", "xyz")
    assert "there are: claude, codex, gemini-cli, opencode" in done.err
    (agents.root / "headway.toml").write_text('[providers.f]\nkind = "claud"\n')
    done = headway("run", "t.csv", "--prompt", "{{title}}")
    assert done.code == 2
    assert "did you mean 'claude'?" in done.err


def test_agents_in_one_directory_run_one_at_a_time(agents: Agents, headway: Headway) -> None:
    (agents.root / "sub").mkdir()
    rows = [{"id": f"u{n}", "prompt": f"p{n}"} for n in range(3)]
    file = agents.rows(*rows, {"id": "below", "prompt": "q", "agent": {"directory": "sub"}})
    assert headway("run", file, "--provider", "claude", "--quiet").code == 0
    assert agents.most_at_once() == 1


def test_a_shared_directory_and_readers_run_side_by_side(agents: Agents, headway: Headway) -> None:
    rows = [{"id": f"u{n}", "prompt": f"p{n}"} for n in range(5)]
    file = agents.rows(*rows)
    assert headway("run", file, "--provider", "claude", "--shared-directory", "--quiet").code == 0
    assert agents.most_at_once() > 1
    agents.log.unlink()
    file = agents.rows(*({**row, "agent": {"permission_mode": "plan"}} for row in rows))
    assert headway("run", file, "--provider", "claude", "--quiet").code == 0
    assert agents.most_at_once() > 1


def test_directories_beside_each_other_run_side_by_side(agents: Agents, headway: Headway) -> None:
    rows = []
    for n in range(4):
        (agents.root / f"d{n}").mkdir()
        rows.append({"id": f"u{n}", "prompt": "p", "agent": {"directory": f"d{n}"}})
    (agents.root / "headway.toml").write_text(
        '[providers.claude]\nkind = "claude"\npreflight = "none"\ndirectory = "d0"\n'
    )
    assert headway("run", agents.rows(*rows), "--quiet").code == 0
    assert agents.most_at_once() > 1


def test_a_worktree_for_each_unit(agents: Agents, headway: Headway, tmp_path: Path) -> None:
    agents.repository()
    file = agents.rows(
        {"id": "a/1", "prompt": "one"}, {"id": "b", "prompt": "nothing"}, {"id": "c", "prompt": "three"}
    )
    done = headway(
        "run", file, "--provider", "claude", "--worktree", "--out-dir", "D", "--collect", "out/**", "--quiet"
    )
    assert done.code == 0, done.err
    kept = json.loads(headway("worktrees", "--json").out)
    assert [one["unit"] for one in kept] == ["a/1", "c"]
    job = kept[0]["job"]
    assert kept[1]["branch"] == f"headway/{job}/c"
    assert kept[1]["directory"] == str(agents.root / ".headway" / "worktrees" / job / "c")
    assert not (agents.root / "edited.txt").exists()
    folder = agents.root / "D" / "c"
    assert (folder / "answer.txt").read_text() == "done: three\n"
    assert (folder / "files" / "out" / "report.txt").read_text() == "report"
    roles = [json.loads(line)["role"] for line in (folder / "transcript.jsonl").read_text().splitlines()]
    assert roles[:2] == ["user", "assistant"]
    assert not (agents.root / "D" / "b" / "diff.patch").exists()
    diff = (folder / "diff.patch").read_bytes()
    assert headway("worktrees", "show", job, "c").out.encode() == diff
    git("apply", "-", cwd=agents.root, data=diff)
    assert (agents.root / "edited.txt").read_text() == "three"
    shown = headway("show", job, "c").out
    assert f"branch: headway/{job}/c" in shown
    removed = json.loads(headway("worktrees", "remove", job, "--json").out)
    assert [one["unit"] for one in removed["left"]] == ["a/1", "c"]
    assert "not committed" in removed["left"][0]["why"]
    assert headway("worktrees", "remove", job, "c").code == 1
    assert headway("worktrees", "remove", "--force").out == "removed 2 of 2 worktrees\n"
    assert headway("worktrees").out.startswith("there are no worktrees")
    assert headway("worktrees", "show", job, "c").out.encode() == diff, "the recorded diff is kept"


def test_a_worktree_whose_changes_cannot_be_read_is_not_removed_without_force(
    agents: Agents, headway: Headway
) -> None:
    agents.repository()
    (agents.root / "t.jsonl").write_text('{"custom_id": "a", "prompt": "fix"}\n')
    assert headway("run", "t.jsonl", "--provider", "claude", "--worktree", "--name", "j").code == 0
    place = agents.root / ".headway" / "worktrees" / "j" / "a"
    (agents.root / ".git" / "worktrees" / "a" / "index").write_text("broken")
    done = headway("worktrees", "remove", "j")
    assert "removed 0 of 1 worktree\n  j a stays: its changes cannot be read: git status:" in done.out
    assert (place / "edited.txt").exists()
    assert headway("worktrees", "remove", "--force").out == "removed 1 of 1 worktree\n"
    assert not place.exists()


def test_a_branch_with_commits_stays_and_is_named_until_force_removes_it(
    agents: Agents, headway: Headway
) -> None:
    agents.repository()
    file = agents.rows(*({"id": f"u{n}", "prompt": f"p{n}"} for n in range(3)))
    assert headway("run", file, "--provider", "claude", "--worktree", "--name", "j", "--quiet").code == 0
    for unit in ("u0", "u1"):
        place = agents.root / ".headway" / "worktrees" / "j" / unit
        git("add", "edited.txt", cwd=place)
        git("commit", "--quiet", "--message=work", cwd=place)
        git("clean", "-dfxq", cwd=place)
    done = headway("worktrees", "remove", "j", "u0", "u1")
    assert done.out.splitlines() == [
        "removed 2 of 2 worktrees",
        "  u0: its commits stay on branch headway/j/u0 (--force removes it, too)",
        "  u1: its commits stay on branch headway/j/u1 (--force removes it, too)",
    ]
    listed = headway("worktrees").out
    assert "j  u0: removed, its commits are on its branch\n  branch headway/j/u0\n" in listed
    assert "refs/heads/headway/j/u0" in git("for-each-ref", cwd=agents.root)
    assert headway("worktrees", "remove", "j", "gone").code == 2
    again = headway("worktrees", "remove", "j", "u0")
    assert again.code == 1
    assert "u0 stays: only its branch headway/j/u0 is left (--force removes it)" in again.out
    git("branch", "-D", "headway/j/u1", cwd=agents.root)
    assert "u1" not in headway("worktrees").out, "the user has deleted it"
    assert headway("worktrees", "remove", "j", "--force").out == "removed 2 of 2 worktrees\n"
    assert "headway/j/" not in git("for-each-ref", cwd=agents.root)
    assert headway("worktrees").out.startswith("there are no worktrees")


def test_worktrees_stay_an_option_of_the_job(agents: Agents, headway: Headway) -> None:
    """A killed or failed run that used worktrees is resumed in worktrees, without the option."""
    agents.repository()
    file = agents.rows({"id": "u", "prompt": "p"})
    program = agents.root / "bin" / "claude"
    text = program.read_text()
    program.write_text(text.replace('note("end")', "sys.exit(9)"))
    assert (
        headway("run", file, "--provider", "claude", "--worktree", "--max-attempts", "1", "--quiet").code == 1
    )
    program.write_text(text)
    assert headway("run", file, "--provider", "claude", "--quiet").code == 0
    places = {note["cwd"] for note in agents.notes()}
    assert len(places) == 1, places
    assert "/.headway/worktrees/" in places.pop()


def test_worktrees_need_a_repository_and_an_agent(agents: Agents, headway: Headway, stage: Stage) -> None:
    file = agents.rows({"id": "u", "prompt": "p"})
    done = headway("run", file, "--provider", "claude", "--worktree")
    assert done.code == 2
    assert "--worktree:" in done.err
    assert "not a git repository" in done.err
    assert not agents.log.exists()
    stage.configure()
    done = headway("run", str(stage.input), "--worktree")
    assert done.code == 2
    assert "--worktree is for agents and programs, and this job has none" in done.err
    done = headway("run", file, "--provider", "claude", "--collect", "out/**")
    assert done.code == 2
    assert "--out-dir" in done.err


@pytest.mark.parametrize("branch", ["headway", "headway/j"])
def test_a_branch_in_the_way_of_those_of_units_is_an_error(
    agents: Agents, headway: Headway, branch: str
) -> None:
    agents.repository()
    git("branch", branch, cwd=agents.root)
    rows = agents.rows({"custom_id": "a", "prompt": "fix"})
    done = headway("run", rows, "--provider", "claude", "--worktree", "--name", "j")
    assert done.code == 2
    assert f"the branch '{branch}' stands in the way of branches 'headway/j/UNIT': rename it" in done.err
    assert not agents.log.exists()


def test_uncommitted_changes_are_pointed_out(agents: Agents, headway: Headway) -> None:
    agents.repository()
    (agents.root / "kept.txt").write_text("changed\n")
    done = headway(
        "run",
        agents.rows({"id": "u", "prompt": "p"}),
        "--provider",
        "claude",
        "--worktree",
        "--progress",
        "plain",
    )
    assert "has changes that are not committed: the worktrees start from commit" in done.err


def test_folders_of_results_are_never_input(agents: Agents, headway: Headway) -> None:
    (agents.root / "docs").mkdir()
    (agents.root / "docs" / "a.txt").write_text("text")
    ask = (
        "run",
        "docs/**/*.txt",
        "--prompt",
        "nothing {{text}}",
        "--provider",
        "claude",
        "--out-dir",
        "docs/out",
        "--progress",
        "none",
    )
    assert headway(*ask).code == 0
    again = headway(*ask)
    assert again.code == 0
    assert "is already complete" in again.err
    assert len(agents.notes()) == 2, "an answer was taken for a file to ask about"


@pytest.mark.parametrize(
    "own", [{"permission_mode": "bypassPermissions"}, {"args": ["--dangerously-skip-permissions"]}]
)
def test_permissions_are_bypassed_only_by_the_configuration(
    agents: Agents, headway: Headway, own: dict[str, Any]
) -> None:
    file = agents.rows({"id": "u", "prompt": "p", "agent": own})
    done = headway("run", file, "--provider", "claude", "--progress", "plain")
    assert done.code == 2
    assert "permissions are bypassed only by permission_mode or args in headway.toml" in done.err
    assert not agents.log.exists()
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
    (agents.root / "headway.toml").write_text(f'[providers.claude]\nkind = "claude"\n{lines}')
    done = headway("run", file, "--fresh", "--progress", "plain")
    assert done.code == 0, done.err
    assert "agents: claude bypasses permissions: its agents run every command without being asked" in done.err


def test_a_link_in_place_of_a_units_folder_is_an_error(
    agents: Agents, headway: Headway, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (agents.root / "D").mkdir()
    (agents.root / "D" / "u").symlink_to(outside)
    file = agents.rows({"id": "u", "prompt": "p"})
    done = headway("run", file, "--provider", "claude", "--out-dir", "D", "--progress", "none")
    assert done.code == 2
    assert "leads out of --out-dir" in done.err
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        ({"max_turn": 3}, '"agent" has no key "max_turn"; did you mean "max_turns"?'),
        ({"colour": 3}, '"agent" has no key "colour"; it has directory, args,'),
        ({"max_turns": "many"}, '"agent": max_turns: expected a whole number of 0 or more'),
        ("fast", '"agent" must be an object'),
        ({"directory": "nowhere"}, '"directory": nowhere is not a directory'),
        ({"permission_mode": "bypassPermissions"}, '"agent": permissions are bypassed only by'),
    ],
)
def test_a_wrong_agent_in_a_row_is_found_before_anything_runs(
    agents: Agents, headway: Headway, agent: object, error: str
) -> None:
    file = agents.rows({"id": "good", "prompt": "p"}, {"id": "bad", "prompt": "p", "agent": agent})
    for options in ((), ("--dry-run",)):
        done = headway("run", file, "--provider", "claude", "--quiet", *options)
        assert done.code == 2
        assert f"tasks.jsonl:2: {error}" in done.err
    assert not agents.log.exists()


def test_a_missing_directory_of_a_provider_is_found_before_anything_runs(
    agents: Agents, headway: Headway
) -> None:
    (agents.root / "headway.toml").write_text('[providers.f]\nkind = "claude"\ndirectory = "gone"\n')
    done = headway("run", agents.rows({"id": "a", "prompt": "p"}), "--quiet")
    assert done.code == 2
    assert "providers.f.directory: gone is not a directory" in done.err
    assert not agents.log.exists()
    checked = headway("doctor")
    assert checked.code == 1
    assert "gone is not a directory" in checked.out + checked.err
