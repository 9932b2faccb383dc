"""The command that installs an extra fits how Headway was installed."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from headway import install_hint
from headway.install_hint import install_command


class Installed(Distribution):
    """A distribution with these files."""

    def __init__(self, **files: str) -> None:
        self._files = files

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename.partition(".")[0])

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def pip_is_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: str(Path(sys.executable).with_name("pip")))


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        ({}, "'headway[parquet]'"),
        ({"url": "file:///home/me/a%20b", "dir_info": {"editable": True}}, "-e '/home/me/a b[parquet]'"),
        ({"url": "file:///home/me/headway", "dir_info": {}}, "'/home/me/headway[parquet]'"),
        (
            {"url": "https://host/headway.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            "'headway[parquet] @ git+https://host/headway.git@0a1b'",
        ),
        (
            {
                "url": "https://host/x.git",
                "vcs_info": {"vcs": "git", "commit_id": "0a1b", "requested_revision": "v2"},
            },
            "'headway[parquet] @ git+https://host/x.git@v2'",
        ),
        (
            {"url": "https://host/headway-1.whl", "archive_info": {}},
            "'headway[parquet] @ https://host/headway-1.whl'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_headway_came(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any], target: str
) -> None:
    installed = Installed(direct_url=json.dumps(origin), INSTALLER="pip\n")
    monkeypatch.setattr(install_hint, "_installed", lambda: installed)
    assert install_command("parquet") == f"pip install {target}"
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/pip")
    assert install_command("parquet") == f"{sys.executable} -m pip install {target}"
    installed = Installed(direct_url=json.dumps(origin), INSTALLER="uv")
    assert install_command("parquet") == f"uv pip install {target}"


def test_damaged_or_missing_records_mean_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for installed in (None, Installed(direct_url="{"), Installed(direct_url="[]")):
        monkeypatch.setattr(install_hint, "_installed", lambda installed=installed: installed)
        assert install_command("schema") == "pip install 'headway[schema]'"
