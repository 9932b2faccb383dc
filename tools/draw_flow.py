"""Generates docs/images/flow.svg: a frame of the live view from a real run of a flow on the fake provider.

`python tools/draw_flow.py`, about 20 s. The frame is from the middle of the run. The user's approval is never given, so the run ends parked.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

from rich.console import Console

from headway.cli import main
from headway.display import live
from headway.engine.observer import View
from headway.fake.process import fake_process

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "flow.svg"
WIDTH, HEIGHT = 110, 24

ACCOUNTS = """
accounts:
  alpha: {key: demo-alpha, rpm: 60, burst: 8, headers: openai, latency: {min: 0.3, max: 1.2}}
  beta: {key: demo-beta, latency: {min: 0.5, max: 1.5}}
"""
FLOW = """
name: review
runtime: {concurrency: 8}
graph:
  nodes:
  - {id: diff, kind: tool, impl: "./tools/steps.py:diff", writes: [diff, dimensions]}
  - id: review
    kind: agent
    prompt: ./prompts/review.md
    model: alpha/echo
    for_each: {source: $.dimensions, concurrency: auto}
    reads: [diff, dimensions]
    writes: [findings]
  - id: history
    kind: agent
    prompt: ./prompts/history.md
    model: beta/echo
    for_each: {source: $.dimensions, concurrency: 2}
    reads: [diff, dimensions]
    writes: [related]
  - {id: lint, kind: tool, impl: "./tools/steps.py:lint", reads: [diff], writes: [lint]}
  - {id: gate, kind: human, reads: [diff]}
  - {id: merge, kind: agent, prompt: ./prompts/merge.md, model: beta/echo, reads: [findings, related], writes: [review]}
  - {id: publish, kind: tool, impl: "./tools/steps.py:diff", reads: [review], writes: [published]}
  edges: [{from: gate, to: publish}]
"""
STEPS = """
def diff(given):
    return {"diff": "+1 -1", "dimensions": [f"dimension {n}" for n in range(1, 25)]}

def lint(given):
    raise ValueError("3 files are not formatted")
"""
CONFIG = """
[run]
max_attempts = 1
provider = "alpha"
[providers.alpha]
kind = "openai"
base_url = "{url}"
api_key_env = "ALPHA_KEY"
model = "echo"
[providers.alpha.prices]
input = 3.0
output = 15.0
[providers.beta]
kind = "openai"
base_url = "{url}"
api_key_env = "BETA_KEY"
model = "echo"
"""


def views_of_a_run(folder: Path) -> list[View]:
    """Run the flow and collect every view that was shown."""
    seen: list[View] = []
    shown = live.LiveDisplay.moved

    def moved(self: live.LiveDisplay, view: View) -> None:
        seen.append(view)
        shown(self, view)

    live.LiveDisplay.moved = moved  # type: ignore[method-assign]
    for name in ("prompts", "tools"):
        (folder / name).mkdir()
    for name in ("review", "history"):
        (folder / "prompts" / f"{name}.md").write_text("Review {{state.diff}} for {{item}}.\n")
    (folder / "prompts" / "merge.md").write_text("{{state.findings}} {{state.related}}\n")
    (folder / "tools" / "steps.py").write_text(STEPS)
    (folder / "review.yaml").write_text(FLOW)
    (folder / "accounts.yaml").write_text(ACCOUNTS)
    os.environ.update(ALPHA_KEY="demo-alpha", BETA_KEY="demo-beta")
    with fake_process("--config", str(folder / "accounts.yaml")) as fake:
        (folder / "headway.toml").write_text(CONFIG.replace("{url}", fake.url))
        os.chdir(folder)
        main(["run", "review.yaml", "--name", "review", "--progress", "rich"])
    return seen


def picture(view: View) -> str:
    """The frame as a terminal shows it, without the address of a font."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(live.frame(view, WIDTH, HEIGHT))
    text = console.export_svg(title="headway run review.yaml")
    return re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        views = views_of_a_run(Path(name))
    halfway = min(views, key=lambda view: abs(view.ended - view.total / 2))
    PICTURE.write_text(picture(halfway), encoding="utf-8")
