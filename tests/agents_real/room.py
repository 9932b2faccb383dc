"""A network namespace that has only loopback, and what runs in it: the fake provider, and `headway` with real agent CLIs.

The CLIs look for updates and send telemetry where they can. In here nothing but the fake can be reached.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from bench.servers import installed
from bench.servers.litellm import entrance
from bench.servers.running import process
from tests.agents_real import clis
from tests.crash.stage import Stage, open_records, wait_for

PATIENCE_S: Final = 90.0
_GET: Final = (
    "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
)


class Room(msgspec.Struct, frozen=True):
    """The namespace: `prefix` is the command in front of another that runs it inside."""

    prefix: tuple[str, ...]

    @contextmanager
    def fake(self, folder: Path, config: dict[str, Any]) -> Iterator[RoomFake]:
        """`headway fake` inside."""
        (folder / "fake.yaml").write_bytes(msgspec.json.encode(config))  # JSON is YAML.
        command = [*self.prefix, sys.executable, "-P", "-m", "headway", "fake", "--port", "0", "--json", "-q"]
        started = subprocess.Popen(
            [*command, "--config", str(folder / "fake.yaml")], stdout=subprocess.PIPE, text=True
        )
        assert started.stdout is not None
        try:
            line = started.stdout.readline()
            assert line, "headway fake did not start"
            yield RoomFake(self.prefix, json.loads(line)["url"])
        finally:
            started.terminate()
            started.communicate(timeout=PATIENCE_S)


class RoomFake(msgspec.Struct, frozen=True):
    """A fake provider in the room."""

    prefix: tuple[str, ...]
    url: str

    def stats(self) -> dict[str, Any]:
        """The counts of all accounts."""
        command = [*self.prefix, sys.executable, "-S", "-c", _GET, f"{self.url}/stats"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        total: dict[str, Any] = json.loads(done.stdout)["total"]
        return total

    def hangs(self, received: int) -> bool:
        """Whether the last of so many requests waits for its answer."""
        stats = self.stats()
        return bool(stats["in_flight"] == 1 and stats["received"] == received)


@contextmanager
def opened(folder: Path) -> Iterator[Room]:
    """A new namespace, until the end of the block."""
    ready = folder / "ready"
    command = [
        *installed.NAMESPACE,
        "bash",
        "-c",
        f"ip link set lo up && touch {ready} && exec sleep infinity",
    ]
    with process(command, folder) as pid:
        wait_for("the namespace", ready.exists)
        yield Room(entrance(pid))


#: Variables of the developer's own agents, which would change what these tests run.
_OWN: Final = ("ANTHROPIC_", "CLAUDE", "CODEX", "GEMINI", "GOOGLE_", "OPENAI_", "OPENCODE", "HEADWAY_")


class Bed:
    """A directory with a job for a real CLI, its home, and its records."""

    def __init__(self, root: Path, room: Room, fake: RoomFake) -> None:
        self.root, self.room, self.fake = root, room, fake
        #: The name of its first job, once that is known.
        self.job = ""
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OWN)},
            "PATH": f"{clis.programs()}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(root),
            "TZ": "UTC",
            "PYTHONWARNINGS": "error",
        }
        #: Of a store in PostgreSQL, by a socket, which is a file: the namespace sees it. "": a file of SQLite.
        self.address = Stage.new_address()
        if self.address:
            self.env["HEADWAY_DB"] = self.address

    # -- settings ---------------------------------------------------------------------------------------------------

    def claude(self, *, subscription: bool = False, **settings: Any) -> None:
        """Claude Code with a key, or with the token of a subscription."""
        self.env["ANTHROPIC_BASE_URL"] = self.fake.url
        name = "CLAUDE_CODE_OAUTH_TOKEN" if subscription else "ANTHROPIC_API_KEY"
        self.env[name] = "sk-ant-oat01-0123456789abcdef" if subscription else "sk-ant-0123456789abcdef"
        self.configure("claude", permission_mode="acceptEdits", **settings)

    def codex(self, **settings: Any) -> None:
        """Codex with a provider of its own that is the fake."""
        (self.home / ".codex").mkdir()
        (self.home / ".codex" / "config.toml").write_text(
            'model = "gpt-5-codex"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{self.fake.url}/v1"\nenv_key = "FAKE_KEY"\nwire_api = "responses"\n'
        )
        self.env["FAKE_KEY"] = "sk-0123456789abcdef"
        self.configure("codex", permission_mode="danger-full-access", **settings)

    def gemini(self, **settings: Any) -> None:
        """Gemini CLI with a key, in a directory that it trusts."""
        (self.home / ".gemini").mkdir()
        auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(auth))
        self.env["GEMINI_API_KEY"] = "AIza0123456789abcdef"
        self.env["GOOGLE_GEMINI_BASE_URL"] = self.fake.url
        self.configure("gemini-cli", model="gemini-2.5-flash", args=["--skip-trust"], **settings)

    def opencode(self, **settings: Any) -> None:
        """opencode with the fake as Anthropic."""
        folder = self.home / ".config" / "opencode"
        folder.mkdir(parents=True)
        options = {"baseURL": f"{self.fake.url}/v1", "apiKey": "sk-ant-0123456789abcdef"}
        (folder / "opencode.json").write_text(json.dumps({"provider": {"anthropic": {"options": options}}}))
        self.env["OPENCODE_DISABLE_DEFAULT_PLUGINS"] = "1"  # It would try to install them for ten seconds.
        self.configure("opencode", model="anthropic/claude-sonnet-4-5", **settings)

    def configure(self, kind: str, **settings: Any) -> None:
        """Write headway.toml."""
        settings = {"directory": "work", "preflight": "none", **settings}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        (self.root / "headway.toml").write_text(
            f'[providers.agent]\nkind = "{kind}"\n{lines}'
            '[providers.agent.retry]\nbase = "50ms"\ncap = "100ms"\ndefault_wait = "1s"\nhold_margin = "1s"\n'
        )

    # -- runs -------------------------------------------------------------------------------------------------------

    def start(self, *prompts: str, flags: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """`headway run` with a unit for each prompt."""
        rows = [{"id": f"u{number}", "prompt": prompt} for number, prompt in enumerate(prompts)]
        (self.root / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self.spawn("run", "in.jsonl", "--progress", "none", "--log-file", "run.log", *flags)

    def spawn(self, *args: str) -> subprocess.Popen[str]:
        """`headway ARGS` in the room."""
        command = [*self.room.prefix, sys.executable, "-P", "-m", "headway", *args]
        return subprocess.Popen(
            command, cwd=self.root, env=self.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *prompts: str, flags: tuple[str, ...] = ()) -> int:
        """Run to the end; returns the exit code."""
        return self.finish(self.start(*prompts, flags=flags))

    def finish(self, started: subprocess.Popen[str], patience_s: float = PATIENCE_S) -> int:
        """Wait for the end of a command."""
        try:
            self.out, self.err = started.communicate(timeout=patience_s)
        finally:
            started.kill()
        return started.returncode

    # -- records ----------------------------------------------------------------------------------------------------

    def json(self, *args: str) -> Any:
        """What a command prints with --json."""
        code = self.finish(self.spawn(*args, "--json"))
        assert code == 0, self.err
        return json.loads(self.out)

    def answer(self, number: int = 0) -> dict[str, Any]:
        """The row of a unit in the output."""
        lines = (self.root / "in.results.jsonl").read_text().splitlines()
        row: dict[str, Any] = json.loads(lines[number])
        return row

    def show(self, unit: str = "u0") -> dict[str, Any]:
        """What `headway show` knows of a unit."""
        self.job = self.job or self.json("jobs")[0]["job"]
        shown: dict[str, Any] = self.json("show", self.job, unit)
        return shown

    def attempts(self, unit: str = "u0") -> list[dict[str, Any]]:
        """The attempts at a unit."""
        attempts: list[dict[str, Any]] = self.show(unit)["attempts"]
        return attempts

    def has_record_of_tool_call(self) -> bool:
        """Whether a tool call is on record: a kill after this finds a session that has begun."""
        with open_records(self.root / ".headway" / "headway.db", self.address) as store:
            found = store.execute("SELECT 1 FROM transcripts WHERE messages LIKE '%tool_calls%'").fetchone()
        return found is not None

    def processes(self) -> list[int]:
        """Every process that has this bed's home in its environment."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environ = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if f"HOME={self.home}\0".encode() in environ:
                    found.append(int(entry.name))
        return found
