"""The agents that run now, as rows of the live view: unit, turn, last tool, tokens, cost, age. The oldest come first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from headway.display.formatting import duration, money, short
from headway.engine.observer import AgentActivity
from headway.safe_text import one_line

#: At most so many agents have a row of their own; the others share one.
MOST_AGENTS: Final = 8
_NUMBERS: Final = ("turn", "tokens", "cost", "age")
#: The widths of the columns of text.
_UNIT: Final = 32
_TOOL: Final = 24


def agent_table(agents: Iterable[AgentActivity], at_utc: float, width: int, room: int) -> Table | None:
    """A table of at most `room` rows below its head, for the instant `at_utc`; None without agents."""
    ordered = sorted(agents, key=lambda agent: (agent.started_utc, agent.unit))
    room = min(MOST_AGENTS, room)
    if not ordered or room < 1:
        return None
    shown = ordered if len(ordered) <= room else ordered[: room - 1]
    names = _columns(ordered, width)
    table = Table(box=None, padding=(0, 1), show_edge=False, header_style="dim")
    for name in names:
        right = name in _NUMBERS
        table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for agent in shown:
        table.add_row(*(Text(one_line(_cell(agent, name, at_utc))) for name in names))
    if rest := ordered[len(shown) :]:
        table.add_row(*(Text(_rest(rest, name)) for name in names), style="dim")
    return table


def _columns(agents: Sequence[AgentActivity], width: int) -> list[str]:
    """The columns: without those that say nothing, or that a narrow terminal has no room for."""
    lanes = {agent.lane for agent in agents}
    wanted = {
        "agent": True,
        "lane": len(lanes) > 1 and width >= 100,
        "turn": True,
        "last tool": width >= 60,
        "tokens": width >= 50,
        "cost": any(agent.cost_usd for agent in agents),
        "age": True,
    }
    return [name for name, is_wanted in wanted.items() if is_wanted]


def _cell(agent: AgentActivity, name: str, at_utc: float) -> str:
    match name:
        case "agent":
            return short(agent.unit, _UNIT)
        case "lane":
            return agent.lane
        case "turn":
            return f"{agent.turn:,}"
        case "last tool":
            return short(agent.tool, _TOOL)
        case "tokens":
            return f"{agent.tokens:,}" if agent.tokens else ""
        case "cost":
            return money(agent.cost_usd) if agent.cost_usd else ""
        case _:
            return duration(max(0.0, at_utc - agent.started_utc))


def _rest(agents: Sequence[AgentActivity], name: str) -> str:
    match name:
        case "agent":
            return f"and {len(agents):,} more"
        case "tokens":
            return f"{sum(agent.tokens for agent in agents):,}"
        case "cost":
            return money(sum(agent.cost_usd for agent in agents))
        case _:
            return ""
