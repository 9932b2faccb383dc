"""`headway run FILE`: a batch, from its first row to its last answer; the same file again goes on where it stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import INTERRUPTED
from headway.cli.options import run_options, where_options
from headway.cli.recipe import recipe_of, recipe_options

if TYPE_CHECKING:
    from headway.batch.jobs import Input
    from headway.config import Config
    from headway.stores.base import Store
    from headway.wiring.runs import RunFlags


@click.command(
    "run",
    short_help="Send a batch; the same file again goes on where it stopped.",
    epilog="Example: headway run requests.jsonl --out answers.jsonl",
)
@click.argument("file", type=click.Path(allow_dash=True))
@recipe_options
@click.option("--dry-run", is_flag=True, help="Check and plan everything, send and write nothing.")
@click.option(
    "--confirm", is_flag=True, help="Show the plan (see 'headway plan') and ask before anything is sent."
)
@click.option("--fresh", is_flag=True, help="Start over as a new job, whatever was done before.")
@click.option("--only-failed", is_flag=True, help="Of a job that ran before, run only the units that failed.")
@click.option("--skip-bad-rows", is_flag=True, help="Leave bad rows out instead of refusing the file.")
@run_options
@where_options
def command(
    file: str,
    dry_run: bool,
    confirm: bool,
    fresh: bool,
    only_failed: bool,
    skip_bad_rows: bool,
    config: Path | None,
    db: str | None,
    quiet: bool,
    as_json: bool,
    progress: str,
    out: Path | None,
    **flags: Any,
) -> int:
    """Send every request in FILE (.jsonl, or - for standard input) as fast as its provider's limits allow, and write
    the answers in input order. FILE may be a table too (.csv, .tsv, .parquet): --prompt says what to ask about each of its
    rows. All but Parquet may be compressed (.gz). Results are a table where --out names one. --schema wants answers that
    are JSON of one form: each is checked, and asked for once more where it does not fit.

    Everything is recorded as it happens: after Ctrl-C, a crash or a lost connection the same command goes on where it
    stopped, and pays for nothing twice. No concurrency has to be chosen; each lane finds its own pace.
    """
    from headway.batch.jobs import find, open_input
    from headway.cli import running, session
    from headway.errors import UsageError
    from headway.wiring.places import store_at

    settings = session.settings(config, db, **flags)
    session.must_have_provider(settings)
    recipe = recipe_of(flags)
    target = out or default_out(file, recipe.limit)
    run_flags = running.flags_of(target, only_failed=only_failed, **flags)
    source = open_input(file, sys.stdin.buffer if file == "-" else None, recipe)
    if str(run_flags.out) == source.path:
        raise UsageError(f"--out {target} is the input itself", hint="name another file")
    if dry_run:
        from headway.cli.dry_run import dry_run as look_ahead

        with source:
            return look_ahead(
                settings,
                source,
                run_flags,
                fresh=fresh,
                skip_bad=skip_bad_rows,
                progress=counter(quiet),
                as_json=as_json,
                quiet=quiet,
            )
    if confirm:
        from headway.cli.dry_run import confirmed

        planned = confirmed(
            settings, source, run_flags, fresh=fresh, skip_bad=skip_bad_rows, progress=counter(quiet)
        )
        if planned is None:
            return INTERRUPTED
        run_flags = planned
    with source, store_at(settings.db) as store:
        job = None if fresh else find(store, settings, source.digest)
        if job is None and only_failed:
            raise UsageError(f"{source.name} has not been run yet", hint="run it without --only-failed")
        shown: dict[str, Any] = {"progress": progress, "quiet": quiet, "as_json": as_json}
        if job is not None:
            return running.locked_run(settings, store, job, run_flags, **shown)
        return _run_new(settings, store, source, run_flags, shown, fresh=fresh, skip_bad=skip_bad_rows)


def _run_new(
    settings: Config,
    store: Store,
    source: Input,
    flags: RunFlags,
    shown: dict[str, Any],
    *,
    fresh: bool,
    skip_bad: bool,
) -> int:
    """Take the input in as a job of its own, and run it, under one lock."""
    from headway.batch.jobs import ingest, name_for
    from headway.batch.output import claim
    from headway.cli import running, session
    from headway.errors import InputError
    from headway.wiring.places import lock_of
    from headway.wiring.runs import check_route

    quiet = shown["quiet"]
    name = name_for(store, source)
    if not quiet:
        _say_why_new(session.say, store, source.path, fresh=fresh)
    claim(flags.out, name, force=flags.force, store=store)
    with lock_of(settings, name):
        try:
            job, left_out = ingest(
                store,
                settings,
                source,
                name,
                str(flags.out),
                skip_bad=skip_bad,
                progress=counter(quiet),
                check=check_route(settings, os.environ),
            )
        except InputError as error:
            running.tell_bad_rows(error)
            raise
        if left_out and not quiet:
            session.say(f"{left_out:,} bad rows were left out")
        return running.run_job(settings, store, job, flags, **shown)


def default_out(file: str, limit: int | None = None) -> Path:
    """Beside the input: requests.jsonl → requests.results.jsonl. A sample is not in the way of the whole."""
    from headway.errors import UsageError

    sample = "" if limit is None else f"first-{limit}."
    if file == "-":
        return Path(f"{sample}results.jsonl")
    path = Path(file)
    if not path.name:
        raise UsageError(f"'{file}' is no file", hint="name a .jsonl, .csv or .parquet file, or - for stdin")
    stem = path.name.removesuffix(".gz")
    for known in (".jsonl", ".csv", ".tsv", ".parquet"):
        stem = stem.removesuffix(known)
    return path.with_name(f"{stem}.{sample}results.jsonl")


def _say_why_new(say: Any, store: Any, path: str, *, fresh: bool) -> None:
    """A file that was run before and is a new job all the same: say why."""
    before = next((job for job in store.jobs() if job.input == path and job.state != "ingesting"), None)
    if before is not None and not fresh:
        say(f"this is a new job: the file, its models or what is asked have changed since job {before.name}")


def counter(quiet: bool) -> Any:
    """Shows how many rows have been taken in, where that takes a while and somebody looks."""
    if quiet or not sys.stderr.isatty():
        return lambda total: None

    def show(total: int) -> None:
        if total >= 50_000:
            click.echo(f"\r\033[Ktaking in {total:,} rows …", nl=False, err=True)

    return show
