"""`headway run FILE`: a batch, from its first row to its last answer; the same file again goes on where it stopped."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from headway.cli import INTERRUPTED
from headway.cli.options import run_options, where_options
from headway.cli.recipe import recipe_of, recipe_options
from headway.display.terminal import overwrite

if TYPE_CHECKING:
    from headway.batch.jobs import Input, Progress
    from headway.config import Config
    from headway.stores.records import Job
    from headway.stores.store import Store
    from headway.wiring.runs import RunFlags

#: The flags that say what is shown of a run.
_SHOWN: Final = ("progress", "quiet", "as_json")


class Taking(NamedTuple):
    """How a file is taken in: as a new job whatever was done before, without its bad rows, and who hears how far it is."""

    fresh: bool
    skip_bad: bool
    progress: Progress


class _Call(NamedTuple):
    """What one `headway run` was given."""

    config: Config
    source: Input
    flags: RunFlags
    taking: Taking
    shown: dict[str, Any]


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
    config: Path | None,
    db: str | None,
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
    from headway.batch.jobs import open_input
    from headway.cli import running, session

    settings = session.settings(config, db, **flags)
    session.must_have_provider(settings)
    if not flags["quiet"]:
        session.tell_config(settings)
        session.tell_place(settings)
    recipe = recipe_of(flags)
    target = out or default_out(file, recipe.limit)
    run_flags = running.flags_of(target, **flags)
    taking = Taking(flags["fresh"], flags["skip_bad_rows"], counter(flags["quiet"]))
    with open_input(file, sys.stdin.buffer if file == "-" else None, recipe) as source:
        _must_not_be_the_input(target, run_flags, source)
        if dry_run or confirm:
            from headway.cli import dry_run as ahead  # What plans is loaded for who wants a plan.

            if dry_run:
                return ahead.dry_run(settings, source, run_flags, taking, flags["as_json"], flags["quiet"])
            if (planned := ahead.confirmed(settings, source, run_flags, taking)) is None:
                return INTERRUPTED
            run_flags = planned
        shown = {name: flags[name] for name in _SHOWN}
        return _run(_Call(settings, source, run_flags, taking, shown), flags["max_cost"])


def _must_not_be_the_input(target: Path, flags: RunFlags, source: Input) -> None:
    from headway.errors import UsageError

    if source.path != "-" and flags.out == Path(source.path).resolve():
        raise UsageError(f"--out {target} is the input itself", hint="name another file")


def _run(call: _Call, cap: float | None) -> int:
    """Go on with the job that the input is, or make it one."""
    from headway.batch.jobs import find
    from headway.cli import running, session
    from headway.errors import UsageError
    from headway.wiring.places import lock_of, store_of

    config, source = call.config, call.source
    with store_of(config) as store:
        if call.flags.only_failed and (call.taking.fresh or find(store, config, source.digest) is None):
            raise UsageError(f"{source.name} has not been run yet", hint="run it without --only-failed")
        while True:
            job, is_new = _found_or_new(call, store)
            if is_new:
                with lock_of(config, job.name):
                    if (code := _run_new(call._replace(flags=call.flags.taken()), store, job)) is not None:
                        return code
            elif job.state == "ingesting":
                with lock_of(config, job.name):
                    pass  # Its process has just finished or died: look again.
            else:
                if job.good < job.total:
                    config = session.with_cap_of(config, job, cap, quiet=call.shown["quiet"])
                return running.locked_run(config, store, job, call.flags, **call.shown)


def _found_or_new(call: _Call, store: Store) -> tuple[Job, bool]:
    """The job that the input is, and whether it is new: then its rows are not in the store yet."""
    from headway.batch.jobs import clear_remains, find_or_add
    from headway.wiring.places import lock_of

    clear_remains(store, call.source.digest, lambda name: lock_of(call.config, name))
    return find_or_add(store, call.config, call.source, str(call.flags.out), fresh=call.taking.fresh)


def _run_new(call: _Call, store: Store, new: Job) -> int | None:
    """Take in the rows of a new job and run it; the caller holds its lock.

    None: another process removed the job before it was locked. A job without rows and without a lock may be one that a dead
    process left.
    """
    from headway.batch.jobs import is_ingesting, relatives
    from headway.batch.output import owned
    from headway.cli import running, session

    if not is_ingesting(store, new):
        return None
    config, flags, quiet = call.config, call.flags, call.shown["quiet"]
    earlier_jobs = [] if call.taking.fresh else relatives(store, config, call.source)
    if not (quiet or earlier_jobs or call.taking.fresh):
        _say_why_new(session.say, store, call.source.path)
    with ExitStack() as stack:
        try:
            stack.enter_context(owned(flags.out, new.name, force=flags.force, store=store))
            job, left_out = _taken_in(call, store, new, earlier_jobs)
        except BaseException:
            store.forget(new.id)
            raise
        if left_out and not quiet:
            session.say("1 bad row was left out" if left_out == 1 else f"{left_out:,} bad rows were left out")
        if earlier_jobs and not quiet:
            session.say(_about_earlier(job, earlier_jobs[0]))
        return running.run_job(config, store, job, flags, **call.shown)


def _about_earlier(job: Job, earlier: Job) -> str:
    """What a job has from another of the same rows."""
    n = job.counts["cached"]
    took = (
        f"{n:,} of {job.total:,} answers are taken over and not sent again" if n else "it has no answers yet"
    )
    return f"these rows were run before with another --limit, as job {earlier.name}: {took}"


def _taken_in(call: _Call, store: Store, new: Job, earlier_jobs: list[Job]) -> tuple[Job, int]:
    """The new job, and how many bad rows were left out of it."""
    from headway.batch.jobs import ingest
    from headway.cli.running import tell_bad_rows
    from headway.errors import InputError
    from headway.wiring.runs import check_route

    config, taking = call.config, call.taking
    check = check_route(config, os.environ)
    try:
        return ingest(
            store, config, call.source, new, skip_bad=taking.skip_bad, progress=taking.progress, check=check, earlier_jobs=earlier_jobs
        )  # fmt: skip
    except InputError as error:
        tell_bad_rows(error)
        raise


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


def _say_why_new(say: Any, store: Any, path: str) -> None:
    """A file that was run before and is a new job all the same: say why."""
    before = next((job for job in store.jobs() if job.input == path and job.state != "ingesting"), None)
    if before is not None:
        say(f"this is a new job: the file, its models or what is asked have changed since job {before.name}")


def counter(quiet: bool) -> Any:
    """Shows how many rows have been taken in, where that takes a while and somebody looks."""
    if quiet or not sys.stderr.isatty():
        return lambda total: None

    def show(total: int) -> None:
        if total >= 50_000:
            overwrite(f"taking in {total:,} rows …")

    return show
