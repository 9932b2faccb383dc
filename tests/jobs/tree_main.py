"""`headway` that knows the kinds "tree" and "gate" and the provider kind "echo", with the faults of the crash tests."""

from __future__ import annotations

import sys

from tests.crash.launcher import main
from tests.jobs.gate_kind import GATE
from tests.jobs.tree_kind import TREE
from tests.wiring.echo_kind import ECHO, EchoBuilder

from headway import config
from headway.jobs.kinds import KINDS
from headway.wiring.builders import BUILDERS

if __name__ == "__main__":
    KINDS[TREE.name] = TREE
    KINDS[GATE.name] = GATE
    config.KINDS[ECHO.name] = ECHO
    BUILDERS[ECHO.builder] = EchoBuilder()
    sys.exit(main())
