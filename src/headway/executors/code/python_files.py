"""Functions of Python files, imported in a worker process by the path of the file.

A file is imported once in each process. Modules beside it can be imported, after installed ones. The working directory is on no path:
nothing is imported from it unasked.

The process writes no bytecode: Python takes bytecode for current if the source has the same size and the same second. A module that is
changed twice within a second would be run in its old form, and its answer recorded for the new one.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType


def imported_file(path: str) -> ModuleType:
    """The module of a file. Raises whatever its code raises."""
    sys.dont_write_bytecode = True
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"headway_tool:{path}"
    module = sys.modules.get(name)
    if module is None:
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("it is not a Python file")
        module = sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module
