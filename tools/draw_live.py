"""Generates docs/images/live.svg: a frame of the live view from a real run of the demo's accounts.

`python tools/draw_live.py`, about 15 s. The frame is from the middle of the run.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

from rich.console import Console

from headway.cli import demo, main
from headway.display import live
from headway.display.lanes.limit_use import LimitUseHistory
from headway.engine.observer import View
from headway.fake.process import fake_process

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "live.svg"
WIDTH = 104


def views_of_a_run(folder: Path) -> list[View]:
    """Run the demo's batch and collect every view that was shown."""
    seen: list[View] = []
    shown = live.LiveDisplay.moved

    def moved(self: live.LiveDisplay, view: View) -> None:
        seen.append(view)
        shown(self, view)

    live.LiveDisplay.moved = moved  # type: ignore[method-assign]
    demo._write_accounts(folder / "accounts.yaml")
    with fake_process("--config", str(folder / "accounts.yaml")) as fake:
        demo._write_config(folder / "headway.toml", fake.url)
        demo._write_rows(folder / "questions.jsonl")
        os.chdir(folder)
        main(["run", "questions.jsonl", "--progress", "rich"])
    return seen


def picture(views: list[View]) -> str:
    """The frame of the last view as a terminal shows it, without the address of a font."""
    history = LimitUseHistory()
    for view in views:
        history.note(view)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(live.frame(views[-1], WIDTH, 24, (), history))
    text = console.export_svg(title="headway run questions.jsonl")
    return re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        views = views_of_a_run(Path(name))
    halfway = min(range(len(views)), key=lambda n: abs(views[n].ended - views[n].total / 2))
    PICTURE.write_text(picture(views[: halfway + 1]), encoding="utf-8")
