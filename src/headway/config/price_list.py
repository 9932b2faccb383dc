"""What models cost, by the price list of the package `genai-prices`. Only this file imports that package.

Loading it takes a third of a second, so a run does not: it runs this file in another process (`python -m
headway.config.price_list`, queries in, prices out, as JSON) and caches the result. The list is part of the package;
nothing goes over the network.

How an entry is found: the provider by its address, the model by the list's own matching (dated versions, Azure's and
Bedrock's names, …). At an unknown address (a gateway) a name such as `openai/gpt-x` names the provider; otherwise the kind of
API does, with its own models only. A server on this machine has no price unless one is configured.
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

#: The provider in the list for each kind of API, if the address is unknown.
VENDORS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure",
    "gemini": "google",
    "bedrock": "aws",
}
#: Our rates, and their names in the list.
_RATES: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


class PriceQuery(msgspec.Struct, frozen=True):
    """A query for one price. `like` names the entry of the list to use, `gpt-4o` or `azure/gpt-4o`."""

    base_url: str
    kind: str
    model: str
    like: str = ""

    @property
    def pointless(self) -> bool:
        """Whether no list can have this price."""
        return not self.like and is_loopback(self.base_url)


@cache
def edition() -> str:
    """Identifies the installed list without loading it; "" if there is none."""
    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return ""
    try:
        status = os.stat(os.path.join(os.path.dirname(spec.origin), "data.py"))
    except OSError:
        return spec.origin
    return f"{status.st_size}-{status.st_mtime_ns}"


def look_up(queries: Sequence[PriceQuery]) -> list[Price | None]:
    """Today's prices; None where the list has none. Loads the list."""
    if not edition():
        return [None] * len(queries)
    from genai_prices.data_snapshot import get_snapshot

    snapshot, now = get_snapshot(), datetime.now(UTC)
    return [None if query.pointless else _find(snapshot, query, now) for query in queries]


def _find(snapshot: Any, query: PriceQuery, now: datetime) -> Price | None:
    for vendor, model in _candidates(snapshot, query):
        try:
            _, entry = snapshot.find_provider_model(model, vendor, None, None)
        except LookupError:
            continue
        return _price(entry.get_prices(now))
    return None


def _candidates(snapshot: Any, query: PriceQuery) -> list[tuple[Any, str]]:
    """Providers of the list with possible names of the model, the likeliest first."""
    wanted = query.like or query.model
    name, slash, rest = wanted.partition("/")
    named = _vendor(snapshot, name) if slash else None
    host = None if is_loopback(query.base_url) else _vendor(snapshot, None, query.base_url)
    if host is not None and (not query.like or named is None):
        return [(host, wanted), *([(host, rest)] if named is host else [])]
    usual = _vendor(snapshot, VENDORS.get(query.kind))
    return [
        (vendor, model) for vendor, model in ((named, rest), (usual, wanted)) if vendor is not None and model
    ]


def _vendor(snapshot: Any, name: str | None, url: str | None = None) -> Any:
    try:
        return snapshot.find_provider(None, name, url) if name or url else None
    except LookupError:
        return None


def _price(listed: Any) -> Price | None:
    """An entry of the list as a `Price`. Charges other than by the token are left out."""
    rates = {ours: getattr(listed, theirs, None) for ours, theirs in _RATES.items()}
    if rates["input"] is None:
        return None
    starts = sorted({tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})
    base, *above = (_priced(rates, start) for start in (-1, *starts))
    return msgspec.structs.replace(base, above=tuple(zip(map(float, starts), above, strict=True)))


def _priced(rates: dict[str, Any], start: int) -> Price:
    """The price from `start` input tokens on."""
    prices: dict[str, Any] = {}
    for name, rate in rates.items():
        if rate is not None:
            tiers = [tier.price for tier in getattr(rate, "tiers", ()) if tier.start <= start]
            prices[name] = float(tiers[-1] if tiers else getattr(rate, "base", rate))
    return Price(**prices)


def main() -> None:
    """Read queries from standard input, write their prices to standard output."""
    queries = msgspec.json.decode(sys.stdin.buffer.read(), type=list[PriceQuery])
    sys.stdout.buffer.write(msgspec.json.encode(look_up(queries)))


if __name__ == "__main__":
    main()
