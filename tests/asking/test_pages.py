"""Every block of docs/how-to/typed.md runs, and the reference has every argument."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from headway.api.asking.ask import AskArguments
from headway.api.asking.frame import FrameArguments
from headway.testing import FakeProvider

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_block_runs(provider: FakeProvider) -> None:
    blocks = BLOCK.findall((DOCS / "how-to" / "typed.md").read_text(encoding="utf-8"))
    assert len(blocks) == 4
    names: dict[str, Any] = {"__name__": "typed"}
    for block in blocks:
        exec(compile(block, "typed.md", "exec"), names)
    rated = asyncio.run(names["rate"](["Lovely."]))
    assert rated == [names["Review"](sentiment="negative", score=0.9)]
    assert names["reviews"] == rated * 2
    assert list(names["rated"]["sentiment"]) == ["negative", "negative"]


@pytest.mark.parametrize("arguments", [AskArguments, FrameArguments])
def test_every_argument_is_documented(arguments: Any) -> None:
    section = (DOCS / "reference" / "python.md").read_text(encoding="utf-8").partition("## Questions")[2]
    section = section.partition("## Settings")[0]
    assert [name for name in arguments.__annotations__ if f"`{name}`" not in section] == []
