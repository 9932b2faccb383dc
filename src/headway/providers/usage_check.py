"""Implausible usage: it is charged to no budget, and nothing is learned from it.

A provider may report any number. The bounds are far above what any model uses: hidden reasoning is counted, and searches
and tools at the provider add input that is not in the request. A count above the bounds is a mistake or an attack. The
usage is then unknown, and the amount that was reserved for the attempt is charged instead.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headway.core.model import Hint, Kind, Outcome, Usage

#: The longest context of a model is 10 million tokens.
MOST_INPUT: Final = 20_000_000
#: The longest answer of a model, with its reasoning, is below 400,000 tokens; one request may ask for several.
MOST_OUTPUT: Final = 2_000_000


def checked_usage(usage: Usage | None) -> tuple[Usage | None, Usage | None]:
    """The usage as (plausible, implausible); one of them is None.

    More cached input than input is ignored: it would make the cost negative.
    """
    if usage is None:
        return None, None
    if not (0.0 <= usage.input_tokens <= MOST_INPUT and 0.0 <= usage.output_tokens <= MOST_OUTPUT):
        return None, usage
    cached, written = usage.cached_input_tokens, usage.cache_write_tokens
    if cached < 0.0 or written < 0.0 or cached + written > usage.input_tokens:
        usage = msgspec.structs.replace(usage, cached_input_tokens=0.0, cache_write_tokens=0.0)
    return usage, None


def checked_outcome(
    kind: Kind | None,
    usage: Usage | None,
    hint: Hint | None,
    message: str = "",
    *,
    worked: bool = False,
    wrong_path: bool = False,
) -> Outcome:
    """The outcome of an attempt, with its usage checked."""
    believed, disbelieved = checked_usage(usage)
    return Outcome(
        kind, believed, hint, message, worked=worked, wrong_path=wrong_path, disbelieved=disbelieved
    )


def early_usage(usage: Usage | None) -> Usage | None:
    """The usage that a stream reports at its beginning, if that has input tokens."""
    believed, _ = checked_usage(usage)
    return believed if believed is not None and believed.input_tokens else None
