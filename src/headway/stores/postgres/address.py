"""The address of a PostgreSQL store: `postgresql://USER@HOST/DATABASE?schema=NAME`. It never shows its secrets.

What libpq knows may be in it (`sslmode`, `host` as a directory, several hosts), and its environment variables and password files count.
Two parameters are Headway's own: `schema` is where the tables are, `headway` if it is left out; `lease` is for how many seconds a job stays
with a process that gives no sign of life.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from headway.config.database_address import SECRET_PARAMETERS, shown_address
from headway.errors import ConfigError

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_SCHEMA: Final = "headway"
#: A lease outlasts short troubles of a network. When it has ended, another engine continues the job within some seconds.
DEFAULT_LEASE_S: Final = 15.0
LEASES_S: Final = (1.0, 3600.0)
_OWN: Final = ("schema", "lease")
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,50}")


class Address(NamedTuple):
    """Where a store is. `libpq` is for libpq alone: it may have a password."""

    libpq: str
    schema: str
    shown: str
    secrets: tuple[str, ...]
    lease_s: float = DEFAULT_LEASE_S

    def __repr__(self) -> str:
        return f"Address({self.shown!r}, schema={self.schema!r})"

    def lock_key(self, *what: str) -> int:
        """The number of an advisory lock of this store. Such numbers are shared by all programs that use the database."""
        name = "\0".join(("headway", self.schema, *what))
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)

    def scrubbed(self, text: str) -> str:
        """A text without the secrets of the address."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parse_address(db: str) -> Address:
    """The parts of an address. ConfigError without its text if it is wrong."""
    scheme, _, rest = db.partition("://")
    if scheme not in SCHEMES:
        raise ConfigError(
            f"'{scheme}://…' is no database that Headway knows",
            hint="use the path of a SQLite file, or postgresql://HOST/DATABASE",
        )
    login, at, place = rest.rpartition("@")
    place, _, query = place.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    schema = next((value for name, value in options if name == "schema"), DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(
            f"'{schema}' cannot be the schema of a database",
            hint="use lower-case letters, digits and underscores: ?schema=NAME",
        )
    kept = urlencode([(name, value) for name, value in options if name not in _OWN])
    libpq = f"postgresql://{_quoted(login)}{at}{place}" + (f"?{kept}" if kept else "")
    return Address(libpq, schema, shown_address(db), _secrets(login, options), _lease_s(options))


def _lease_s(options: list[tuple[str, str]]) -> float:
    text = next((value for name, value in options if name == "lease"), str(DEFAULT_LEASE_S))
    shortest, longest = LEASES_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not shortest <= seconds <= longest:
        raise ConfigError(
            f"'{text[:20]}' cannot be the lease of jobs",
            hint=f"use seconds, from {shortest:g} to {longest:g}: ?lease=15",
        )
    return seconds


def _quoted(login: str) -> str:
    """User and password as libpq reads them: a password may have been written with characters that end it there."""
    user, colon, password = login.partition(":")
    return f"{user}{colon}{quote(password, safe='%')}"


def _secrets(login: str, options: list[tuple[str, str]]) -> tuple[str, ...]:
    password = login.partition(":")[2]
    values = {password, unquote(password), *(value for name, value in options if name in SECRET_PARAMETERS)}
    return tuple(sorted(filter(None, values), key=len, reverse=True))
