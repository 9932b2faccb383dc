"""Opens the dashboard in the user's browser.

The token must not be an argument of the browser: every user of the machine can read those. So the browser gets the name of a file that only this
user can read, which leads to the address with the token. The file is removed when the server ends.
"""

from __future__ import annotations

import html
import os
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread


def has_display() -> bool:
    """Whether a browser can be shown: not on a terminal of another machine, and not without a screen."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(url: str) -> Callable[[], None]:
    """Open an address that is secret. Returns a function that removes the file."""
    folder = Path(tempfile.mkdtemp(prefix="headway-ui-"))  # 0700
    page = folder / "open.html"
    file = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w", encoding="utf-8") as out:
        out.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}">\n')
    Thread(
        target=_open, args=(page.as_uri(),), daemon=True
    ).start()  # Some browsers answer only when they are closed.
    return lambda: shutil.rmtree(folder, ignore_errors=True)


def _open(uri: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(uri)
