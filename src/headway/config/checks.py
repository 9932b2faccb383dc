"""Checks of single values. Each takes a value from TOML or a flag and returns it in the core's units.

A ValueError says what was expected. It shows the type of the value, and numbers and booleans, but never a string: that may
be a key in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import SplitResult, urlsplit

from headway.config.duration_setting import EXPECTED as A_DURATION
from headway.config.duration_setting import parse_duration
from headway.config.known_vendors import PROFILES
from headway.config.settings import (
    CacheMode,
    CommandOutput,
    ExecutorName,
    Isolation,
    Preflight,
    ResumeMode,
    UnitResources,
)
from headway.core.model import Kind, OrderName
from headway.lazy_pattern import lazy_pattern

Check = Callable[[object], Any]

#: No limit is larger; above it a number is a mistake.
LARGEST: Final = 1e12
#: PostgreSQL's largest integer, and more than any program has in flight.
LARGEST_COUNT: Final = 2**31 - 1
CACHE_MODES: Final[tuple[str, ...]] = get_args(CacheMode)

_TARGET: Final = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_SIZE: Final = lazy_pattern(r"(\d+(?:\.\d+)?) ?([KMGT]?)i?B", re.ASCII)
_PERCENT: Final = lazy_pattern(r"(\d{1,3}(?:\.\d+)?) ?%", re.ASCII)
_SIZES: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

_VARIABLE: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Beginnings of keys that could be the name of a variable; no key is shorter than `_SHORTEST_KEY`.
_KEY_STARTS: Final = ("sk_", "gsk_", "AIza", "hf_", "r8_", "ghp_", "nvapi", "pplx", "xai")
_SHORTEST_KEY: Final = 20
#: Endpoints that users paste with an address.
_ENDPOINT: Final = lazy_pattern(
    r"/(?:chat/completions|completions|responses|embeddings|messages|openai/deployments(?:/.*)?"
    r"|models/[^/]+:\w+|model/[^/]+/(?:converse|invoke))/?$"
)
_API_VERSION: Final = lazy_pattern(r"\d{4}-\d{2}-\d{2}(?:-preview)?|preview|latest", re.ASCII)
_REGION: Final = lazy_pattern(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}", re.ASCII)


def expected(what: str, value: object) -> ValueError:
    """The error for a value: what was expected, and the type of the value."""
    return ValueError(f"expected {what}, not {_described(value)}")


def _described(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if not abs(value) > LARGEST else "so large a number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return "a date or time"


def amount(value: object) -> float:
    """A limit or an amount of money: 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise expected("a number of 0 or more", value)
    return float(value)


def weight(value: object) -> float:
    """The weight of a job relative to others."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 <= value <= 100.0:
        raise expected("a number from 0.01 to 100", value)
    return float(value)


def count(value: object) -> int:
    """A whole number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
        raise expected("a whole number of 0 or more", value)
    return value


def files_at_once(value: object) -> int:
    """How many files are reviewed at once; 0: as many as the lanes take."""
    if value == "auto":
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_COUNT:
        raise expected('"auto" or a whole number of 1 or more', value)
    return value


def attempts(value: object) -> int:
    """A whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_COUNT:
        raise expected("a whole number of 1 or more", value)
    return value


def share(value: object) -> float:
    """A number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise expected("a number between 0 and 1", value)
    return float(value)


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise expected("true or false", value)
    return value


def target(value: object) -> str:
    """A function, by its module and name."""
    if not isinstance(value, str) or not _TARGET.fullmatch(value):
        raise expected('a function such as "package.module:function"', value)
    return value


def isolation(value: object) -> str:
    """Where a function runs."""
    return _one_of(value, get_args(Isolation))


def preflight(value: object) -> str:
    """The kind of preflight."""
    return _one_of(value, get_args(Preflight))


def _one_of(value: object, words: tuple[str, ...]) -> str:
    choices = " or ".join(f'"{word}"' for word in words)
    if not isinstance(value, str):
        raise expected(choices, value)
    if value not in words:
        raise ValueError(f"expected {choices}, not {value[:40]!r}")
    return value


