"""Flow files for the measurements: wide, deep and mixed graphs of tools that do nothing, and a `for_each` over many rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

#: A tool that does nothing.
TOOL: Final = "def main(given):\n    return given['index']\n"


def prepare(folder: Path, nodes: Iterable[str], *, concurrency: str = "auto", rows: int = 0) -> Path:
    """Make a folder with a flow of these nodes (a line of YAML each), its tool, its settings and so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tool.py").write_text(TOOL, encoding="utf-8")
    # A flow of tools needs no provider, but the command wants one.
    (folder / "headway.toml").write_text(
        '[providers.x]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\napi_key_env = "KEY_X"\n',
        encoding="utf-8",
    )
    if rows:
        with (folder / "rows.jsonl").open("wb") as file:
            file.writelines(b'{"n":%d,"text":"row number %d"}\n' % (n, n) for n in range(rows))
    path = folder / "flow.yaml"
    with path.open("w", encoding="utf-8") as file:
        file.write(f"runtime: {{concurrency: {concurrency}}}\ngraph:\n  nodes:\n")
        file.writelines(f"  - {node}\n" for node in nodes)
    return path


def with_edges(path: Path, edges: Iterable[tuple[str, str]]) -> Path:
    """Add edges to a flow."""
    with path.open("a", encoding="utf-8") as file:
        file.write("  edges:\n")
        file.writelines(f"  - {{from: {before}, to: {after}}}\n" for before, after in edges)
    return path


def tool(name: str, more: str = "") -> str:
    """A node that does nothing."""
    return f'{{id: {name}, kind: tool, impl: "./tool.py:main"{more}}}'


def layered(folder: Path, layers: int = 100, width: int = 100) -> Path:
    """Layers of nodes: each node waits for two of the layer before."""
    names = [[f"n{layer}_{place}" for place in range(width)] for layer in range(layers)]

    def edges() -> Iterator[tuple[str, str]]:
        for layer in range(1, layers):
            for place in range(width):
                yield names[layer - 1][place], names[layer][place]
                yield names[layer - 1][(place + 1) % width], names[layer][place]

    path = prepare(folder, [tool(name) for layer in names for name in layer])
    return with_edges(path, edges())


def chain(folder: Path, length: int = 10_000) -> Path:
    """Each node waits for the one before."""
    path = prepare(folder, [tool(f"n{number}") for number in range(length)])
    return with_edges(path, [(f"n{number}", f"n{number + 1}") for number in range(length - 1)])


def mixed(folder: Path, count: int = 10_000) -> Path:
    """Fields instead of edges: a tree whose nodes read what their parent wrote, with a `for_each` in every tenth."""

    def node(number: int) -> str:
        reads = f", reads: [f{(number - 1) // 3}]" if number else ""
        each = ", for_each: {source: [1, 2, 3], concurrency: auto}" if number % 10 == 9 else ""
        return tool(f"n{number}", f"{reads}, writes: [f{number}]{each}")

    return prepare(folder, [node(number) for number in range(count)])


def fan_out(folder: Path, rows: int) -> Path:
    """A data set of so many rows, and a node that does nothing for each."""
    each = "for_each: {source: $.rows, concurrency: auto}"
    nodes = [
        "{id: load, kind: dataset, file: ./rows.jsonl, writes: [rows]}",
        tool("touch", f", reads: [], writes: [touched], {each}"),
    ]
    return prepare(folder, nodes, rows=rows)
