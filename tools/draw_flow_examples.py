"""Generates docs/how-to/flow-examples.md: each flow of examples/flows with its graph, as `headway graph --format mermaid` draws it.

python tools/draw_flow_examples.py            writes the page
python tools/draw_flow_examples.py --check    exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import subprocess
import sys

from pages import ROOT, write_or_check

PAGE = ROOT / "docs" / "how-to" / "flow-examples.md"
COMMAND = "python tools/draw_flow_examples.py"
EXAMPLES = ("review", "triage", "improve", "translate")

HEAD = """# Four flows

Generated from `examples/flows` by `tools/draw_flow_examples.py`; do not edit. Each folder has the prompts and tools, and with `headway.toml` and
`fake.yaml` a provider on your own machine, for a try without a key:

```
cd examples/flows/review; headway fake --config fake.yaml &
FAKE_KEY=any headway run flow.yaml
```

Before the next one, stop this provider: `kill %1`. With a provider of your own: replace `headway.toml`. [The first page on flows](flows.md) explains
the parts.
"""


def graph_of(name: str) -> str:
    command = [
        sys.executable,
        "-m",
        "headway",
        "graph",
        f"examples/flows/{name}/flow.yaml",
        "--format",
        "mermaid",
        "--no-run",
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def section(name: str) -> str:
    flow = (ROOT / "examples" / "flows" / name / "flow.yaml").read_text(encoding="utf-8")
    comment, _, rest = flow.partition("\n#")
    graph = rest[rest.index("name:") :]
    title = name.capitalize()
    return f"\n## {title}\n\n{comment.removeprefix('# ')}\n\n```mermaid\n{graph_of(name)}\n```\n\n```yaml\n{graph.strip()}\n```\n"


def page() -> str:
    """The whole page."""
    return HEAD + "".join(map(section, EXAMPLES))


if __name__ == "__main__":
    usage = __doc__ or ""
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), usage, COMMAND))
