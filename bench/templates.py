"""Plans by template: one model, many prompts, and answers of very different lengths, against `headway fake`.

All jobs go to one model from one directory, so that what other templates taught is always there to mislead.

*Calibrated*: a job of the same template ran before, others in between; the plan of another file of that template is held
against what it took. *New*: a template that no job has sent yet; what it took must be inside the range that was printed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench.processes import HEADWAY, run
from headway.fake.process import fake_process

TIME_BAR: Final = 0.15
COST_BAR: Final = 0.10
#: Of ten new templates so many must stay inside their range.
INSIDE_BAR: Final = 9
#: Rows of a file whose template has run before, and of one that is new.
ROWS: Final = 600
NEW_ROWS: Final = 200
PATIENCE_S: Final = 120.0
AT_ONCE: Final = 32

_TOPICS: Final = (
    "rivers", "stones", "tables", "gardens", "silver", "windows", "markets", "honesty", "purple", "engines", "winters",
    "planets", "letters", "bridges", "music", "salt", "clocks", "islands", "paper", "shadows",
)  # fmt: skip


class Template(msgspec.Struct, frozen=True):
    """A prompt with a place for a topic, and how long the model answers it: `contains` is how the fake knows it."""

    name: str
    prompt: str
    contains: str
    output: dict[str, float]
    settings: dict[str, Any] = {}


def _between(low: float, high: float) -> dict[str, float]:
    return {"min": low, "max": high}


#: Every one has run before a file of it is planned again.
CALIBRATED: Final = (
    Template("essays", "Write an essay about {}", "Write an essay", _between(500, 900)),
    Template("yes or no", "Are {} a good thing? Answer yes or no.", "Answer yes or no", _between(1, 3)),
    Template("a long tail", "Tell what is known about {}, as long as it takes", "as long as it takes",
             {"median": 120, "sigma": 0.7}),
)  # fmt: skip

#: What is planned before anything like it was sent.
NEW: Final = (
    Template("one word", "Give one word that describes {}", "Give one word", _between(1, 1)),
    Template("a label", "Is this text about {} spam? Say spam or ham", "spam or ham", _between(1, 2), {"max_tokens": 10}),
    Template("keywords", "List five keywords for {}", "five keywords", _between(8, 20)),
    Template("a record", "Extract the facts about {} as JSON", "as JSON", _between(60, 140),
             {"response_format": {"type": "json_object"}}),
    Template("a summary", "Summarise {} in one paragraph", "one paragraph", _between(90, 160), {"max_tokens": 400}),
    Template("a translation", "Translate this into French: {}", "into French", _between(15, 60)),
    Template("a review", "Review the code for {} and name every bug", "every bug", {"median": 250, "sigma": 0.8}),
    Template("a report", "Write a detailed report on {}", "detailed report", _between(1200, 1800)),
    Template("cut off", "Explain {} in full", "in full", _between(500, 900), {"max_tokens": 300}),
    Template("a chain", "Think step by step about {}, then answer", "step by step", {"median": 700, "sigma": 0.6},
             {"temperature": 0.2}),
)  # fmt: skip


class Result(msgspec.Struct, frozen=True):
    """A plan and what came of it: (likely, low, high) of time and cost, and what it really was."""

    name: str
    time_s: tuple[float, float, float]
    took_s: float
    cost_usd: tuple[float, float, float]
    paid_usd: float
    notes: list[str]

    @property
    def time_off(self) -> float:
        """How far the time was off, as a share of what it took."""
        return self.time_s[0] / self.took_s - 1.0

    @property
    def cost_off(self) -> float:
        """How far the cost was off."""
        return self.cost_usd[0] / self.paid_usd - 1.0

    @property
    def inside(self) -> bool:
        """Whether both stayed in their range."""
        return self.time_s[1] <= self.took_s <= self.time_s[2] and (
            self.cost_usd[1] <= self.paid_usd <= self.cost_usd[2]
        )


class Desk:
    """One directory with one model; files of any template are planned and run there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0

    def rows(self, template: Template, rows: int) -> str:
        """Write another file of this template; its name."""
        self._files += 1
        chance = random.Random(self._files)
        lines = []
        for number in range(rows):
            topic = " and ".join(chance.sample(_TOPICS, chance.randint(1, 6)))
            lines.append({"id": f"r{number}", "prompt": template.prompt.format(topic), **template.settings})
        name = f"file{self._files}.jsonl"
        (self._folder / name).write_bytes(msgspec.json.Encoder().encode_lines(lines))
        return name

    def told(self, *command: str) -> dict[str, Any]:
        """What a command says with `--json`."""
        ended = run([*HEADWAY, *command, "--json", "-q"], self._folder, PATIENCE_S, {"KEY": "default"})
        if ended.code:
            raise RuntimeError(
                f"headway {' '.join(command)}: exit code {ended.code}: {ended.errors.decode()[-2000:]}"
            )
        return dict(msgspec.json.decode(ended.out))

    def planned_and_run(self, template: Template, rows: int) -> Result:
        """Plan another file of this template, run it, and compare."""
        file = self.rows(template, rows)
        plan = self.told("plan", file)
        ran = self.told("run", file)
        took_s = ran["prediction"]["took_s"]
        time_s, cost_usd = (_three(plan[name]) for name in ("time_s", "cost_usd"))
        return Result(template.name, time_s, took_s, cost_usd, ran["cost_usd"], plan["notes"])


