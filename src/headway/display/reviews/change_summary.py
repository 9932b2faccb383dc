"""The change under review (`--changed`, `--staged`), at the end of reports: a line for each file that differs."""

from __future__ import annotations

from typing import Final

from headway.display.formatting import count
from headway.reviews.records import ReviewView

#: Where the settings of a review have the lines, and what it was compared with.
CHANGE: Final = "change"
BASE: Final = "base"
#: The base of what is staged. No revision has a blank in its name.
STAGED: Final = "the index"


def change_lines(view: ReviewView) -> list[str]:
    """A line for each file of the change, deleted files included; none for a review of whole files."""
    lines = view.settings.get(CHANGE)
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, list | tuple) else []


def change_title(view: ReviewView) -> str:
    """ "The change: 3 files differ from main", or "The change: 3 files are staged"."""
    number = len(change_lines(view))
    base = view.settings.get(BASE)
    if base == STAGED:
        return f"The change: {count(number, 'file')} {'is' if number == 1 else 'are'} staged"
    against = f" from {base}" if isinstance(base, str) and base else ""
    return f"The change: {count(number, 'file')} {'differs' if number == 1 else 'differ'}{against}"
