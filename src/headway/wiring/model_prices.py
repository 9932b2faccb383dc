"""What a job's models cost: by the settings, otherwise by the price list.

Prices of the list are cached beside the database (`prices.json`) for a day, so that the list is not loaded at every start. A
budget needs its prices before anything is sent; otherwise they are looked up while the first requests are sent.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from headway.config import Config, kind_of
from headway.config.price_list import PriceQuery, edition, look_up
from headway.core.model import Price
from headway.errors import ConfigError
from headway.install_hint import install_command
from headway.stores.files import write_own
from headway.wiring.store_access import headway_folder

#: A provider's name, and the name of a model.
Model = tuple[str, str]
#: The timeout for loading the list; a third of a second is usual.
PATIENCE_S: Final = 20.0
_DAY_S: Final = 86_400
#: Variables that a process needs to start. None holds a key.
_NEEDED: Final = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV")


class _CachedPrices(msgspec.Struct):
    """Prices that were looked up before. They are valid for one edition of the list and one day."""

    edition: str = ""
    day: int = 0
    prices: dict[str, Price | None] = {}


def prices_of(config: Config, models: Iterable[Model]) -> dict[Model, Price | None]:
    """The price of each model; None if it is unknown. May take a third of a second, once a day."""
    known, queries = ready_prices(config, models)
    if queries:
        prices = dict(zip(queries, look_up(list(queries.values())), strict=True))
        _add_to_cache(config, queries, prices)
        known |= prices
    return known


def ready_prices(
    config: Config, models: Iterable[Model]
) -> tuple[dict[Model, Price | None], dict[Model, PriceQuery]]:
    """The prices that are known without loading the list, and the queries for the others."""
    known: dict[Model, Price | None] = {}
    queries: dict[Model, PriceQuery] = {}
    for name, model in models:
        provider = config.providers[name]
        query = PriceQuery(provider.base_url, provider.kind, model, provider.like(model))
        price = provider.price_of(model)
        if price is not None or query.pointless or kind_of(provider).reports_cost or not edition():
            known[name, model] = price
        else:
            queries[name, model] = query
    cached = _cached(config).prices if queries else {}
    known |= {each: cached[_key(query)] for each, query in queries.items() if _key(query) in cached}
    return known, {each: query for each, query in queries.items() if each not in known}


async def prices_later(config: Config, queries: Mapping[Model, PriceQuery]) -> dict[Model, Price | None]:
    """The prices of these queries from another process, so that the run goes on while the list is loaded."""
    listed = await _look_up_in_process(msgspec.json.encode(list(queries.values())))
    if listed is None:
        return dict.fromkeys(queries)
    prices = dict(zip(queries, listed, strict=True))
    _add_to_cache(config, queries, prices)
    return prices


async def _look_up_in_process(queries: bytes) -> list[Price | None] | None:
    """`look_up` in another process; None if the process fails."""
    environ = {
        name: value for name, value in os.environ.items() if name in _NEEDED or name.startswith("PYTHON")
    }
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "headway.config.price_list",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env=environ, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    try:
        output, _ = await asyncio.wait_for(process.communicate(queries), PATIENCE_S)
        return msgspec.json.decode(output, type=list[Price | None])
    except (TimeoutError, msgspec.DecodeError):
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def must_be_known(config: Config, provider: str, model: str) -> str:
    """The budget that needs the price of a model; "" if there is none."""
    settings = config.providers[provider]
    if kind_of(settings).reports_cost:
        return ""
    if config.run.max_cost_usd:
        return "--max-cost"
    if settings.max_cost_usd:
        return f"max_cost in [providers.{provider}]"
    if settings.max_costs.get(model):
        return f'max_cost in [providers.{provider}.models."{model}"]'
    return ""


def required_price(config: Config, provider: str, model: str) -> Price:
    """The price of a model that a budget needs; an error if it is unknown."""
    price = prices_of(config, [(provider, model)])[provider, model]
    if price is None:
        raise ConfigError(
            f"{must_be_known(config, provider, model)}: the price of {provider}/{model} is not known",
            hint=_remedy(config, provider, model),
        )
    return price


def price_place(config: Config, provider: str, model: str) -> str:
    """What sets the price of a model, and where."""
    if provider in config.of_eval:
        return "inputCost and outputCost in config of the provider, USD per token"
    return f'input and output in [providers.{provider}.models."{model}".prices], USD per million tokens'


def _remedy(config: Config, provider: str, model: str) -> str:
    text = f"set {price_place(config, provider, model)} (0 where it is free)"
    return text if edition() else f"the price list is missing ({install_command('prices')}); or {text}"


def unpriced_line(config: Config, prices: Mapping[Model, Price | None]) -> str:
    """One line about the models without a known price; "" if there are none. Models on this machine are not named."""
    missing = [
        (name, model)
        for (name, model), price in prices.items()
        if price is None
        and not kind_of(config.providers[name]).reports_cost
        and not PriceQuery(
            config.providers[name].base_url, "", model, config.providers[name].like(model)
        ).pointless
    ]
    if not missing:
        return ""
    names = ", ".join(f"'{name}/{model}'" for name, model in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return f"no price is known for {names}{more}: the cost is not counted; {_remedy(config, *missing[0])}"


# -- the cache -----------------------------------------------------------------------------------------------------


def _cache_file(config: Config) -> Path:
    return headway_folder(config) / "prices.json"


def _key(query: PriceQuery) -> str:
    return " ".join(msgspec.structs.astuple(query))


def _today() -> int:
    return int(time.time() // _DAY_S)


def _cached(config: Config) -> _CachedPrices:
    try:
        cached = msgspec.json.decode(_cache_file(config).read_bytes(), type=_CachedPrices)
    except (OSError, msgspec.DecodeError):
        cached = _CachedPrices()
    fresh = (cached.edition, cached.day) == (edition(), _today())
    return cached if fresh else _CachedPrices(edition(), _today(), {})


def _add_to_cache(
    config: Config, queries: Mapping[Model, PriceQuery], prices: Mapping[Model, Price | None]
) -> None:
    """Save prices for the next start. If that fails, they are looked up again."""
    cached = _cached(config)
    cached.prices.update({_key(queries[each]): price for each, price in prices.items()})
    with suppress(OSError):
        write_own(_cache_file(config), 0, msgspec.json.encode(cached))
