"""The flags for what watches a run from outside: --metrics, --notify, --notify-hold, --otel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.config import parse_duration
from headway.errors import UsageError
from headway.wiring.run_plan import WatchFlags


def watch_of(flags: Mapping[str, Any]) -> WatchFlags:
    """The flags for what watches the run. The port of --metrics is opened here, before anything is read."""
    metrics: str | None = flags.get("metrics")
    port = None
    if metrics is not None:
        from headway.metrics.open_port import MetricsSocket, parse_address

        port = MetricsSocket(parse_address(metrics))
    hold: str | None = flags.get("notify_hold")
    try:
        hold_s = None if hold is None else parse_duration(hold)
    except ValueError as error:
        raise UsageError(f"--notify-hold: {error}") from None
    return WatchFlags(port, tuple(flags.get("notify") or ()), hold_s, flags.get("otel"))
