"""Generates docs/images/agents.svg: a recording of the live view from a real run of thirty scripted agents.

`python tools/draw_agents.py`, about 40 s. The agents are `scripted_agent.py`, which prints what Claude Code prints; everything else
is Headway as it is. The frames are spread over the run, and shown one after the other. A viewer without animations shows one.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console, RenderableType

from headway.cli import main
from headway.display import live
from headway.engine.observer import View

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "agents.svg"
AGENT = Path(__file__).with_name("scripted_agent.py")
WIDTH, HEIGHT = 104, 15
AGENTS = 30
FRAMES = 10
#: Seconds that a frame is shown.
SHOWN_S = 1.2

CONFIG = f"""
[providers.claude]
kind = "claude"
command = ["{sys.executable}", "{AGENT}"]
model = "opus"
permission_mode = "plan"
preflight = "none"
[providers.claude.limits]
max_concurrency = 12
"""


def frames_of_a_run(folder: Path) -> list[RenderableType]:
    """Run the agents, and collect every picture that was shown."""
    seen: list[RenderableType] = []
    shown = live.LiveDisplay.moved

    def moved(self: live.LiveDisplay, view: View) -> None:
        seen.append(live.frame(view, WIDTH, HEIGHT, list(self._agents.values())))
        shown(self, view)

    live.LiveDisplay.moved = moved  # type: ignore[method-assign]
    (folder / "headway.toml").write_text(CONFIG, encoding="utf-8")
    rows = [f'{{"id": "ticket-{n}", "prompt": "Fix ticket {n}"}}' for n in range(1, AGENTS + 1)]
    (folder / "tickets.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    os.chdir(folder)
    main(["run", "tickets.jsonl", "--name", "tickets", "--progress", "rich"])
    return seen


def drawing(frame: RenderableType, number: int) -> str:
    """One frame as a terminal of `HEIGHT` lines shows it, without the address of a font."""
    console = Console(record=True, width=WIDTH, height=HEIGHT, file=io.StringIO(), force_terminal=True)
    lines = console.render_lines(frame)
    console.print(frame)
    for _ in range(HEIGHT - len(lines)):
        console.print()
    text = console.export_svg(title="headway attach tickets", unique_id=f"frame{number}")
    return re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)


def recording(frames: list[RenderableType]) -> str:
    """The frames as one picture that shows them in turn."""
    step = (len(frames) - 1) / (FRAMES - 1)
    drawings = [drawing(frames[round(n * step)], n) for n in range(FRAMES)]
    box = re.search(r'viewBox="([^"]+)"', drawings[0])
    assert box is not None
    whole_s, share = SHOWN_S * FRAMES, 100 / FRAMES
    rules = [
        f"@keyframes shown {{ 0%, {share:g}% {{ opacity: 1 }} {share + 0.01:g}%, 100% {{ opacity: 0 }} }}"
    ]
    parts = []
    for n, text in enumerate(drawings):
        still = "1" if n == FRAMES // 2 else "0"
        rules.append(
            f"#turn{n} {{ opacity: {still}; animation: shown {whole_s:g}s {n * SHOWN_S:g}s infinite backwards }}"
        )
        parts.append(f'<g id="turn{n}">{text}</g>')
    style = "\n".join(rules)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}">\n<style>\n{style}\n</style>\n{"".join(parts)}\n</svg>\n'


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        frames = frames_of_a_run(Path(name))
        os.chdir(PICTURE.parent)
    PICTURE.write_text(recording(frames), encoding="utf-8")
