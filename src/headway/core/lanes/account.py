"""What is known of a subscription's windows (five hours, seven days, one model's seven days), and the account that has them.

Several lanes may belong to one account: models, or providers with the same login. What one of them hears about the windows holds for
all, and so does a hold: `scheduling.lane_control` closes the others. Resets are UTC: they are only shown and stored, and the hold of a
lane, which is on the engine's clock, is what closes it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headway.core.model import AccountWindow, Hint


class AccountKey(msgspec.Struct, frozen=True):
    """The account of a lane, and the model in it that the lane uses. An empty `name` is an account of the lane's own."""

    name: str = ""
    model: str = ""

    def shares_hold(self, other: AccountKey, scope: str) -> bool:
        """Whether a hold of this account, for all of it or for one model, is a hold of the other lane, too."""
        if not self.name or self.name != other.name:
            return False
        return scope == "account" or (scope == "model" and self.model == other.model)


class AccountWindows:
    """The windows of one account, by name."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, AccountWindow] = {}

    def learn(self, windows: Iterable[AccountWindow]) -> None:
        """Take what an answer says. A report without a use or a reset keeps those of the same window that are known."""
        for window in windows:
            before = self._known.get(window.name)
            if before is not None and before.resets_utc == window.resets_utc and window.used is None:
                window = msgspec.structs.replace(window, used=before.used)
            self._known[window.name] = window

    def reopen(self) -> None:
        """Forget that windows refuse: they are tried again."""
        self._known = {name: window for name, window in self._known.items() if not window.closed}

    def all(self) -> tuple[AccountWindow, ...]:
        """All windows that are known."""
        return tuple(self._known.values())


def hold_scope(hint: Hint | None) -> str:
    """Whom a hold concerns: the whole `account`, one `model` of it, or only the lane ("")."""
    closed = [window for window in (hint.windows if hint is not None else ()) if window.closed]
    if not closed:
        return ""
    return "model" if all(window.of_model for window in closed) else "account"
