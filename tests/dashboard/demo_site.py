"""A folder with jobs of every kind against one fake provider: what tests of the page look at, and what its screenshots show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.crash.stage import Stage

from headway.fake.process import FakeProcess, fake_process

#: Keys of the fake accounts. They are long enough to be blotted out where they occur.
KEYS: Final = {
    "OPENAI": "sk-openai-account-1",
    "CLAUDE": "sk-claude-account-1",
    "MISTRAL": "sk-mistral-account-1",
}
_KEY_OF_ACCOUNT: Final = {name.lower(): key for name, key in KEYS.items()}
#: What a hostile model answers: it must be shown as it is.
HOSTILE: Final = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title='broken'\">"
TOPICS: Final = (
    "delivery",
    "price",
    "the battery",
    "the screen",
    "support",
    "the manual",
    "returns",
    "noise",
)
MOODS: Final = (
    "I am very happy with",
    "I am not sure about",
    "I would buy it again because of",
    "I sent it back because of",
)

_FAKE: Final[dict[str, Any]] = {
    "accounts": {
        "openai": {"key": KEYS["OPENAI"], "rpm": 360, "burst": 2, "latency": {"median": 0.6, "sigma": 0.5}, "output_tokens": {"median": 60, "sigma": 0.5}},
        "claude": {"key": KEYS["CLAUDE"], "rpm": 200, "itpm": 30_000, "burst": 2, "latency": {"median": 1.4, "sigma": 0.4}, "output_tokens": {"median": 90, "sigma": 0.5}},
        "mistral": {"key": KEYS["MISTRAL"], "rpm": 120, "burst": 1, "headers": "none", "latency": {"median": 0.5, "sigma": 0.3}, "output_tokens": 40,
                    "faults": [{"kind": "subscription", "at": 6, "resets": 900}]},
    },
    "faults": [{"kind": "blocked", "contains": "weapon"}, {"kind": "503", "chance": 0.01}],
    "tools": [{"contains": "weather", "name": "get_weather", "arguments": {"city": "Oslo"}}],
    "answers": [
        {"contains": "hostile", "turns": [HOSTILE]},
        {"contains": "capital of Norway", "turns": ["The capital of Norway is Oslo."]},
        {"contains": "capital of France", "turns": ["Paris, of course."]},
        {"contains": "capital of Australia", "turns": ["Sydney."]},
        {"contains": "return a - b", "turns": [{"findings": [{"rule": "wrong-operator", "severity": "high", "confidence": 0.93, "start_line": 8, "end_line": 8, "quote": "    return a - b", "message": "`add` subtracts: every caller gets a wrong sum.", "suggestion": "return a + b"}]}]},
        {"contains": "os.system", "turns": [{"findings": [{"rule": "shell-injection", "severity": "critical", "confidence": 0.97, "start_line": 5, "end_line": 5, "quote": "    os.system(\"ping \" + host)", "message": "The name of the host goes to a shell as it is.", "suggestion": "subprocess.run([\"ping\", host], check=True)"}]}]},
        {"contains": "Report what you find", "turns": [{"findings": []}]},
    ],
}  # fmt: skip
_FILES: Final = {
    "src/add.py": '"""Sums."""\n\nfrom __future__ import annotations\n\n\ndef add(a: int, b: int) -> int:\n    """The sum of two numbers."""\n    return a - b\n\n\ndef double(a: int) -> int:\n    return add(a, a)\n',
    "src/network/ping.py": 'import os\n\n\ndef ping(host: str) -> None:\n    os.system("ping " + host)\n',
    "src/one.py": "ONE = 1\n",
    "src/text/words.py": "def words(text: str) -> list[str]:\n    return text.split()\n",
}
_FLOW: Final = """\
name: release-notes
state:
  schema:
    topics: {type: array, default: [lanes, flows, evals, reviews, the dashboard, prices]}
    outline: string
    drafts: {type: array, merge: array_append}
    checked: string
    notes: string
    consent: any
    announced: string
graph:
  nodes:
    - {id: outline, kind: agent, prompt: prompts/outline.md, writes: [outline]}
    - {id: draft, kind: agent, prompt: prompts/draft.md, reads: [outline], writes: [drafts], for_each: {source: $.topics, concurrency: auto}}
    - {id: facts, kind: agent, prompt: prompts/facts.md, reads: [outline], writes: [checked]}
    - {id: join, kind: agent, prompt: prompts/join.md, reads: [drafts, checked], writes: [notes]}
    - {id: sign_off, kind: human, prompt: prompts/sign_off.md, reads: [notes], writes: [consent]}
    - {id: publish, kind: agent, prompt: prompts/publish.md, reads: [notes, consent], writes: [announced]}