def size(value: object) -> int:
    """Bytes, 0 or more."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    parts = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise expected('a size such as "2GB", or a number of bytes', value)
    return int(float(parts[1]) * _SIZES[parts[2]])


def executor(value: object) -> str:
    """Where units run."""
    return _one_of(value, get_args(ExecutorName))


def resources(value: object) -> UnitResources:
    """What a unit takes of a node of a cluster."""
    if not isinstance(value, dict):
        raise expected('a table such as { num_cpus = 1, memory = "400MB" }', value)
    amounts = {name: share for name, share in value.items() if name != "memory"}
    for name, share in amounts.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1e9:
            raise ValueError(f"{name}: expected a number, 0 or more, not {share!r}")
    memory = size(value.get("memory", 0))
    if not memory and not any({"num_cpus": 1, **amounts}.values()):
        raise ValueError("a unit must take something of a node, or Ray would put any number on it")
    usual = {name: float(amounts.pop(name)) for name in ("num_cpus", "num_gpus") if name in amounts}
    return UnitResources(**usual, memory=memory, custom={name: float(one) for name, one in amounts.items()})


def ray_address(value: object) -> str:
    """Where a Ray cluster is."""
    if not isinstance(value, str) or not value or any(character.isspace() for character in value):
        raise expected('"auto", "local", "HOST:PORT" or "ray://HOST:10001"', value)
    return value


def memory_budget(value: object) -> float:
    """A share of the free memory (up to 1), or bytes; 0: no limit."""
    if isinstance(value, str) and (parts := _PERCENT.fullmatch(value)) is not None:
        share = float(parts[1]) / 100.0
        if 0.0 < share <= 1.0:
            return share
    try:
        return float(size(value))
    except ValueError:
        raise expected('a share such as "75%" or a size such as "4GB"', value) from None


def command(value: object) -> tuple[str, ...]:
    """A program and its arguments."""
    if isinstance(value, list) and value and all(isinstance(part, str) and part for part in value):
        return tuple(value)
    raise expected('a list such as ["claude", "--print", "ping"]', value)


def exit_codes(value: object) -> tuple[int, ...]:
    """Exit codes of a failed process."""
    if isinstance(value, list) and all(type(code) is int and 0 < code < 256 for code in value):
        return tuple(value)
    raise expected("a list of exit codes, from 1 to 255", value)


def arguments(value: object) -> tuple[str, ...]:
    """A list of texts."""
    if isinstance(value, list) and all(isinstance(part, str) and part for part in value):
        return tuple(value)
    raise expected('a list of texts, such as ["--verbose"]', value)


def exit_code_kinds(value: object) -> dict[int, str]:
    """Exit codes, and the kind of error that each means."""
    if not isinstance(value, dict):
        raise expected('a table such as {75 = "hold"}', value)
    kinds = [str(kind) for kind in Kind]
    for code, kind in value.items():
        if not (code.isdecimal() and 0 < int(code) < 256):
            raise expected(f"exit codes from 1 to 255, not '{code}'", value)
        if kind not in kinds:
            raise ValueError(f"expected a kind of error for exit code {code}: {', '.join(kinds)}")
    return {int(code): kind for code, kind in value.items()}


def command_output(value: object) -> str:
    """What a program prints."""
    return _one_of(value, get_args(CommandOutput))


def resume_mode(value: object) -> str:
    """Whether sessions are resumed."""
    return _one_of(value, get_args(ResumeMode))


def below(value: object) -> str:
    """A pattern for files below a directory."""
    if not isinstance(value, str) or not value or value.startswith("/") or ".." in value.split("/"):
        raise expected('a pattern below the directory of this file, such as ".failed/*/result.json"', value)
    return value


def folder_in_tree(value: object) -> str:
    """A folder below the tree that is reviewed."""
    if (
        not isinstance(value, str)
        or not value.strip("./")
        or value.startswith("/")
        or ".." in value.split("/")
    ):
        raise expected('a folder below the tree, such as ".headway/reviews"', value)
    return text(value).rstrip("/")


def duration(value: object) -> float:
    """Seconds, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise expected(A_DURATION, value)
    return parse_duration(value)


def some_time(value: object) -> float:
    """Seconds, more than 0."""
    seconds = duration(value)
    if seconds == 0:
        raise ValueError(f"expected {A_DURATION}, longer than 0")
    return seconds


def depth(value: object) -> float | None:
    """A bucket's depth in seconds; None: the lane finds it."""
    if value == "auto":
        return None
    try:
        return some_time(value)
    except ValueError:
        raise ValueError(f'expected "auto" or {A_DURATION}, longer than 0') from None


