"""What one value may be. Each check takes what TOML (or a flag) gave and returns it in the core's units.

A ValueError says what was expected. It names the type of what was found, and a number or a truth value, but never
repeats a string: somebody's key may stand where it does not belong.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import SplitResult, urlsplit

from headway.config.duration_setting import EXPECTED as A_DURATION
from headway.config.duration_setting import parse_duration
from headway.config.known_vendors import PROFILES
from headway.config.settings import CacheMode, Isolation, Preflight

Check = Callable[[object], Any]

#: No limit is larger; above it a number is a mistake.
LARGEST: Final = 1e12
#: PostgreSQL's integer, and more than anybody has in flight.
LARGEST_COUNT: Final = 2**31 - 1
CACHE_MODES: Final[tuple[str, ...]] = get_args(CacheMode)

_TARGET: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)i?B", re.ASCII)
_SIZES: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: How keys begin whose characters would all do for a variable's name; none is shorter than this.
_KEY_STARTS: Final = ("sk_", "gsk_", "AIza", "hf_", "r8_", "ghp_", "nvapi", "pplx", "xai")
_SHORTEST_KEY: Final = 20
#: What people paste along with an address.
_ENDPOINT: Final = re.compile(
    r"/(?:chat/completions|completions|responses|embeddings|messages|openai/deployments(?:/.*)?"
    r"|models/[^/]+:\w+|model/[^/]+/(?:converse|invoke))/?$"
)
_API_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:-preview)?|preview|latest", re.ASCII)
_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}", re.ASCII)


def expected(what: str, value: object) -> ValueError:
    """The error: what should stand there, and what kind of thing does."""
    return ValueError(f"expected {what}, not {_seen(value)}")


def _seen(value: object) -> str:
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
    """A limit, or money: 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise expected("a number of 0 or more", value)
    return float(value)


def weight(value: object) -> float:
    """A job's weight against others."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 <= value <= 100.0:
        raise expected("a number from 0.01 to 100", value)
    return float(value)


def count(value: object) -> int:
    """A whole number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
        raise expected("a whole number of 0 or more", value)
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
    """A function, by the module that it is in."""
    if not isinstance(value, str) or not _TARGET.fullmatch(value):
        raise expected('a function such as "package.module:function"', value)
    return value


def isolation(value: object) -> str:
    """Where a function runs."""
    return _one_of(value, get_args(Isolation))


def preflight(value: object) -> str:
    """What goes ahead of the rest."""
    return _one_of(value, get_args(Preflight))


def _one_of(value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        raise expected(" or ".join(f'"{word}"' for word in words), value)
    return value


def size(value: object) -> int:
    """Bytes, 0 or more."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise expected('a size such as "2GB", or a number of bytes', value)
    return int(float(found[1]) * _SIZES[found[2]])


def command(value: object) -> tuple[str, ...]:
    """A program and its arguments."""
    if isinstance(value, list) and value and all(isinstance(part, str) and part for part in value):
        return tuple(value)
    raise expected('a list such as ["claude", "--print", "ping"]', value)


def exit_codes(value: object) -> tuple[int, ...]:
    """Codes of a process that failed."""
    if isinstance(value, list) and all(type(code) is int and 0 < code < 256 for code in value):
        return tuple(value)
    raise expected("a list of exit codes, from 1 to 255", value)


def below(value: object) -> str:
    """A pattern for files below a directory."""
    if not isinstance(value, str) or not value or value.startswith("/") or ".." in value.split("/"):
        raise expected('a pattern below the directory of this file, such as ".failed/*/result.json"', value)
    return value


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
    """A bucket's depth in seconds, or None where the lane is to find it."""
    if value == "auto":
        return None
    try:
        return some_time(value)
    except ValueError:
        raise ValueError(f'expected "auto" or {A_DURATION}, longer than 0') from None


def longest_hold(value: object) -> float | None:
    """Seconds, or None where any hold is waited for."""
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


def text(value: object) -> str:
    """A string with something printable in it."""
    if not isinstance(value, str) or not value.strip():
        raise expected("a string", value)
    if not value.isprintable():
        raise ValueError("expected a string without line breaks and control characters")
    return value


def variable(value: object) -> str:
    """The name of an environment variable, and not what should be in it."""
    if not isinstance(value, str):
        raise expected("the name of an environment variable", value)
    if not _VARIABLE.fullmatch(value) or (value.startswith(_KEY_STARTS) and len(value) >= _SHORTEST_KEY):
        raise ValueError(
            "expected the NAME of an environment variable, such as OPENAI_API_KEY; a key itself belongs in "
            "that variable or in .env, never here"
        )
    return value


def variables(value: object) -> tuple[str, ...]:
    """Names of environment variables, and not what is in them."""
    if not isinstance(value, list):
        raise expected('a list of names of environment variables, such as ["OPENAI_API_KEY"]', value)
    return tuple(variable(name) for name in value)


def profile(value: object) -> str:
    """A provider that is known by name."""
    if not isinstance(value, str):
        raise expected("a provider that is known by name", value)
    if value not in PROFILES:
        near = difflib.get_close_matches(value, PROFILES, n=1)
        raise ValueError(
            f"unknown; did you mean '{near[0]}'?" if near else f"unknown; there are {', '.join(PROFILES)}"
        )
    return value


def api_version(value: object) -> str:
    """A version of Azure's API."""
    if not isinstance(value, str) or not _API_VERSION.fullmatch(value):
        raise expected('a version such as "2024-10-21"', value)
    return value


def region(value: object) -> str:
    """One of AWS's regions, by its shape."""
    if not isinstance(value, str) or not _REGION.fullmatch(value):
        raise expected('a region such as "us-east-1"', value)
    return value


def base_url(value: object) -> str:
    """An http(s) address without anything secret in it, and without a trailing slash."""
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
    """The parts of an address; None where it has none, or characters that urllib would silently drop."""
    if not address.isascii() or not address.isprintable() or " " in address or "\\" in address:
        return None
    try:
        url = urlsplit(address)
        return url if url.port != 0 else None
    except ValueError:
        return None


def database(value: object, root: Path) -> str:
    """A path (made absolute, below `root`) or the address of a PostgreSQL database."""
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
