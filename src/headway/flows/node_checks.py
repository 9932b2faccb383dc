"""Checks of what a node names outside its file: whether its tool can be run, and whether its prompt's names are in the rows.

Also of `args`, which are passed as they are: a name of a prompt or a path in them is a mistake. Tools are parsed and not run.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headway.config.file_problems import ProblemList
from headway.config.near_names import near_name
from headway.errors import HeadwayError
from headway.flows.prompt_names import ROOTS, names_of_prompt
from headway.flows.spec import FlowSpec, NodeSpec

#: Programs that are run by another program, by the end of their names.
RUN_BY: Final = {".mjs": "node", ".js": "node", ".cjs": "node"}
#: Bytes of a program that are looked at: systems read as many of the first line.
_HEAD: Final = 256
#: Rows of a data set whose keys are looked at.
FIRST_ROWS: Final = 100
_PLACED: Final = re.compile(
    r"\{\{\s*(" + "|".join(ROOTS) + r")\b[^{}]*\}\}|\$\.[A-Za-z_][\w.\[\]-]*", re.ASCII
)


class ToolProblem(NamedTuple):
    """Why a tool cannot be run, and what to do."""

    message: str
    hint: str = ""


# -- tools ----------------------------------------------------------------------------------------------------------------


def check_tool(node: NodeSpec, problems: ProblemList) -> None:
    """Report a tool that cannot be run. A missing file is reported elsewhere."""
    if node.kind != "tool" or node.impl is None or not node.impl.is_file():
        return
    problem = tool_problem(node)
    if problem is not None:
        problems.error(node.line, f"node '{node.id}': {problem.message}", problem.hint)


def tool_problem(node: NodeSpec) -> ToolProblem | None:
    """Why the file of a tool cannot be run; None: it can."""
    assert node.impl is not None
    path = node.impl
    if node.function:
        return _function_problem(path, node.function)
    if path.suffix in RUN_BY:
        return _missing_program(path, RUN_BY[path.suffix])
    if not os.access(path, os.X_OK):
        return ToolProblem(
            f"{path} is not executable",
            f"chmod +x {path}, or name a function of a Python file: ./tools/fetch.py:main",
        )
    return _script_problem(path)


def _missing_program(path: Path, program: str) -> ToolProblem | None:
    if shutil.which(program) is not None:
        return None
    return ToolProblem(
        f"{path.name} needs '{program}', which is not installed",
        f"install {program}, or write the tool in Python: ./tools/fetch.py:main",
    )


def _script_problem(path: Path) -> ToolProblem | None:
    """Why the system cannot start a script. Programs that are no text are not looked into."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return None  # It may be run all the same.
    if head.startswith(b"#!"):
        words = head.partition(b"\n")[0][2:].split()
        program = os.fsdecode(words[0]) if words else ""
        if program and (not os.path.isabs(program) or os.path.exists(program)):
            return None
        return ToolProblem(
            f"{path.name} is run by {program or 'no program'}, which is not installed",
            "change its first line",
        )
    if b"\0" in head or not head.isascii():
        return None
    return ToolProblem(
        f"{path.name} is a text whose first line names no program", "begin it with a line such as #!/bin/sh"
    )


