"""Runs git for Headway.

Hooks and file-system monitors are off: they are programs that a repository names. Nothing prompts. Variables that point git to
another repository (`GIT_DIR`, set inside of a hook) are removed. Git gets a session of its own, so that Ctrl-C and a kill of
Headway's process group leave no half-done change; it ends by itself after a moment. A lock of another git process is waited for.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

#: git's list (`git rev-parse --local-env-vars`) without the variables that only set options.
LOCAL_VARIABLES: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
_OPTIONS: Final = (
    "--no-pager",
    "--literal-pathspecs",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=true"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "submodule.recurse=false"),
)
#: Texts of git about a lock that another process holds.
_LOCKED: Final = (".lock': File exists", "could not lock", "Unable to create", "cannot lock ref")
#: In texts about a ref that can never be made: a part of its name is a branch.
_NEVER: Final = "; cannot create"
#: How long locks of other processes are waited for, and one command may take.
PATIENCE_S: Final = 15.0
TIMEOUT_S: Final = 900.0


class GitError(Exception):
    """A git command failed. The text is one line."""


def git(
    arguments: Sequence[str],
    *,
    directory: str | None = None,
    environ: Mapping[str, str] | None = None,
    holds: int | None = None,
) -> bytes:
    """Run git and return its standard output. `holds` is a lock's descriptor that stays open as long as git runs."""
    give_up_at = time.monotonic() + PATIENCE_S
    pause_s = 0.02
    while True:
        try:
            return _run(arguments, directory, environ or {}, holds)
        except GitError as error:
            is_locked = _NEVER not in str(error) and any(text in str(error) for text in _LOCKED)
            if not is_locked or time.monotonic() + pause_s > give_up_at:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)


def _run(
    arguments: Sequence[str], directory: str | None, more: Mapping[str, str], holds: int | None
) -> bytes:
    environ = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **more}
    try:
        done = subprocess.run(
            ("git", *_OPTIONS, *arguments),
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            start_new_session=True,
            pass_fds=() if holds is None else (holds,),
            check=False,
        )
    except FileNotFoundError as error:
        missing = directory if directory is not None and not os.path.isdir(directory) else "git"
        raise GitError(f"{missing} is not there") from error
    except OSError as error:
        raise GitError(f"git cannot be started: {(error.strerror or str(error)).lower()}") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {arguments[0]} took longer than {TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise GitError(_message(arguments, done))
    return done.stdout


def _message(arguments: Sequence[str], done: subprocess.CompletedProcess[bytes]) -> str:
    """The line in which git says why it failed."""
    lines = done.stderr.decode(errors="replace").splitlines()
    why = next((line for line in lines if line.startswith(("fatal:", "error:"))), None)
    text = why or (lines[-1] if lines else f"exit code {done.returncode}")
    command = next((one for one in arguments if not one.startswith("-")), "")
    return f"git {command}: {text.removeprefix('fatal:').removeprefix('error:').strip()}"[:500]
