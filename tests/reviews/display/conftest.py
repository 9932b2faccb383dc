"""The browser of the page tests, and the validator of SARIF."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.evals.html.conftest import browser, open_page

__all__ = ["browser", "open_page"]

MULTITOOL: Final = (
    Path(__file__).parents[3] / ".cache" / "sarif" / "node_modules" / "@microsoft" / "sarif-multitool-linux" / "Sarif.Multitool"
)  # fmt: skip
#: Errors and warnings of the validator for a SARIF file.
Validate = Callable[[Path], list[str]]


@pytest.fixture
def validate() -> Validate:
    """Runs Microsoft's validator, with the rules of SARIF and of GitHub. Skips the test where it is not installed; with CI set, the test fails."""
    if not os.access(MULTITOOL, os.X_OK):
        what = "sarif-multitool is not installed: make sarif"
        pytest.fail(what) if os.environ.get("CI") else pytest.skip(what)
    return _problems


def _problems(path: Path) -> list[str]:
    command = [
        str(MULTITOOL),
        "validate",
        str(path),
        "--rule-kind",
        "Sarif;Gh;Ghas",
        "--level",
        "Error;Warning",
    ]
    environment = {
        "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
        "PATH": os.environ["PATH"],
        "HOME": str(path.parent),
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    output = done.stdout + done.stderr
    assert "Analysis completed" in output, output
    return [line for line in output.splitlines() if ": error " in line or ": warning " in line]
