"""What a job's models cost: by the settings, and where those say nothing by the price list.

What the list said is kept beside the database (`prices.json`) for a day, so that it is read once and not at every start.
Where a budget is to be kept a price must be there before anything is sent; otherwise it is looked up while the first
requests are on their way.
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
from headway.stores.files import write_own
from headway.wiring.store_access import headway_folder

#: A provider's name, and a model of it.
Model = tuple[str, str]
#: How long a list may take to be read; a third of a second is usual.
PATIENCE_S: Final = 20.0
_DAY_S: Final = 86_400
#: What a process needs of the environment to start; keys are none of it.
_NEEDED: Final = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV")


class _Kept(msgspec.Struct):
    """What was looked up before. Another edition of the list, or another day, and it is worth nothing."""

    edition: str = ""
    day: int = 0
    prices: dict[str, Price | None] = {}


def prices_of(config: Config, models: Iterable[Model]) -> dict[Model, Price | None]:
    """The price of each model, None where nobody knows it. May take a third of a second, once a day."""
    known, asked = ready_prices(config, models)
    if asked:
        found = dict(zip(asked, look_up(list(asked.values())), strict=True))
        _keep(config, asked, found)
        known |= found
    return known


def ready_prices(
    config: Config, models: Iterable[Model]
) -> tuple[dict[Model, Price | None], dict[Model, PriceQuery]]:
    """The prices that are known without a look at the list, and what the list is to be asked for the others."""
    known: dict[Model, Price | None] = {}
    open_ones: dict[Model, PriceQuery] = {}
    for name, model in models:
        provider = config.providers[name]
        asked = PriceQuery(provider.base_url, provider.kind, model, provider.like(model))
        price = provider.price_of(model)
        if price is not None or asked.pointless or kind_of(provider).reports_cost or not edition():
            known[name, model] = price
        else:
            open_ones[name, model] = asked
    kept = _kept(config).prices if open_ones else {}
    known |= {each: kept[_key(asked)] for each, asked in open_ones.items() if _key(asked) in kept}
    return known, {each: asked for each, asked in open_ones.items() if each not in known}


async def prices_later(config: Config, asked: Mapping[Model, PriceQuery]) -> dict[Model, Price | None]:
    """The same answers from a process of its own, so that a run does not stand still while the list is read."""
    told = await _ask(msgspec.json.encode(list(asked.values())))
    if told is None:
        return dict.fromkeys(asked)
    found = dict(zip(asked, told, strict=True))
    _keep(config, asked, found)
    return found


async def _ask(questions: bytes) -> list[Price | None] | None:
    """What a process with the list says; None where it does not come to that."""
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
        said, _ = await asyncio.wait_for(process.communicate(questions), PATIENCE_S)
        return msgspec.json.decode(said, type=list[Price | None])
    except (TimeoutError, msgspec.DecodeError):
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def must_be_known(config: Config, provider: str, model: str) -> str:
    """Which budget cannot be kept without this price; "" where there is none."""
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
    """The price of a model that a budget counts: one that nobody can count is an error, not a hope."""
    price = prices_of(config, [(provider, model)])[provider, model]
    if price is None:
        raise ConfigError(
            f"{must_be_known(config, provider, model)}: the price of {provider}/{model} is not known",
            hint=_remedy(provider, model),
        )
    return price


def _remedy(provider: str, model: str) -> str:
    table = f'[providers.{provider}.models."{model}".prices]'
    text = f"set input and output in {table}, USD a million tokens (0 where it is free)"
    return text if edition() else f"pip install 'headway[prices]' for a price list, or {text}"


def unpriced_line(config: Config, prices: Mapping[Model, Price | None]) -> str:
    """One line about the models whose price nobody knows; "" where there are none. What is on this machine is not missed."""
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
    return f"no price is known for {names}{more}: the cost is not counted; {_remedy(*missing[0])}"


# -- what was heard before -----------------------------------------------------------------------------------------


def _place(config: Config) -> Path:
    return headway_folder(config) / "prices.json"


def _key(asked: PriceQuery) -> str:
    return " ".join(msgspec.structs.astuple(asked))


def _today() -> int:
    return int(time.time() // _DAY_S)


def _kept(config: Config) -> _Kept:
    try:
        kept = msgspec.json.decode(_place(config).read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        kept = _Kept()
    fresh = (kept.edition, kept.day) == (edition(), _today())
    return kept if fresh else _Kept(edition(), _today(), {})


def _keep(config: Config, asked: Mapping[Model, PriceQuery], found: Mapping[Model, Price | None]) -> None:
    """For the next start. Where that cannot be written, it is looked up again."""
    kept = _kept(config)
    kept.prices.update({_key(asked[each]): price for each, price in found.items()})
    with suppress(OSError):
        write_own(_place(config), 0, msgspec.json.encode(kept))
