"""Each file of results and the text of the terminal, complete, compared with files in `golden/`.

`HEADWAY_WRITE_GOLDEN=1` rewrites them: review the diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.evals.display.shop import shop
from tests.evals.reports.eval_views import matrix

from headway.display.evals.difference_text import cell_parts, cell_title, difference_lines
from headway.display.evals.summary_text import summary_text
from headway.display.evals.writers import write
from headway.reports.evals.differences import eval_differences
from headway.reports.evals.eval_summary import eval_summary
from headway.safe_text import visible

GOLDEN = Path(__file__).with_name("golden")


def compare(name: str, data: bytes) -> None:
    path = GOLDEN / name
    if os.environ.get("HEADWAY_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    assert data.decode() == path.read_bytes().decode()


@pytest.mark.parametrize("name", ["results.json", "results.csv", "results.xml", "results.md"])
def test_a_file(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, shop())
    compare(name, (tmp_path / name).read_bytes())
    write(tmp_path / f"again-{name}", shop())
    assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_cells_that_no_spreadsheet_runs(tmp_path: Path) -> None:
    write(tmp_path / "results.csv", shop(), safe_cells=True)
    compare("results.safe.csv", (tmp_path / "results.csv").read_bytes())


@pytest.mark.parametrize("width", [120, 80, 40])
def test_the_terminal(width: int) -> None:
    text = summary_text(eval_summary(shop(), 5), width)
    assert max(map(len, text.splitlines())) <= width
    assert text == visible(text), "nothing of an answer or an error controls the terminal"
    compare(f"summary-{width}.txt", f"{text}\n".encode())


def test_two_evals_compared() -> None:
    report = eval_differences(matrix("pppffpe", "ppppppp"), matrix("ffpppp p", "fffffff"), 2)
    lines = list(difference_lines(report))
    for cell in report.cells:
        lines += [cell_title(cell), "".join(f"<{kind}>{text}" for kind, text in cell_parts(cell))]
    compare("differences.txt", ("\n".join(lines) + "\n").encode())
