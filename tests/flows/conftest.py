"""A folder for flows, with prompts and tools in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FILES = {
    "prompts/review.md": "Review {{state.diff}} for {{item}}.",
    "prompts/triage.md": "Label issue {{index}}: {{item.title}}",
    "prompts/plain.md": "Say something.",
    "tools/fetch.mjs": "console.log('[]')",
    "tools/call-api.mjs": "console.log('{}')",
    "tools/step.py": "def main(call): return 1\n",
    "rows.jsonl": "{}\n",
}

FlowFile = Callable[[str], Path]


@pytest.fixture
def flow_file(tmp_path: Path) -> FlowFile:
    """Writes a flow beside the usual prompts and tools."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def write(text: str) -> Path:
        path = tmp_path / "flow.yaml"
        path.write_text(text)
        return path

    return write