def longest_hold(value: object) -> float | None:
    """Seconds; None: a run waits for any hold."""
    if value == "unlimited":
        return None
    try:
        return duration(value)
    except ValueError:
        raise ValueError(f'expected "unlimited" or {A_DURATION}') from None


def cache_mode(value: object) -> str:
    """How the cache is used."""
    if not isinstance(value, str) or value not in CACHE_MODES:
        raise ValueError("expected " + ", ".join(f'"{mode}"' for mode in CACHE_MODES[:-1]) + ' or "all"')
    return value


def order_name(value: object) -> str:
    """In which order units start."""
    return _one_of(value, get_args(OrderName))


def text(value: object) -> str:
    """A string of printable characters that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise expected("a string", value)
    if not value.isprintable():
        raise ValueError("expected a string without line breaks and control characters")
    return value


def paragraphs(value: object) -> str:
    """A text that is not blank, of any number of lines."""
    if not isinstance(value, str) or not value.strip():
        raise expected("a text", value)
    return value.strip()


def path_patterns(value: object) -> tuple[str, ...]:
    """Patterns of paths, as in .gitignore."""
    if not isinstance(value, list) or not value:
        raise expected('a list of patterns, such as ["src/**", "*.py"]', value)
    return tuple(text(pattern) for pattern in value)


def variable(value: object) -> str:
    """The name of an environment variable, not its value."""
    if not isinstance(value, str):
        raise expected("the name of an environment variable", value)
    if not _VARIABLE.fullmatch(value) or (value.startswith(_KEY_STARTS) and len(value) >= _SHORTEST_KEY):
        raise ValueError(
            "expected the NAME of an environment variable, such as OPENAI_API_KEY; a key itself belongs in "
            "that variable or in .env, never here"
        )
    return value


def variables(value: object) -> tuple[str, ...]:
    """Names of environment variables, not their values."""
    if not isinstance(value, list):
        raise expected('a list of names of environment variables, such as ["OPENAI_API_KEY"]', value)
    return tuple(variable(name) for name in value)


def profile(value: object) -> str:
    """The name of a known vendor."""
    if not isinstance(value, str):
        raise expected("the name of a vendor", value)
    if value not in PROFILES:
        import difflib  # imported only for an error

        near = difflib.get_close_matches(value, PROFILES, n=1)
        raise ValueError(
            f"unknown; did you mean '{near[0]}'?"
            if near
            else f"unknown; expected one of {', '.join(PROFILES)}"
        )
    return value


def api_version(value: object) -> str:
    """A version of Azure's API."""
    if not isinstance(value, str) or not _API_VERSION.fullmatch(value):
        raise expected('a version such as "2024-10-21"', value)
    return value


def region(value: object) -> str:
    """An AWS region; only its format is checked."""
    if not isinstance(value, str) or not _REGION.fullmatch(value):
        raise expected('a region such as "us-east-1"', value)
    return value


def base_url(value: object) -> str:
    """An http(s) address without secrets; a trailing slash is removed."""
    what = "an address that begins with http:// or https://"
    if not isinstance(value, str) or not value:
        raise expected(what, value)
    url = _split(value)
    if url is None and value.startswith(("http://", "https://")):
        raise ValueError("expected an address with a host, and a port from 1 to 65535 if it names one")
    if url is None or url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"expected {what}")
    if "@" in url.netloc:
        raise ValueError(
            "expected an address without user and password; the key belongs in the variable that api_key_env names"
        )
    if "?" in value or "#" in value:
        raise ValueError("expected an address without ? and #")
    if _ENDPOINT.search(url.path):
        raise ValueError("expected an address that ends before the endpoint, with or without /v1")
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"


def _split(address: str) -> SplitResult | None:
    """The parts of an address; None if it is invalid, or has characters that urllib would silently drop."""
    if not address.isascii() or not address.isprintable() or " " in address or "\\" in address:
        return None
    try:
        url = urlsplit(address)
        return url if url.port != 0 else None
    except ValueError:
        return None


def database(value: object, root: Path) -> str:
    """A path, made absolute from `root`, or the address of a PostgreSQL database."""
    what = "a path or a postgresql:// address"
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise expected(what, value)
    if value.startswith(("postgresql://", "postgres://")):
        return value
    if "://" in value:
        raise ValueError(f"expected {what}")
    try:
        return str(root / Path(value).expanduser())
    except RuntimeError:
        raise ValueError(f"expected {what}; there is no such home directory") from None
