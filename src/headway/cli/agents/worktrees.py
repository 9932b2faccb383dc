"""`headway worktrees`: lists, shows and removes the working copies of agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo

if TYPE_CHECKING:
    from headway.config import Config
    from headway.wiring.kept_worktrees import KeptWorktree


@click.group(
    "worktrees",
    invoke_without_command=True,
    short_help="List, show and remove agents' working copies.",
    epilog="Example: headway worktrees show fix-3fa2c1 src/app.py",
)
@json_option
@where_options
@click.pass_context
def command(ctx: click.Context, config: Path | None, db: str | None, as_json: bool) -> None:
    """List the git worktrees that units of 'headway run --worktree' have left. Those without changes are removed when their unit
    has ended; the others stay, each with a branch 'headway/JOB/UNIT'.
    """
    if ctx.invoked_subcommand is not None:
        return
    from headway.cli.shared import printing, workspace
    from headway.wiring.kept_worktrees import kept_worktrees

    kept = list(kept_worktrees(workspace.settings(config, db)))
    if as_json:
        printing.print_json([one.fields() for one in kept])
        return
    if not kept:
        echo("there are no worktrees — 'headway run FILE --worktree' makes one for each unit")
        return
    for one in kept:
        echo(f"{one.job}  {one.record.unit}: {_what(one)}")
        place = "" if one.record.is_removed else f"{one.record.directory}, "
        echo(f"  {place}branch {one.record.branch}")


def _what(kept: KeptWorktree) -> str:
    from headway.display.formatting import count

    if kept.problem:
        return kept.problem
    files, commits = len(kept.changes.status.splitlines()), len(kept.changes.commits)
    parts = [
        *([f"{count(files, 'file')} changed"] if files else []),
        *([count(commits, "commit")] if commits else []),
        *(["in use"] if kept.in_use else []),
    ]
    return ", ".join(parts) or "no changes"


@command.command(
    "show",
    short_help="Print the diff of a unit.",
    epilog="Example: headway worktrees show fix-3fa2c1 t1 | git apply",
)
@click.argument("job")
@click.argument("unit")
@json_option
@where_options
def show(job: str, unit: str, config: Path | None, db: str | None, as_json: bool) -> None:
    """Print what UNIT of JOB has changed since its start commit, as a patch that 'git apply' takes. If its worktree is gone, the
    diff comes from the records.
    """
    from headway.cli.shared import printing, workspace
    from headway.wiring.kept_worktrees import job_name, kept_worktrees, recorded_diff

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        name = job_name(settings, store, job)
        kept = next(iter(kept_worktrees(settings, name, unit)), None)
        diff = recorded_diff(store, name, unit) if kept is None or kept.problem else kept.changes.diff
    if as_json:
        fields = {"job": name, "unit": unit} if kept is None else kept.fields()
        printing.print_json({**fields, "diff": diff.decode(errors="replace")})
        return
    if not diff:
        printing.say(f"{unit} has changed nothing")
    sys.stdout.flush()
    sys.stdout.buffer.write(diff)
    sys.stdout.buffer.flush()


@command.command(
    "remove", short_help="Remove worktrees.", epilog="Example: headway worktrees remove fix-3fa2c1"
)
@click.argument("job", required=False)
@click.argument("units", nargs=-1, metavar="[UNIT]...")
@click.option(
    "--force",
    is_flag=True,
    help="Also those with changes that are not committed, and branches with commits.",
)
@json_option
@where_options
def remove(
    job: str | None, units: tuple[str, ...], force: bool, config: Path | None, db: str | None, as_json: bool
) -> int:
    """Remove the worktrees of all jobs, of JOB, or of the named UNITs. Those with changes that are not committed stay, unless --force is
    given. A branch with commits stays, too; --force removes it, also later. The recorded diffs are kept.
    """
    from headway.cli.shared import printing, workspace
    from headway.display.formatting import count
    from headway.errors import UsageError
    from headway.wiring.kept_worktrees import job_name, kept_worktrees

    settings = workspace.settings(config, db)
    name = ""
    if job is not None:
        with workspace.open_read_only(settings) as store:
            name = job_name(settings, store, job)
    chosen = [one for one in kept_worktrees(settings, name) if not units or one.record.unit in units]
    if missing := set(units) - {one.record.unit for one in chosen}:
        raise UsageError(
            f"job '{name}' has no worktree of '{min(missing)}'", hint="'headway worktrees' lists them"
        )
    if not force:
        chosen = [one for one in chosen if units or not one.record.is_removed]
    removed, left = _remove(settings, chosen, force=force)
    if as_json:
        printing.print_json({"removed": removed, "left": left})
    else:
        echo(f"removed {len(removed):,} of {count(len(chosen), 'worktree')}")
        for one in removed:
            if "branch" in one:
                echo(f"  {one['unit']}: its commits stay on branch {one['branch']} (--force removes it, too)")
        for one in left:
            echo(f"  {one['job']} {one['unit']} stays: {one['why']}")
    return 1 if left and units else 0


def _remove(
    config: Config, chosen: list[KeptWorktree], *, force: bool
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    from headway.executors.worktrees.git_command import GitError
    from headway.wiring.kept_worktrees import remove_kept

    removed, left = [], []
    for kept in chosen:
        fields = {"job": kept.job, "unit": kept.record.unit}
        why, branch = "", {}
        if kept.in_use:
            why = "its job is running"
        elif kept.record.is_removed and not force:
            why = f"only its branch {kept.record.branch} is left (--force removes it)"
        elif kept.has_uncommitted and not force:
            what = kept.problem and f"its changes cannot be read: {kept.problem}"
            why = f"{what or 'it has changes that are not committed'} (--force removes it)"
        else:
            try:
                if remove_kept(config, kept, force=force):
                    branch = {"branch": kept.record.branch}
            except GitError as error:
                why = str(error)
        if why:
            left.append({**fields, "why": why})
        else:
            removed.append({**fields, **branch})
    return removed, left
