"""The command that installs an optional part of Headway, the way this copy was installed: from an index, a clone or a repository."""

from __future__ import annotations

import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution


def install_command(extra: str = "") -> str:
    """`pip install 'headway[parquet]'`, or the same for a clone: `pip install -e '/home/me/headway[parquet]'`."""
    return _command(f"[{extra}]" if extra else "", _installed())


@cache
def _installed() -> Distribution | None:
    from importlib.metadata import PackageNotFoundError, distribution  # 6 ms, and rarely needed

    try:
        return distribution("headway")
    except PackageNotFoundError:
        return None


def _command(extra: str, installed: Distribution | None) -> str:
    pip = (
        _pip() if installed is None or (installed.read_text("INSTALLER") or "").strip() != "uv" else "uv pip"
    )
    return f"{pip} install {_target(extra, {} if installed is None else _origin(installed))}"


def _origin(installed: Distribution) -> dict[str, Any]:
    """Where it was installed from (PEP 610); empty for a package of an index."""
    try:
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}


def _target(extra: str, origin: dict[str, Any]) -> str:
    url = origin.get("url")
    if not isinstance(url, str):
        return f"'headway{extra}'"
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        at = vcs.get("requested_revision") or vcs.get("commit_id") or ""
        return f"'headway{extra} @ {vcs.get('vcs', 'git')}+{url}{'@' if at else ''}{at}'"
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"{editable}'{unquote(urlsplit(url).path)}{extra}'"
    return f"'headway{extra} @ {url}'"


def _pip() -> str:
    """`pip` if that installs into this environment; otherwise the pip of this Python."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{sys.executable} -m pip"
