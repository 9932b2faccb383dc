"""The public names: few, all there, none by accident; and the marker that says that they are typed."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import headway
import headway.errors
import headway.testing

ROOT = Path(__file__).parents[2]


def test_the_names_of_headway() -> None:
    assert sorted(headway.__all__) == [
        "AgentError",
        "AgentWorker",
        "CallsFailed",
        "Flow",
        "HeadwayError",
        "Lane",
        "Limits",
        "Permit",
        "PoolResult",
        "RateLimited",
        "Result",
        "Retry",
        "Stream",
        "UnitError",
        "WorkUnit",
        "WorkerPool",
        "WorkerResult",
        "__version__",
        "aask",
        "amap",
        "ask",
        "frame",
        "httpx_client",
        "httpx_transport",
        "map",
        "run_pool",
        "stream",
        "usage",
    ]


def test_the_names_of_testing() -> None:
    assert sorted(headway.testing.__all__) == [
        "Call",
        "Clock",
        "FakeProvider",
        "Scripted",
        "VirtualLoop",
        "after",
        "fake_provider",
        "scripted",
        "virtual_time",
    ]


def test_every_name_is_there_and_says_what_it_is() -> None:
    for module in (headway, headway.testing):
        for name in module.__all__:
            assert getattr(module, name) is not None
            assert name == "__version__" or getattr(module, name).__doc__, name
    assert dir(headway) == sorted(headway.__all__)


def test_importing_headway_loads_no_third_party_package() -> None:
    code = "import sys, headway; print(sorted({'aiohttp', 'msgspec', 'rich', 'uvloop', 'asyncio'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_map_without_a_bar_does_not_load_rich() -> None:
    code = (
        "import sys, headway; headway.map(str, [1]); print('rich' in sys.modules, 'aiohttp' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False False"


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "headway.api.value_codec":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
import headway
import headway.errors
try:
    headway.map
except KeyboardInterrupt:
    print("headway.api.value_codec" in sys.modules, "headway.api.mapping.map_stream" in sys.modules)
print(len(headway.map([].append, [1, 2])), signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_a_ctrl_c_waits_until_our_modules_are_loaded() -> None:
    """In the middle of it msgspec would take the whole process down."""
    command = [sys.executable, "-c", INTERRUPTED_WHILE_LOADING]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("True True\n2 False\n", 0), done.stderr


def test_the_wheel_has_py_typed(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"headway/py.typed", "headway/api/mapping/map_stream.py", "headway/testing/__init__.py"} <= names


def test_pages_name_only_exceptions_that_can_be_imported() -> None:
    """Subclasses of `HeadwayError` are raised, and caught by that name."""
    hidden = {name for name in vars(headway.errors) if name[0].isupper()} - set(headway.__all__)
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    named = {
        (page.name, name)
        for page in pages
        if "decisions" not in page.parts
        for name in re.findall(r"`(?:headway\.)?([A-Z]\w+)`", page.read_text())
        if name in hidden
    }
    assert named == set()
