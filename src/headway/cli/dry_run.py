"""`headway run FILE --dry-run`: everything that can be known before anything is sent, and nothing is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import msgspec

from headway.batch.jobs import Input, Progress, find, name_for
from headway.batch.output import claim
from headway.batch.survey import Load, Survey, survey
from headway.cli.running import tell_bad_rows
from headway.cli.session import print_json
from headway.config import Config
from headway.errors import InputError, UsageError
from headway.stores.base import Job
from headway.wiring.places import records_at
from headway.wiring.runs import RunFlags, check_route


def dry_run(
    config: Config,
    source: Input,
    flags: RunFlags,
    *,
    fresh: bool,
    skip_bad: bool,
    progress: Progress,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check the rows, where they go, the keys and the output; say what there would be to do."""
    with records_at(config.db) as store:
        job = None if fresh else find(store, config, source.digest)
        if job is None and flags.only_failed:
            raise UsageError(f"{source.name} has not been run yet", hint="run it without --only-failed")
        name = name_for(store, source) if job is None else job.name
        claim(flags.out, name, force=flags.force, store=store, make=False)
    check = check_route(config, os.environ)
    try:
        found = survey(config, source, skip_bad=skip_bad, progress=progress, check=check)
    except InputError as error:
        tell_bad_rows(error)
        raise
    if as_json:
        print_json(_facts(found, job, flags.out))
    elif not quiet:
        for line in _lines(source, found, job, flags.out):
            click.echo(line)
    return 0


def _facts(found: Survey, job: Job | None, out: Path) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "bad_rows": found.bad_rows,
        "lanes": msgspec.to_builtins(found.lanes),
        "job": None if job is None else job.name,
        "succeeded": 0 if job is None else job.good,
        "out": str(out),
    }


def _lines(source: Input, found: Survey, job: Job | None, out: Path) -> list[str]:
    rows = "1 row" if found.rows == 1 else f"{found.rows:,} rows"
    bad = "1 bad row" if found.bad_rows == 1 else f"{found.bad_rows:,} bad rows"
    left_out = f", {bad} left out" if found.bad_rows else ""
    lines = [f"{source.name}: {rows}{left_out}; a dry run, nothing was sent"]
    lines += [f"  {lane}: {_load(load)}" for lane, load in found.lanes.items()]
    if job is not None:
        lines.append(
            f"  job {job.name} has {job.good:,} of {job.total:,} answers already; the rest would be sent"
        )
    lines.append(f"  results would go to {out}")
    return lines


def _load(load: Load) -> str:
    """Tokens are a guess from characters; how long an answer is, only a limit says before."""
    requests = "1 request" if load.requests == 1 else f"{load.requests:,} requests"
    parts = [requests, f"about {load.input_tokens:,} tokens in"]
    if load.max_output_tokens:
        parts.append(f"at most {load.max_output_tokens:,} out")
    if load.open_ended:
        parts.append(
            f"{load.open_ended:,} answers without a limit"
            if load.open_ended > 1
            else "1 answer without a limit"
        )
    return ", ".join(parts)
