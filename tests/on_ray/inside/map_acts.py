"""Functions for `headway.map` on a cluster."""

from __future__ import annotations

import os
import signal

import headway


def act(item: str) -> str:
    """Do one act."""
    name, _, argument = item.partition(" ")
    if name == "raise":
        raise ValueError(argument)
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "pay":
        headway.usage(input_tokens=3, cost_usd=0.5)
    return f"{argument} by {os.getpid() != 1}"
