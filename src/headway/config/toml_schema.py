"""The keys of each table, and the check of each key. docs/reference/config.md documents them; a test compares the two.

`LATER` marks what is not checked with its table: an inner table, or a path that is relative to the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headway.config import checks
from headway.config.checks import Check
from headway.config.kinds import KINDS, kind_name

LATER: Final = None
Keys = Mapping[str, Check | None]

TOP: Final[Keys] = {
    "db": LATER,
    "providers": LATER,
    "run": LATER,
    "review": LATER,
    "otel": LATER,
    "ray": LATER,
}
#: Keys of a provider of any kind besides `kind`; `provider_keys` adds those of the kinds.
_ANY_PROVIDER: Final[Keys] = {
    "api_key_env": checks.variable,
    "model": checks.text,
    "pool": checks.text,
    "max_answer_bytes": checks.size,
    "max_cost": checks.amount,
    "limits": LATER,
    "retry": LATER,
    "prices": LATER,
    "models": LATER,
}
PRICES: Final[Keys] = {
    "input": checks.amount,
    "output": checks.amount,
    "cached_input": checks.amount,
    "cache_write": checks.amount,
    "like": checks.text,
}
LIMITS: Final[Keys] = {
    "rpm": checks.amount,
    "tpm": checks.amount,
    "input_tpm": checks.amount,
    "output_tpm": checks.amount,
    "rpd": checks.amount,
    "tpd": checks.amount,
    "max_concurrency": checks.count,
    "min_gap": checks.duration,
    "burst": checks.depth,
}
RETRY: Final[Keys] = {
    "base": checks.duration,
    "cap": checks.duration,
    "jitter": checks.share,
    "max_throttles": checks.count,
    "hold_margin": checks.duration,
    "default_wait": checks.duration,
}
MODEL: Final[Keys] = {"limits": LATER, "prices": LATER, "max_cost": checks.amount}
RUN: Final[Keys] = {
    "provider": checks.text,
    "concurrency": checks.count,
    "max_attempts": checks.attempts,
    "timeout": checks.some_time,
    "max_duration": checks.duration,
    "max_wait": checks.duration,
    "max_cost": checks.amount,
    "max_hold": checks.longest_hold,
    "weight": checks.weight,
    "cache": checks.cache_mode,
    "order": checks.order_name,
    "notify": checks.arguments,
    "notify_hold": checks.duration,
}
OTEL: Final[Keys] = {"enabled": checks.flag, "content": checks.flag, "propagate": checks.flag}
RAY: Final[Keys] = {
    "address": checks.ray_address,
    "travel": checks.flag,
    "exclude": checks.path_patterns,
    "units_per_actor": checks.attempts,
    "ask_ahead": checks.attempts,
}
REVIEW: Final[Keys] = {
    "concurrency": checks.files_at_once,
    "include": checks.path_patterns,
    "exclude": checks.path_patterns,
    "max_file_size": checks.size,
    "max_part_tokens": checks.attempts,
    "out_dir": checks.folder_in_tree,
    "instructions": LATER,
}
INSTRUCTION: Final[Keys] = {"path": checks.text, "text": checks.paragraphs}


def provider_keys() -> Keys:
    """The keys of `[providers.NAME]`: those of servers first, those of other kinds last."""
    servers: dict[str, Check] = {}
    others: dict[str, Check] = {}
    for kind in KINDS.values():
        (servers if kind.is_server else others).update(kind.keys)
    return {"kind": kind_name, **servers, **_ANY_PROVIDER, **others}


PROVIDER: Final[Keys] = provider_keys()
#: Every table, by its place in the file.
TABLES: Final[Mapping[str, Keys]] = {
    "": TOP,
    "providers.NAME": PROVIDER,
    "providers.NAME.limits": LIMITS,
    "providers.NAME.retry": RETRY,
    "providers.NAME.prices": PRICES,
    "providers.NAME.models.MODEL": MODEL,
    "run": RUN,
    "review": REVIEW,
    "otel": OTEL,
    "ray": RAY,
    "review.instructions": INSTRUCTION,
}
#: Fields whose names have a unit that the keys do not have.
FIELDS: Final = {
    "min_gap": "min_gap_s",
    "burst": "burst_s",
    "base": "base_s",
    "cap": "cap_s",
    "hold_margin": "hold_margin_s",
    "default_wait": "default_wait_s",
    "timeout": "timeout_s",
    "max_duration": "max_duration_s",
    "max_wait": "max_wait_s",
    "max_cost": "max_cost_usd",
    "max_hold": "max_hold_s",
    "preflight_timeout": "preflight_timeout_s",
}
#: difflib's own default.
_LEAST_LIKENESS: Final = 0.6
#: A key of another table is suggested only if it is this much more similar.
_MUCH_MORE_SIMILAR: Final = 0.2


#: Keys whose values are tables.
_TABLE_NAMES: Final = ("providers", "run", "review", "otel", "ray", "limits", "retry", "prices", "models")


def unknown_key(key: str, known: Iterable[str], *, is_table: bool = False) -> str:
    """The error for an unknown key: the nearest known key, the table that it belongs to, or all keys of this table."""
    known = list(known)
    if is_table and (near := _nearest(key, [name for name in known if name in _TABLE_NAMES])):
        return f"unknown table; did you mean '{near}'?"
    if key in ("api_key", "key", "token"):
        return "a key is never written into this file; name the variable that holds it: api_key_env"
    if elsewhere := [place for place, keys in TABLES.items() if key in keys]:
        return f"unknown key; it belongs {_in(elsewhere[0])}"
    here = _nearest(key, known)
    there = {near: place for place, keys in TABLES.items() if (near := _nearest(key, keys))}
    best = _nearest(key, there)
    if here and _likeness(key, here) >= _likeness(key, best) - _MUCH_MORE_SIMILAR:
        return f"unknown key; did you mean '{here}'?"
    if best:
        return f"unknown key; did you mean '{best}' {_in(there[best])}?"
    return f"unknown key; expected one of {', '.join(known)}"


def _nearest(key: str, known: Iterable[str]) -> str:
    import difflib  # imported only for an error

    return next(iter(difflib.get_close_matches(key, known, n=1, cutoff=_LEAST_LIKENESS)), "")


def _likeness(key: str, other: str) -> float:
    import difflib  # imported only for an error

    return difflib.SequenceMatcher(None, other, key).ratio()


def _in(place: str) -> str:
    return f"in [{place}]" if place else "at the top, before every [table]"
