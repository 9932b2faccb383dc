"""Every example in a docstring of the Python side runs, and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import headway
import headway.api
import headway.config
import headway.executors
import headway.providers
import headway.runtime
import headway.sdk
import headway.testing

#: The packages that have public names, or what those stand on.
PACKAGES = (
    headway.api,
    headway.config,
    headway.executors,
    headway.providers,
    headway.runtime,
    headway.testing,
)


def modules() -> list[ModuleType]:
    found = []
    for package in PACKAGES:
        names = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        found += [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return found


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    failed, _ = doctest.testmod(module, raise_on_error=False)
    assert failed == 0


#: What shows itself: a figure, an exception that is read, the results of a call.
BARE = {
    "HeadwayError",
    "UnitError",
    "CallsFailed",
    "Result",
    "Stream",
    "PoolResult",
    "Permit",
    "WorkerResult",
    "WorkUnit",
    "__version__",
}
BARE |= {"Call", "FakeProvider", "Scripted", "VirtualLoop", "Clock", "after"}


def test_public_names_have_an_example() -> None:
    named = [(headway, name) for name in headway.__all__]
    named += [(headway.testing, name) for name in headway.testing.__all__]
    without = [
        name
        for module, name in named
        if name not in BARE and ">>>" not in (getattr(module, name).__doc__ or "")
    ]
    assert without == []