def _three(figure: dict[str, float]) -> tuple[float, float, float]:
    return figure["estimate"], figure["low"], figure["high"]


@contextmanager
def desk() -> Iterator[Desk]:
    """A model that answers every template in its own way, and a directory to ask it from."""
    plan = {
        "accounts": {"default": {"latency": _between(0.05, 0.15), "per_token": 0.002, "headers": "none"}},
        "lengths": [{"contains": one.contains, "output_tokens": one.output} for one in (*CALIBRATED, *NEW)],
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fake.json").write_bytes(msgspec.json.encode(plan))  # JSON is YAML.
        with fake_process("--config", str(folder / "fake.json")) as fake:
            (folder / "headway.toml").write_text(
                f'[providers.A]\nkind = "openai"\nbase_url = "{fake.url}/v1"\napi_key_env = "KEY"\nmodel = "m"\n'
                f"prices = {{input = 2.5, output = 10.0}}\n[providers.A.limits]\nmax_concurrency = {AT_ONCE}\n",
                encoding="utf-8",
            )
            yield Desk(folder)


def calibrated(at: Desk, rows: int = ROWS) -> list[Result]:
    """Run every template once, then plan and run another file of each."""
    for template in CALIBRATED:
        at.told("run", at.rows(template, rows))
    return [at.planned_and_run(template, rows) for template in CALIBRATED]


def new(at: Desk, templates: Sequence[Template] = NEW, rows: int = NEW_ROWS) -> list[Result]:
    """Plan templates that no job has sent, then run them."""
    return [at.planned_and_run(template, rows) for template in templates]


def misses(known: list[Result], fresh: list[Result]) -> list[str]:
    """Where a plan was off by more than it may be."""
    found = []
    for result in known:
        if abs(result.time_off) > TIME_BAR:
            found.append(
                f"plan, {result.name}: time off by {result.time_off:+.1%}, the bar is {TIME_BAR:.0%}"
            )
        if abs(result.cost_off) > COST_BAR:
            found.append(
                f"plan, {result.name}: cost off by {result.cost_off:+.1%}, the bar is {COST_BAR:.0%}"
            )
    inside = sum(result.inside for result in fresh)
    if inside < INSIDE_BAR * len(fresh) / 10:
        found.append(
            f"plan, new templates: {inside} of {len(fresh)} inside their range, the bar is {INSIDE_BAR} of 10"
        )
    return found
