"""The key under which a job keeps the cap that `headway budget` gave it: it holds for later runs, above headway.toml."""

from __future__ import annotations

from typing import Final

BUDGET: Final = "budget_usd"


def budget_text(max_cost_usd: float) -> str:
    """A cap for people."""
    return f"at most ${max_cost_usd:,.10g}" if max_cost_usd else "no cap on its cost"
