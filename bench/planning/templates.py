"""Plans by template: one model, many prompts, and answers of very different lengths, against `headway fake`.

All jobs go to one model from one directory, so that the records of other templates could mislead the plan.

*Calibrated*: a job of the same template ran before, others in between; the plan of another file of that template is compared
with its run. *New*: a template that no job has sent yet; the run must be inside the printed range.
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
#: How many of ten new templates must stay inside their range.
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
    """A prompt with a place for a topic, and the length of its answers. The fake recognises it by `contains`."""

    name: str
    prompt: str
    contains: str
    output: dict[str, float]
    settings: dict[str, Any] = {}


def _between(low: float, high: float) -> dict[str, float]:
    return {"min": low, "max": high}


#: Each has run before another file of it is planned.
CALIBRATED: Final = (
    Template("essays", "Write an essay about {}", "Write an essay", _between(500, 900)),
    Template("yes or no", "Are {} a good thing? Answer yes or no.", "Answer yes or no", _between(1, 3)),
    Template("a long tail", "Tell what is known about {}, as long as it takes", "as long as it takes",
             {"median": 120, "sigma": 0.7}),
)  # fmt: skip

#: Planned before any file of the template was sent.
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
    """A plan, (likely, low, high) of time and cost, and the actual figures."""

    name: str
    time_s: tuple[float, float, float]
    took_s: float
    cost_usd: tuple[float, float, float]
    paid_usd: float
    notes: list[str]

    @property
    def time_off(self) -> float:
        """The error of the time, as a share of the actual time."""
        return self.time_s[0] / self.took_s - 1.0

    @property
    def cost_off(self) -> float:
        """The error of the cost."""
        return self.cost_usd[0] / self.paid_usd - 1.0

    @property
    def inside(self) -> bool:
        """Whether both were inside their range."""
        return self.time_s[1] <= self.took_s <= self.time_s[2] and (
            self.cost_usd[1] <= self.paid_usd <= self.cost_usd[2]
        )


class PlanFolder:
    """One directory with one model, in which files of any template are planned and run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0

    def rows(self, template: Template, rows: int) -> str:
        """Write another file of this template; returns its name."""
        self._files += 1
        rng = random.Random(self._files)
        lines = []
        for number in range(rows):
            topic = " and ".join(rng.sample(_TOPICS, rng.randint(1, 6)))
            lines.append({"id": f"r{number}", "prompt": template.prompt.format(topic), **template.settings})
        name = f"file{self._files}.jsonl"
        (self._folder / name).write_bytes(msgspec.json.Encoder().encode_lines(lines))
        return name

    def json_of(self, *command: str) -> dict[str, Any]:
        """The output of a command with `--json`."""
        ended = run([*HEADWAY, *command, "--json", "-q"], self._folder, PATIENCE_S, {"KEY": "default"})
        if ended.code:
            raise RuntimeError(
                f"headway {' '.join(command)}: exit code {ended.code}: {ended.errors.decode()[-2000:]}"
            )
        return dict(msgspec.json.decode(ended.out))

    def planned_and_run(self, template: Template, rows: int) -> Result:
        """Plan another file of this template, run it, and compare."""
        file = self.rows(template, rows)
        plan = self.json_of("plan", file)
        ran = self.json_of("run", file)
        took_s = ran["prediction"]["took_s"]
        time_s, cost_usd = (_three(plan[name]) for name in ("time_s", "cost_usd"))
        return Result(template.name, time_s, took_s, cost_usd, ran["cost_usd"], plan["notes"])


def _three(figure: dict[str, float]) -> tuple[float, float, float]:
    return figure["estimate"], figure["low"], figure["high"]


@contextmanager
def plan_folder() -> Iterator[PlanFolder]:
    """A model with its own length of answers for each template, and a directory for jobs."""
    fake_config = {
        "accounts": {"default": {"latency": _between(0.05, 0.15), "per_token": 0.002, "headers": "none"}},
        "lengths": [{"contains": one.contains, "output_tokens": one.output} for one in (*CALIBRATED, *NEW)],
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fake.json").write_bytes(msgspec.json.encode(fake_config))  # JSON is YAML.
        with fake_process("--config", str(folder / "fake.json")) as fake:
            (folder / "headway.toml").write_text(
                f'[providers.A]\nkind = "openai"\nbase_url = "{fake.url}/v1"\napi_key_env = "KEY"\nmodel = "m"\n'
                f"prices = {{input = 2.5, output = 10.0}}\n[providers.A.limits]\nmax_concurrency = {AT_ONCE}\n",
                encoding="utf-8",
            )
            yield PlanFolder(folder)


def calibrated(at: PlanFolder, rows: int = ROWS) -> list[Result]:
    """Run every template once, then plan and run another file of each."""
    for template in CALIBRATED:
        at.json_of("run", at.rows(template, rows))
    return [at.planned_and_run(template, rows) for template in CALIBRATED]


def new(at: PlanFolder, templates: Sequence[Template] = NEW, rows: int = NEW_ROWS) -> list[Result]:
    """Plan templates that no job has sent, then run them."""
    return [at.planned_and_run(template, rows) for template in templates]


def misses(known: list[Result], fresh: list[Result]) -> list[str]:
    """The missed bars."""
    missed = []
    for result in known:
        if abs(result.time_off) > TIME_BAR:
            missed.append(
                f"plan, {result.name}: time off by {result.time_off:+.1%}, the bar is {TIME_BAR:.0%}"
            )
        if abs(result.cost_off) > COST_BAR:
            missed.append(
                f"plan, {result.name}: cost off by {result.cost_off:+.1%}, the bar is {COST_BAR:.0%}"
            )
    inside = sum(result.inside for result in fresh)
    if inside < INSIDE_BAR * len(fresh) / 10:
        missed.append(
            f"plan, new templates: {inside} of {len(fresh)} inside their range, the bar is {INSIDE_BAR} of 10"
        )
    return missed
