"""`headway review`: reviews the files of a tree; the same command again continues, and asks only about what has changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.reviews.options import review_options
from headway.cli.shared.click_options import own_pace_options, where_options

if TYPE_CHECKING:
    from headway.cli.shared.detach import Detachment
    from headway.config import Config
    from headway.reviews.running.review_source import ReviewSource
    from headway.wiring.run_plan import RunFlags
    from headway.wiring.submission import ReadyJob


@click.command(
    "review",
    short_help="Review the files of a tree.",
    epilog="Example: headway review src --axis correctness --axis security --out report.sarif --fail-on high",
)
@click.argument("paths", nargs=-1, metavar="[PATH|GLOB]...")
@review_options
@own_pace_options
@where_options
def command(paths: tuple[str, ...], **flags: Any) -> int:
    """Review each file below PATH (default: the working directory) on each axis, and write what was found to DIR/PATH.review.md.

    Files that .gitignore names, binary, generated and too large files are left out, and each is named with its reason. Every file and axis
    is a unit of its own, recorded as it ends: after Ctrl-C or a crash the same command resumes the review. Files that have not
    changed are not asked about again.

    Exit codes: 0 every file was reviewed; 1 some were not; 5 a finding reaches --fail-on.
    """
    from headway.cli.shared.detach import detachable

    return detachable(lambda detachment: _run(paths, detachment, **flags), flags)


def _run(
    paths: tuple[str, ...],
    detachment: Detachment | None,
    *,
    config: Path | None,
    db: str | None,
    dry_run: bool,
    estimate: bool,
    **flags: Any,
) -> int:
    """Choose the files, then look at them only, or review them."""
    from headway.cli.reviews.summary import show_chosen
    from headway.cli.shared import workspace

    models = tuple(name for name in (flags["model"], flags["verify"]) if name)
    settings = workspace.settings(config, db, **{**flags, "model": models, "concurrency": None})
    source = _source(settings, paths, flags)
    if not flags["quiet"]:
        workspace.print_config_notes(settings)
        workspace.warn_network_file_system(settings)
    if dry_run:
        return show_chosen(source.plan, as_json=flags["as_json"])
    if not source.plan.files:
        return _end_unchanged(settings, source, flags, estimate=estimate)
    if estimate:
        from headway.cli.reviews.estimate import show_estimate

        return show_estimate(settings, source.plan, flags)
    return _review(settings, source, detachment, flags)


def _review(
    settings: Config, source: ReviewSource, detachment: Detachment | None, flags: dict[str, Any]
) -> int:
    """Run the review and show its results; returns the exit code."""
    from headway.cli.reviews.summary import Shown, show_results
    from headway.cli.run import counter
    from headway.cli.shared import printing, run_job
    from headway.jobs.base import IngestOptions
    from headway.wiring.store_access import hide_from_git
    from headway.wiring.submission import submitted

    quiet, as_json, say = flags["quiet"], flags["as_json"], printing.say_unless(flags["quiet"])
    run_flags = _run_flags(settings, flags)
    options = IngestOptions(source.plan.asks_again, False, counter(quiet), say, flags["name"] or "")
    with submitted(settings, source, run_flags, options, flags["max_cost"], say) as ready:
        hide_from_git(settings)
        ready = _with_forced(ready, flags["again"])
        code = run_job.run_ready(
            ready, detachment, progress=flags["progress"], quiet=quiet or as_json, as_json=False
        )
        if detachment is not None:
            return code
        job = ready.store.job(ready.job.name) or ready.job
        shown = Shown(flags["fail_on"], as_json, quiet, run_flags.output.baseline or "")
        return show_results(ready.store, job, code, source.plan, shown)


def _end_unchanged(settings: Config, source: ReviewSource, flags: dict[str, Any], *, estimate: bool) -> int:
    """A change without a file to review: say so, and write reports without findings."""
    from headway.cli.reviews.summary import show_unchanged
    from headway.cli.reviews.unchanged import write_empty_reports

    if flags["outs"] and not estimate:
        write_empty_reports(settings, source.plan, _run_flags(settings, flags).output)
    return show_unchanged(len(source.plan.left_out), as_json=flags["as_json"], quiet=flags["quiet"])


def _source(settings: Config, paths: tuple[str, ...], flags: dict[str, Any]) -> ReviewSource:
    """The files that the flags mean, with the questions about them."""
    from headway.cli.reviews.plan import review_plan
    from headway.reviews.running.review_source import ReviewSource

    return ReviewSource(review_plan(settings, paths, flags))


def _run_flags(settings: Config, flags: dict[str, Any]) -> RunFlags:
    """The run options. The folder is the output of the job, and reports are further files."""
    import msgspec

    from headway.cli.reviews.plan import out_dir
    from headway.cli.shared import run_job
    from headway.errors import UsageError
    from headway.jobs.run_settings import FileLimits
    from headway.reviews.running.job_kind import ReviewKind
    from headway.stores.output_lock import real_path
    from headway.wiring.report_files import must_be_reports

    kind = ReviewKind()
    outs = flags["outs"]
    baseline = _baseline(settings, flags)
    if baseline in map(str, map(real_path, outs)):
        raise UsageError("--out and --baseline name one file", hint="write to another one")
    must_be_reports(kind, outs)
    of_rows = {"text_only": False, "out_order": "input", "worktree": False, "shared_directory": True, "collect": (), "safe_cells": False}  # fmt: skip
    given = {name: value for name, value in flags.items() if name not in ("out_dir", "concurrency")}
    folder = out_dir(settings, flags["out_dir"])
    made = run_job.flags_of(kind, None, lambda: "", **{**given, **of_rows, "out_dir": folder})
    output = msgspec.structs.replace(made.output, more=tuple(map(real_path, outs)), baseline=baseline)
    at_a_time = flags["concurrency"]
    limits = FileLimits(concurrency=settings.review.concurrency if at_a_time is None else at_a_time)
    return msgspec.structs.replace(made, output=output, limits=limits)


def _baseline(settings: Config, flags: dict[str, Any]) -> str:
    """The file or the job of --baseline; "" without it. Raises if there is none."""
    named: str | None = flags["baseline"]
    if not named:
        return ""
    from headway.stores.output_lock import real_path
    from headway.wiring.reviews.known_findings import must_be_known

    must_be_known(settings, named)
    return str(real_path(Path(named))) if Path(named).is_file() else named


def _with_forced(ready: ReadyJob, patterns: tuple[str, ...]) -> ReadyJob:
    """With the units of the files that --file means: they run again, and no others."""
    if not patterns:
        return ready
    import msgspec

    from headway.errors import UsageError
    from headway.reviews.files.path_patterns import PathPatterns
    from headway.reviews.running.forced_units import forced_units

    units = tuple(forced_units(ready.store, ready.job, PathPatterns(patterns).matches))
    if not units:
        raise UsageError(f"--file {patterns[0]}: no file of this review matches", hint="see --dry-run")
    return ready._replace(flags=msgspec.structs.replace(ready.flags, only_units=units))
