"""Checks the names in a prompt file: `{{item}}`, `{{index}}`, `{{state.diff}}`, `{{args.tone}}`."""

from __future__ import annotations

from typing import Final

from headway.batch.prompt_template import Template
from headway.config.file_problems import ProblemList
from headway.config.near_names import near_name
from headway.errors import UsageError
from headway.flows.spec import NodeSpec

ROOTS: Final = ("item", "index", "state", "args", "node", "job")


def check_prompt(node: NodeSpec, problems: ProblemList) -> None:
    """Report names that the node will not have. A missing file is reported elsewhere."""
    if node.prompt is None or not node.prompt.is_file():
        return
    try:
        names = Template(node.prompt.read_text(encoding="utf-8"), node.prompt.name).names
    except UsageError as error:
        problems.error(node.line, f"node '{node.id}': {error.message}", error.hint or "")
        return
    except (OSError, UnicodeDecodeError):
        problems.error(node.line, f"node '{node.id}': {node.prompt.name} is not a text file in UTF-8")
        return
    for name in dict.fromkeys(names):
        _check_name(node, name, problems)


def _check_name(node: NodeSpec, name: str, problems: ProblemList) -> None:
    root, _, rest = name.partition(".")
    place = f"node '{node.id}': {node.prompt.name if node.prompt else ''} names '{{{{{name}}}}}'"
    field = rest.partition(".")[0]
    if root not in ROOTS:
        near = f"state.{root}" if root in node.reads else ""
        hint = f"did you mean '{{{{{near}}}}}'?" if near else ""
        if hint:
            problems.error(node.line, f"{place}, which does not exist", hint)
        else:
            problems.unknown(node.line, f"{place}, which does not exist", root, ROOTS)
    elif root == "state" and field and field not in node.reads:
        meant = near_name(field, node.reads)
        hint = f"did you mean '{meant}'?" if meant else f"add {field} to its reads"
        problems.error(node.line, f"{place}, but the node does not read '{field}'", hint)
    elif root == "args" and field and field not in node.args:
        problems.unknown(node.line, f"{place}, but the node has no argument '{field}'", field, node.args)
    elif root in ("item", "index") and node.for_each is None and not node.group:
        problems.error(node.line, f"{place}, but the node has no 'for_each' and is in no pipeline")


def names_of_prompt(node: NodeSpec) -> tuple[str, ...]:
    """The names in a node's prompt; none if it cannot be read."""
    if node.prompt is None or not node.prompt.is_file():
        return ()
    try:
        return tuple(dict.fromkeys(Template(node.prompt.read_text(encoding="utf-8"), node.prompt.name).names))
    except (UsageError, OSError, UnicodeDecodeError):
        return ()
