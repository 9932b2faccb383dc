"""The address of a database server as text, without its secrets. Nothing here connects."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode

#: Parameters of libpq that are secrets, or lead to them.
SECRET_PARAMETERS: Final = frozenset({"password", "sslpassword", "oauth_client_secret", "passfile", "sslkey"})


def shown_address(db: str) -> str:
    """An address as a message names it: without user, password and parameters."""
    scheme, _, rest = db.partition("://")
    # The last @ ends the user's part: a password may contain @, slashes and question marks.
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def shown_database(db: str) -> str:
    """A database as a message names it: the path of a file, or an address without secrets."""
    return shown_address(db) if "://" in db else db


def public_address(db: str) -> str:
    """An address for a command line: everything but its secrets."""
    scheme, _, rest = db.partition("://")
    login, at, place = rest.rpartition("@")
    place, _, query = place.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    kept = urlencode([(name, value) for name, value in options if name not in SECRET_PARAMETERS], safe="/")
    return f"{scheme}://{login.partition(':')[0]}{at}{place}" + (f"?{kept}" if kept else "")
