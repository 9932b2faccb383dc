"""What models cost, by the price list of `genai-prices`: the one place that knows that package, and it is loaded here only.

Loading it takes a third of a second, so a run does not: it asks this file in a process of its own (`python -m
headway.config.price_list`, questions in, prices out, as JSON) and keeps what it heard. The list is part of the package;
nothing goes over the network.

Which entry is meant: the provider by its address, the model by the list's own matching (dated versions, Azure's and
Bedrock's names, …). Where the address is nobody's (a gateway), `openai/gpt-x` says whose model it is, and otherwise the kind
of API does, which knows its own models alone. What runs on this machine has no price unless somebody says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from headway.config.settings import is_loopback
from headway.core.model import Price

#: Whose models an API of this kind serves, where its address does not tell.
VENDORS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure",
    "gemini": "google",
    "bedrock": "aws",
}
#: Our rates, and what the list calls them.
_RATES: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


class PriceQuery(msgspec.Struct, frozen=True):
    """Which price is wanted. `like` names the model of the list that is meant, `gpt-4o` or `azure/gpt-4o`."""

    base_url: str
    kind: str
    model: str
    like: str = ""

    @property
    def pointless(self) -> bool:
        """Whether no list can know it."""
        return not self.like and is_loopback(self.base_url)


@cache
def edition() -> str:
    """Which list there is, told without loading it; "" where there is none."""
    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return ""
    try:
        seen = os.stat(os.path.join(os.path.dirname(spec.origin), "data.py"))
    except OSError:
        return spec.origin
    return f"{seen.st_size}-{seen.st_mtime_ns}"


def look_up(questions: Sequence[PriceQuery]) -> list[Price | None]:
    """The prices of today; None for what the list does not know. Loads the list."""
    if not edition():
        return [None] * len(questions)
    from genai_prices.data_snapshot import get_snapshot

    snapshot, now = get_snapshot(), datetime.now(UTC)
    return [None if asked.pointless else _find(snapshot, asked, now) for asked in questions]


def _find(snapshot: Any, asked: PriceQuery, now: datetime) -> Price | None:
    for vendor, model in _candidates(snapshot, asked):
        try:
            _, found = snapshot.find_provider_model(model, vendor, None, None)
        except LookupError:
            continue
        return _price(found.get_prices(now))
    return None


def _candidates(snapshot: Any, asked: PriceQuery) -> list[tuple[Any, str]]:
    """Providers of the list, and what they may call the model; the likeliest first."""
    wanted = asked.like or asked.model
    name, slash, rest = wanted.partition("/")
    named = _vendor(snapshot, name) if slash else None
    host = None if is_loopback(asked.base_url) else _vendor(snapshot, None, asked.base_url)
    if host is not None and (not asked.like or named is None):
        return [(host, wanted), *([(host, rest)] if named is host else [])]
    usual = _vendor(snapshot, VENDORS.get(asked.kind))
    return [
        (vendor, model) for vendor, model in ((named, rest), (usual, wanted)) if vendor is not None and model
    ]


def _vendor(snapshot: Any, name: str | None, url: str | None = None) -> Any:
    try:
        return snapshot.find_provider(None, name, url) if name or url else None
    except LookupError:
        return None


def _price(listed: Any) -> Price | None:
    """An entry of the list as a price of ours. What is not charged by the token is left out."""
    rates = {ours: getattr(listed, theirs, None) for ours, theirs in _RATES.items()}
    if rates["input"] is None:
        return None
    starts = sorted({tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})
    base, *above = (_priced(rates, start) for start in (-1, *starts))
    return msgspec.structs.replace(base, above=tuple(zip(map(float, starts), above, strict=True)))


def _priced(rates: dict[str, Any], start: int) -> Price:
    """The price from so many input tokens on."""
    known: dict[str, Any] = {}
    for name, rate in rates.items():
        if rate is not None:
            tiers = [tier.price for tier in getattr(rate, "tiers", ()) if tier.start <= start]
            known[name] = float(tiers[-1] if tiers else getattr(rate, "base", rate))
    return Price(**known)


def main() -> None:
    """Questions on standard input, their prices on standard output."""
    questions = msgspec.json.decode(sys.stdin.buffer.read(), type=list[PriceQuery])
    sys.stdout.buffer.write(msgspec.json.encode(look_up(questions)))


if __name__ == "__main__":
    main()
