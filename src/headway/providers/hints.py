"""What a provider said → facts: one of the closed list of kinds, and everything it told about limits and waits.

`understand` is pure: no clock, no I/O, no logging; the present is an argument. Malformed input gives no hint,
never an exception. Two rules come before all others. A success stays a success whatever its headers say. And
only errors are read for their words: the body of a 2xx and the answer of an agent may speak of limits as they like.

How a failure is read: `bodies`, `exceptions` and `agents` find what was said, `kinds` what it means, `gauges` and
`ietf` read headers, `texts` and `google` sentences and quota ids; `failures` puts it together.
"""

from __future__ import annotations

from typing import Final

from headway.core.model import Hint
from headway.providers import agents, bodies, exceptions, failures, gauges
from headway.providers.bodies import Said
from headway.providers.profile import Profile
from headway.providers.seen import Facts, Seen

FINE: Final = Facts(None)


def understand(seen: Seen, profile: Profile, *, now_utc: float, zone: str = "UTC") -> Facts:
    """What an attempt's answer means. `zone` is the local one, for clock times that name none."""
    if seen.origin == "cli":
        return _of_agent(seen, profile, now_utc, zone)
    status = seen.status
    good = status is not None and 200 <= status < 300
    if good and seen.origin == "http":
        return _success(seen, profile, now_utc)
    said = _joined(bodies.read(seen.body), seen.text)
    return failures.facts(
        said.status if good or status is None else status, said, seen, profile, now_utc, zone
    )


def _success(seen: Seen, profile: Profile, now_utc: float) -> Facts:
    row = gauges.row_of(seen.headers, profile)
    if row is None:
        return FINE
    reports = failures.reports_of(row, profile, gauges.clock_of(row, profile, now_utc))
    return Facts(None, Hint(reports)) if reports else FINE


def _of_agent(seen: Seen, profile: Profile, now_utc: float, zone: str) -> Facts:
    """An agent's run: its events decide; without any, whatever it said about a failure."""
    ending = agents.read(seen.body) if profile.agent else agents.Ending()
    refused = seen.status is not None and seen.status >= 400
    if ending.ok or (ending.ok is None and not (ending.rejected or refused or seen.text.strip())):
        return FINE
    said = _joined(ending.said or Said(), seen.text)
    if ending.rejected:
        said.codes.insert(0, "usage_limit_reached")
        said.waits.append(ending.resets_at)
    return failures.facts(seen.status if refused else said.status, said, seen, profile, now_utc, zone)


def _joined(said: Said, text: str) -> Said:
    """What structure said, and what a text adds where that left something open."""
    if not text or (said.message and said.codes):
        return said
    more = exceptions.read(text)
    said.message = said.message or more.message
    said.codes += (code for code in more.codes if code not in said.codes)
    said.status = said.status if said.status is not None else more.status
    said.waits += more.waits
    said.quotas = said.quotas or more.quotas
    return said
