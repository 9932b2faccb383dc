"""What differs between the keys of two units, part by part, in words. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, Final

import msgspec

from headway.flows.lazy_list import LazyList, encode_value
from headway.flows.running.reuse.unit_key import Parts, part_digest

#: Changed lines of a text that are shown, and characters of a value.
MOST_LINES: Final = 12
LONGEST: Final = 80
_MISSING: Final = object()
_NAMES: Final = {
    "spec": "its spec",
    "prompt": "its prompt",
    "tool": "its tool",
    "schema": "the form of its answers",
    "args": "its args",
    "model": "its model",
    "state": "the state that it reads",
    "item": "its item",
    "index": "its index",
    "turn": "the iteration of its loop",
    "job": "the name of the job, which its prompt names",
}
_SPEC: Final = ("kind", "function", "reads", "writes", "JSON answer")
_ADDRESS: Final = ("kind", "address", "model")


class Difference(msgspec.Struct, frozen=True):
    """A part that differs: its name, what it is, and how it differs in a few lines."""

    part: str
    text: str
    details: tuple[str, ...] = ()


def differences(old: Parts, new: Parts) -> list[Difference]:
    """The parts that differ, those of the node first."""
    found = []
    for name in _NAMES:
        before, now = old.get(name, _MISSING), new.get(name, _MISSING)
        if before is now or (
            before is not _MISSING and now is not _MISSING and part_digest(before) == part_digest(now)
        ):
            continue
        found.append(Difference(name, f"{_NAMES[name]} changed", tuple(_details(name, before, now))))
    return found


def _details(part: str, old: Any, new: Any) -> Iterator[str]:
    if part == "prompt" and isinstance(old, str) and isinstance(new, str):
        yield from _changed_lines(old, new)
    elif part == "tool":
        yield from (_file(name, old, new) for name in _changed_keys(old, new))
    elif part in ("spec", "model") and isinstance(old, list | tuple) and isinstance(new, list | tuple):
        names = _SPEC if part == "spec" else _ADDRESS
        for name, before, now in zip(names, old, new, strict=False):
            if before != now:
                yield f"{name}: {short(before)} → {short(now)}"
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in _changed_keys(old, new):
            yield f"{name}: {_change(old.get(name, _MISSING), new.get(name, _MISSING))}"
    elif part == "schema":
        return
    else:
        yield _change(old, new)


def _changed_lines(old: str, new: str) -> Iterator[str]:
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[2:]
    changed = [line for line in lines if not line.startswith("@@")]
    yield from (f"{line[0]} {_cut(line[1:])}" for line in changed[:MOST_LINES])
    if len(changed) > MOST_LINES:
        yield f"and {len(changed) - MOST_LINES:,} more lines"


def _changed_keys(old: Any, new: Any) -> list[str]:
    before, now = old if isinstance(old, Mapping) else {}, new if isinstance(new, Mapping) else {}
    return [
        name
        for name in sorted({*before, *now})
        if (name in before) != (name in now) or part_digest(before[name]) != part_digest(now[name])
    ]


def _file(name: str, old: Any, new: Any) -> str:
    if not isinstance(old, Mapping) or name not in old:
        return f"{name}: new"
    return f"{name}: {'removed' if not isinstance(new, Mapping) or name not in new else 'changed'}"


def _change(old: Any, new: Any) -> str:
    """One value against another. Of long lists, the first element that differs."""
    if isinstance(old, list | LazyList) and isinstance(new, list | LazyList):
        sizes = f"{len(old):,} elements" if len(old) == len(new) else f"{len(old):,} → {len(new):,} elements"
        for place, (before, now) in enumerate(zip(old, new, strict=False)):
            if part_digest(before) != part_digest(now):
                return f"{sizes}, the first that differs is [{place}]: {short(before)} → {short(now)}"
        return sizes
    return f"{short(old)} → {short(new)}"


def short(value: Any) -> str:
    """A value in a few characters."""
    if value is _MISSING:
        return "nothing"
    if isinstance(value, LazyList):
        return f"{len(value):,} elements"
    return _cut(value if isinstance(value, str) else encode_value(value).decode())


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
