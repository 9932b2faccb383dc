"""The fixtures of the commands: a fake provider, and `headway` in this process."""

from __future__ import annotations

from tests.cli.conftest import headway, provider, stage

__all__ = ["headway", "provider", "stage"]
