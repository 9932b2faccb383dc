"""Commands that messages and pages tell the user to type work when they are copied: with the --config and --db of the command line, and
never with a password.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.crash.stage import Stage
from tests.dashboard.dashboard_process import dashboard
from tests.postgres_server import PASSWORD, PostgresServer

from headway.command_flags import WITH_FLAGS

from .conftest import Headway

_COMMAND = re.compile(rf"headway (?:{'|'.join(WITH_FLAGS)})\b[^;\n—\"]*")


def _commands(text: str) -> list[str]:
    return [found.strip(" '.)") for found in _COMMAND.findall(text)]


@pytest.fixture
def elsewhere(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The flags of a user who is in another folder. Half of the units fail."""
    rows = [
        {"id": f"u{n}", "messages": [{"role": "user", "content": "say" if n % 2 else n}]} for n in range(6)
    ]
    stage.write_input(rows)
    (stage.root / "there").mkdir()
    monkeypatch.chdir(stage.root / "there")
    return ("--config", "../headway.toml", "--db", "../records.db")


def test_commands_in_messages_can_be_copied(elsewhere: tuple[str, ...], headway: Headway) -> None:
    lines = (
        ("jobs",), ("run", "../in.jsonl", "--max-attempts", "1"), ("status",), ("show",), ("show", "in-", "none"), ("pause",), ("lanes",),
        ("cache", "why", "JOB", "x"), ("retry",), ("budget", "1", "2", "3"), ("run", "../in.jsonl", "--max-duration", "1ms", "--fresh"), ("status",),
        ("attach", "-q"),
    )  # fmt: skip
    said = "".join(f"{done.out}{done.err}" for done in (headway(*line, *elsewhere) for line in lines))
    commands = _commands(said)
    assert len(commands) >= 5, said
    assert [line for line in commands if "--config ../headway.toml --db ../records.db" not in line] == [], (
        said
    )
    resume = next(line for line in commands if line.startswith("headway resume "))
    assert headway(*shlex.split(resume)[1:]).code in (0, 1), resume


def test_a_page_shows_the_flags_and_no_password(
    stage: Stage, elsewhere: tuple[str, ...], headway: Headway, postgres_server: PostgresServer
) -> None:
    place = ("--config", "../headway.toml", "--db", postgres_server.address_with_password())
    assert headway("run", "../in.jsonl", "--max-attempts", "1", "--name", "j", *place).code == 1
    stage.root = Path.cwd()
    with dashboard(stage, *place) as page:
        shell = page.get("/").body.decode()
        job = page.get("/api/jobs/j").json
        unit = page.get("/api/jobs/j/units/0").json
        refused = page.post("/api/jobs/j/approve", {"node": "x"}).error
        again = page.post("/api/jobs/j/retry", {"failed": True})
    assert again.status == 200, again
    said = json.dumps([job, unit, refused, again.json], ensure_ascii=False).replace("\\n", "\n")
    assert PASSWORD not in shell + said
    assert "data-flags=" in shell
    flags = re.search(
        r'<body data-flags="--config \S+ --db &#x27;postgresql://headway@127[^"]*schema=\w+&#x27;">', shell
    )
    assert flags is not None, shell
    commands = _commands(said)
    assert unit["command"].strip("'") in commands
    assert [line for line in commands if "--config " not in line or " --db " not in line] == [], said