"""
_PROMPTS: Final = {
    "outline": "Outline the release notes.",
    "draft": "Write a paragraph about {{ item }}, as outlined: {{ state.outline }}",
    "facts": "Check the facts of this outline: {{ state.outline }}",
    "join": "Join these drafts: {{ state.drafts }}. The facts: {{ state.checked }}",
    "sign_off": "Publish these notes? {{ state.notes }}",
    "publish": "Announce: {{ state.notes }}",
}


def _quick(plan: dict[str, Any]) -> dict[str, Any]:
    accounts = {name: {"key": key, "latency": "30ms"} for name, key in _KEY_OF_ACCOUNT.items()}
    return {**plan, "accounts": accounts, "faults": plan["faults"][:1]}


def reviews(number: int, models: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of a batch over several models; a few are refused by the provider."""
    return [
        {
            "id": f"review-{n:04}",
            "model": models[n % len(models)],
            "max_tokens": 200,
            "prompt": f"Is this review positive? {MOODS[n % len(MOODS)]} {TOPICS[n * 7 % len(TOPICS)]}."
            + (" It looks like a weapon." if n % 97 == 13 else ""),
        }
        for n in range(number)
    ]


class DemoSite:
    """A folder of somebody who uses Headway, and the provider that its jobs use."""

    def __init__(self, root: Path, fake: FakeProcess) -> None:
        self.fake = fake
        self.stage = Stage(root, fake, "demo", env={f"{name}_KEY": key for name, key in KEYS.items()})
        root.mkdir(parents=True, exist_ok=True)
        self._configure()

    def _configure(self) -> None:
        tables = [
            ("openai", "openai", f"{self.fake.url}/v1", "gpt-4.1-mini", 2),
            ("claude", "anthropic", self.fake.url, "claude-sonnet-4", 6),
            ("mistral", "openai", f"{self.fake.url}/v1", "mistral-small", 1),
        ]
        text = "".join(
            f'[providers.{name}]\nkind = "{kind}"\nbase_url = "{url}"\napi_key_env = "{name.upper()}_KEY"\nmodel = "{model}"\n'
            f"[providers.{name}.prices]\ninput = {price}\noutput = {5 * price}\n\n"
            for name, kind, url, model, price in tables
        )
        self.write("headway.toml", text + '[run]\nprovider = "openai"\n')

    def write(self, path: str, text: str) -> Path:
        """Write a file of the folder."""
        file = self.stage.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def write_rows(self, path: str, rows: list[dict[str, Any]]) -> None:
        """Write the input of a batch."""
        self.write(path, "".join(json.dumps(row) + "\n" for row in rows))

    def write_all(self) -> None:
        """The inputs of all kinds: tickets.jsonl, release.yaml, promptfooconfig.yaml and the tree `src`."""
        for write in (self._write_tickets, self._write_flow, self._write_evaluation, self._write_tree):
            write()

    def batch_with_failures(self) -> str:
        """A batch that has ended: most units succeeded, a few were refused for their content, one answer is hostile."""
        self._write_tickets()
        return self.run("run", "tickets.jsonl")

    def _write_tickets(self) -> None:
        rows = [
            {**row, "id": f"ticket-{n:03}"}
            for n, row in enumerate(reviews(120, ("openai/gpt-4.1-mini", "claude/claude-sonnet-4")))
        ]
        rows[1]["prompt"] = "Repeat this hostile page."
        rows[13]["prompt"] = "How is a weapon made?"
        self.write_rows("tickets.jsonl", rows)

    def flow(self) -> str:
        """A flow that waits for a person."""
        self._write_flow()
        return self.run("run", "release.yaml")

    def _write_flow(self) -> None:
        for name, text in _PROMPTS.items():
            self.write(f"prompts/{name}.md", text)
        self.write("release.yaml", _FLOW)

    def evaluation(self) -> str:
        """An eval with answers that pass and answers that fail."""
        self._write_evaluation()
        return self.run("eval", "promptfooconfig.yaml")

    def _write_evaluation(self) -> None:
        config = {
            "description": "Capitals",
            "prompts": ["What is the capital of {{country}}?", "In one word: the capital of {{country}}?"],
            "providers": [{"id": f"openai:chat:{model}", "label": model, "config": {"apiBaseUrl": f"{self.fake.url}/v1", "apiKeyEnvar": "OPENAI_KEY"}} for model in ("gpt-4.1-mini", "gpt-4.1")],
            "tests": [{"vars": {"country": country}, "assert": [{"type": "icontains", "value": city}]} for country, city in (("France", "Paris"), ("Norway", "Oslo"), ("Australia", "Canberra"))],
        }  # fmt: skip
        self.write("promptfooconfig.yaml", json.dumps(config))

    def review(self) -> str:
        """A review of a small tree."""
        self._write_tree()
        return self.run("review", "src", "--model", "openai/gpt-4.1-mini", "--axis", "correctness", "--axis", "security")  # fmt: skip

    def _write_tree(self) -> None:
        for path, text in _FILES.items():
            self.write(path, text)

    def run(self, *args: str) -> str:
        """Run a command to its end; returns the name of its job."""
        done = self.stage.run(*args)
        assert done.returncode in (0, 1, 4, 5), (args, done.returncode, done.stderr)
        return self.latest_job()

    def latest_job(self) -> str:
        """The name of the newest job."""
        return str(self.stage.job()["name"])


@contextmanager
def demo_site(root: Path, *, quick: bool = False) -> Iterator[DemoSite]:
    """A folder and its provider, which ends with the block. `quick`: the provider has no limits to speak of."""
    plan = root / "fake.yaml"
    root.mkdir(parents=True, exist_ok=True)
    plan.write_text(json.dumps(_quick(_FAKE) if quick else _FAKE), encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        yield DemoSite(root, fake)
