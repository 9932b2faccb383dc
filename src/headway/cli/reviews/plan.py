"""From the flags of `headway review` to a plan: which files, which axes, which models."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, Final

from headway.batch.request_options import text_or_file
from headway.config import Config
from headway.display.reviews.change_summary import BASE, CHANGE, STAGED
from headway.errors import UsageError
from headway.reviews.files.changes import ChangedFiles, changed_files
from headway.reviews.files.instructions import Instructions
from headway.reviews.files.selection import FileChoice, select
from headway.reviews.findings.rubrics import RUBRICS, ReviewAxis
from headway.reviews.running.review_source import ReviewPlan
from headway.reviews.running.unit_names import VERIFY

#: About as many characters has a token of source code.
TOKEN_CHARS: Final = 4
#: The name of the axis that --prompt makes.
_OWN: Final = "review"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def review_plan(settings: Config, paths: tuple[str, ...], flags: dict[str, Any]) -> ReviewPlan:
    """The plan of a review. Reads every file once."""
    root, named = _tree(settings, paths)
    changes = _changes(root, flags)
    choice = _choice(settings, root, named, changes, flags)
    tree = select(root, choice)
    files = tuple(tree.files)
    if not files and changes is None:
        raise UsageError(
            f"there is no file to review{_why_none(tree.left_out)}",
            hint="name another path, or see --include",
        )
    return ReviewPlan(
        root=root,
        files=files,
        left_out=tree.left_out,
        axes=axes_of(flags["axes"], flags["prompt"]),
        model=flags["model"],
        verifier=flags["verify"],
        max_tokens=flags["max_tokens"] or 0,
        instructions=Instructions(settings.review.instructions).of_file,
        read=tree.read,
        diff=_no_diff if changes is None else partial(_diff, changes, choice.part_chars),
        part_chars=choice.part_chars,
        settings={} if changes is None else _shown_change(changes, flags),
        asks_again=flags["fresh"] or flags["cache"] == "off",
    )


def _choice(
    settings: Config, root: Path, named: tuple[str, ...], changes: ChangedFiles | None, flags: dict[str, Any]
) -> FileChoice:
    """Which files are meant, by the settings and the flags."""
    own = settings.review
    return FileChoice(
        paths=named,
        include=(*own.include, *flags["include"]),
        exclude=(*own.exclude, *flags["exclude"]),
        never=_own_folders(root, out_dir(settings, flags["out_dir"])),
        most_bytes=own.max_file_size,
        part_chars=own.max_part_tokens * TOKEN_CHARS,
        among=None if changes is None else changes.paths,
        staged=flags["staged"],
    )


def _changes(root: Path, flags: dict[str, Any]) -> ChangedFiles | None:
    """What differs from a revision, or is staged; None: whole files are reviewed."""
    if flags["staged"] and flags["changed"] is not None:
        raise UsageError("--changed and --staged are two choices", hint="leave one of them out")
    if not flags["staged"] and flags["changed"] is None:
        return None
    return changed_files(str(root), flags["changed"] or "", staged=flags["staged"])


def _shown_change(changes: ChangedFiles, flags: dict[str, Any]) -> dict[str, Any]:
    """The change as reports show it (`display/reviews/change_summary`)."""
    base = STAGED if flags["staged"] else flags["changed"] or "HEAD"
    return {CHANGE: changes.overview(), BASE: base}


def _no_diff(path: str, first: int, last: int) -> str:
    return ""


def _diff(changes: ChangedFiles, part_chars: int, path: str, first: int, last: int) -> str:
    return changes.diff_of(path, first, last, part_chars)


def out_dir(settings: Config, named: Path | None) -> Path:
    """The folder of the reviews of files."""
    return named if named is not None else settings.root / settings.review.out_dir


def _tree(settings: Config, paths: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
    """The root of the tree, and what is named, relative to it. The settings of a folder above are about the tree of that folder."""
    here = Path.cwd()
    if here == settings.root or not here.is_relative_to(settings.root):
        return here, paths
    below = here.relative_to(settings.root)
    return settings.root, tuple(str(below / path) for path in paths) or (str(below),)


def _own_folders(root: Path, folder: Path) -> frozenset[str]:
    """The folder of reviews, if it is in the tree."""
    if not folder.absolute().is_relative_to(root):
        return frozenset()
    return frozenset({folder.absolute().relative_to(root).as_posix()})


def _why_none(left_out: dict[str, str]) -> str:
    if not left_out:
        return ""
    path, reason = next(iter(left_out.items()))
    others = f", and {len(left_out) - 1:,} others are left out" if len(left_out) > 1 else ""
    return f": {path}: {reason}{others}"


def axes_of(named: tuple[str, ...], prompt: str | None) -> tuple[ReviewAxis, ...]:
    """The axes of --axis and --prompt; all built-in ones without either."""
    if prompt is not None:
        if named:
            raise UsageError("--prompt and --axis name two sets of rubrics", hint="leave one of them out")
        return (_own_axis(_OWN, prompt, "--prompt"),)
    if not named:
        return tuple(RUBRICS.values())
    axes = tuple(map(_axis, named))
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--axis {name} is given twice", hint="leave one out")
    return axes


def _axis(named: str) -> ReviewAxis:
    name, equals, text = named.partition("=")
    if equals:
        return _own_axis(name, text, f"--axis {name}")
    if name not in RUBRICS:
        raise UsageError(
            f"--axis {name}: there is no such rubric",
            hint=f"one of {', '.join(RUBRICS)}, or your own: --axis {name}=@FILE",
        )
    return RUBRICS[name]


def _own_axis(name: str, text: str, flag: str) -> ReviewAxis:
    if not _NAME.fullmatch(name) or name == VERIFY:
        raise UsageError(
            f"{flag}: an axis is named in lower case letters, digits, - and _",
            hint="for example --axis style=@style.md",
        )
    rubric = text_or_file(flag, text) or ""
    if not rubric.strip():
        raise UsageError(f"{flag}: the rubric is empty", hint="write what is to be looked for")
    return ReviewAxis(name=name, title=name, text=rubric.strip())