def _function_problem(path: Path, function: str) -> ToolProblem | None:
    try:
        names = _names_in(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        return ToolProblem(f"{path.name} cannot be read{line}: {what}")
    if names is None or function in names:
        return None
    near = near_name(function, names)
    return ToolProblem(f"{path.name} has no function '{function}'", f"did you mean '{near}'?" if near else "")


@lru_cache(64)
def _names_in(source: bytes) -> frozenset[str] | None:
    """The names that a file defines; None if only an import can tell. The file is parsed and not run."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return None if names & {"*", "__getattr__"} else frozenset(names)


# -- args and inner flows -------------------------------------------------------------------------------------------------


def check_args(node: NodeSpec, problems: ProblemList) -> None:
    """Report texts in `args` that look as if they were filled in."""
    for name, value in node.args.items():
        text = next((one for one in _texts(value) if _PLACED.fullmatch(one.strip()) or "{{item" in one), "")
        if text:
            message = f"node '{node.id}'.args.{name}: '{text}' is passed as it is: args are not filled in"
            problems.error(node.line, message, _instead(node, text))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def _instead(node: NodeSpec, text: str) -> str:
    name = re.sub(r"^(\{\{\s*|\$\.)(state\.)?|\s*\}\}$", "", text.strip())
    root = re.split(r"[.\[]", name)[0]
    if node.kind == "flow":
        has = (
            "gets it if a node of it reads 'item'" if root == "item" else f"gets '{root}' if it is in 'reads'"
        )
        return f"leave it out: the inner flow {has}"
    if node.kind == "tool":
        has = (
            f"'{root}' beside 'args'"
            if root in ("item", "index")
            else f"'{root}' in 'state' if it is in 'reads'"
        )
        return f"leave it out: the tool gets {has}"
    return f"leave it out, and write '{{{{{name}}}}}' in the prompt"


def check_inner_inputs(node: NodeSpec, inner: FlowSpec | None, problems: ProblemList) -> None:
    """Report what the flow of a node needs and is not given."""
    given = {*node.reads, *node.args}
    if node.for_each is not None or node.group:
        given |= {"item", "index"}
    missing = [] if inner is None else [name for name in inner.inputs if name not in given]
    if missing and inner is not None:
        message = f"node '{node.id}': {inner.path.name} needs a value of {', '.join(missing)}"
        near = near_name(missing[0], given)
        hint = f"did you mean '{missing[0]}' instead of '{near}'?" if near else "add it to 'reads' or 'args'"
        if missing[0] == "item":
            hint = "the node needs 'for_each'"
        problems.error(node.line, message, hint)


# -- rows -----------------------------------------------------------------------------------------------------------------


def check_items(flow: FlowSpec, problems: ProblemList) -> None:
    """Report prompts that name a key of their item which the rows of the data set do not have."""
    keys: dict[str, frozenset[str] | None] = {}
    for node in flow.nodes.values():
        group = flow.pipelines.get(node.group)
        each = (
            node.for_each.source if node.for_each is not None else group.source if group is not None else ""
        )
        dataset = _dataset_of(flow, each.removeprefix("$."))
        if dataset is None or node.kind not in ("agent", "human"):
            continue
        names = [name for name in names_of_prompt(node) if name.startswith("item.")]
        if names and dataset.id not in keys:
            keys[dataset.id] = _keys_of_rows(dataset)
        known = keys.get(dataset.id)
        for name in names if known is not None else ():
            key = name.split(".")[1]
            if known is not None and key not in known:
                assert node.prompt is not None
                assert dataset.file is not None
                message = f"node '{node.id}': {node.prompt.name} names '{{{{{name}}}}}', but the rows of {dataset.file.name} have no '{key}'"
                problems.unknown(node.line, message, key, sorted(known))


def _dataset_of(flow: FlowSpec, field: str) -> NodeSpec | None:
    writers = [flow.nodes[name] for name in flow.writers(field)] if field else []
    one = writers[0] if len(writers) == 1 else None
    whole = one is not None and one.kind == "dataset" and one.writes == (field,)
    return one if whole and one is not None and one.file is not None and one.file.is_file() else None


def _keys_of_rows(node: NodeSpec) -> frozenset[str] | None:
    """The keys of the first rows; None if that cannot be said: there are none, or what is wrong with them is said when they are read."""
    from headway.flows.running.dataset_rows import rows_of  # Reads tables.

    assert node.file is not None
    keys: set[str] = set()
    try:
        rows = [msgspec.json.decode(row) for row in islice(rows_of(node.file), FIRST_ROWS)]
    except (HeadwayError, OSError, msgspec.DecodeError):
        return None
    for row in rows:
        if not isinstance(row, dict):
            return None
        keys |= row.keys()
    return frozenset(keys) if rows else None
