"""Debian's Prometheus on loopback: it scrapes one address, and answers queries. Without it the tests are skipped; where `CI` is set they fail,
because `.ci/run` installs it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import pytest
from tests.crash.stage import wait_for

_CONFIG = """
global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}
scrape_configs:
  - job_name: headway
    metrics_path: {path}
    static_configs: [{{targets: ["{target}"]}}]
"""


def program(name: str) -> str:
    """The path of a program of Prometheus; skips the test where there is none."""
    path = shutil.which(name)
    return (
        path
        if path is not None
        else _missing("prometheus is not installed: RUNLEVEL=1 apt-get install prometheus")
    )


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


class Prometheus:
    """A server that runs."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        found: list[dict[str, Any]] = self._get(f"/api/v1/query?query={quote(expression)}").get("result", [])
        return found

    def metadata(self) -> dict[str, str]:
        """The types of all families that it has scraped."""
        return {name: entries[0]["type"] for name, entries in self._get("/api/v1/metadata").items()}

    def _get(self, path: str) -> Any:
        try:
            with urlopen(self.url + path, timeout=20) as answer:
                return json.load(answer)["data"]
        except (OSError, ValueError):  # It is not ready yet.
            return {}


@contextmanager
def scraping(url: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes this address, and listens on loopback alone."""
    parts = urlsplit(url)
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(path=parts.path, target=parts.netloc), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(
        arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            prometheus = Prometheus(port)
            wait_for("prometheus", lambda: prometheus.query("up == 1"), 60.0)
            yield prometheus
        finally:
            server.kill()
