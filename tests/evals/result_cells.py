"""The cells of a results file in promptfoo's shape (version 3), as the tests compare them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

Status = Literal["pass", "fail", "error"]
_ERROR: Final = 2
#: Names of tool calls differ from run to run.
_CALL_NAME: Final = re.compile(r"^call_[0-9a-f]+$")


class ResultCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a cell came to. An error has no score and no output to compare."""

    status: Status
    score: float = 0.0
    output: Any = None

    def differs(self, other: ResultCell) -> bool:
        """Whether two cells are not the same, but for rounding."""
        same = (self.status, self.output) == (other.status, other.output)
        return not same or abs(self.score - other.score) > 1e-6


def read_cells(path: Path) -> dict[str, ResultCell]:
    """The cells by `testIdx/promptIdx`, in this order."""
    rows = json.loads(path.read_text())["results"]["results"]
    rows.sort(key=lambda row: (row["testIdx"], row["promptIdx"]))
    return {f"{row['testIdx']}/{row['promptIdx']}": _cell(row) for row in rows}


def expected_cells(path: Path) -> dict[str, ResultCell]:
    """The cells of an `expected.json`."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, ResultCell])


def write_expected(path: Path, cells: dict[str, ResultCell]) -> None:
    """A line for each cell."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {msgspec.json.encode(cell).decode()}" for name, cell in cells.items()
    )
    path.write_text(f"{{\n{lines}\n}}\n")


def differences(expected: dict[str, ResultCell], cells: dict[str, ResultCell]) -> list[str]:
    """A line for each cell that is missing, superfluous or not as expected."""
    lines = [f"{name}: missing" for name in expected.keys() - cells.keys()]
    lines += [f"{name}: not expected, {cells[name]}" for name in cells.keys() - expected.keys()]
    for name in expected.keys() & cells.keys():
        if expected[name].differs(cells[name]):
            lines.append(f"{name}: expected {expected[name]}, not {cells[name]}")
    return sorted(lines)


def _cell(row: dict[str, Any]) -> ResultCell:
    if row["failureReason"] == _ERROR:
        return ResultCell("error")
    output = _without_call_names((row.get("response") or {}).get("output"))
    return ResultCell("pass" if row["success"] else "fail", round(row["score"], 9), output)


def _without_call_names(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_call_names(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_call_names(item) for key, item in value.items()}
    return "call" if isinstance(value, str) and _CALL_NAME.match(value) else value
