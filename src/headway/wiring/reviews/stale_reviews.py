"""Removes the reviews of files that are gone.

A review is removed only if an earlier review of this tree, in the same records, has written it to the same folder, and its file is not in the tree
any more. So the reviews of another tree, and files of the user, stay, even if they are in the same folder. What was found is still in the
records: `headway report JOB` of the earlier job has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from headway.display.reviews.review_markdown import is_file_markdown
from headway.jobs.base import OutputOptions
from headway.reviews.running.review_form import REVIEW, each_kept_file, form_of
from headway.stores.records import Job
from headway.stores.store import Store

SUFFIX: Final = ".review.md"
#: No heading of a review is longer: a path has at most 4,096 bytes, of which each may be shown as six characters.
_HEAD_BYTES: Final = 32_768


def remove_stale_reviews(store: Store, job: Job, output: OutputOptions) -> None:
    """Remove the reviews of files that are not in the tree. Files of the job itself stay: what is staged may be in the index of git alone."""
    root, folder = Path(form_of(job).root), output.path
    gone = {path for path in _reviewed_paths(folder) if not _is_there(root / path)}
    if gone:
        gone.difference_update(file.path for file in each_kept_file(store, job))
    for one in store.jobs() if gone else ():
        if one.kind != REVIEW or (one.input, one.out) != (job.input, output.recorded):
            continue
        own = gone.intersection(file.path for file in each_kept_file(store, one))
        for path in own:
            remove_review(folder, folder / (path + SUFFIX), path)
        gone -= own


def remove_review(folder: Path, place: Path, path: str) -> None:
    """Remove the review of a file, if it is one, and the folders that are empty then."""
    try:
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            head = file.read(_HEAD_BYTES).decode(errors="replace")
    except OSError:
        return
    if not is_file_markdown(head, path):
        return
    with suppress(OSError):  # Another program may have removed it, or a folder may have other files.
        place.unlink()
        above = place.parent
        while above != folder:
            above.rmdir()
            above = above.parent


def _reviewed_paths(folder: Path) -> Iterator[str]:
    """The paths of the files whose reviews are in a folder, by their names. Links are not followed."""
    for place, _, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        for name in names:
            if name.endswith(SUFFIX):
                yield (inside / name.removesuffix(SUFFIX)).as_posix()


def _is_there(path: Path) -> bool:
    """Whether a file is in the tree, or may be: a folder above it cannot be read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
