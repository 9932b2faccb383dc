"""`headway export`: writes the results of a job from the records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from headway.cli.shared.click_options import json_option, output_name, safe_cells_option, where_options

if TYPE_CHECKING:
    from headway.jobs.base import JobKind
    from headway.jobs.output_options import OutputOptions
    from headway.stores.records import Job
    from headway.stores.store import Store


@click.command(
    "export", short_help="Write a job's results from the store.", epilog="Example: headway export > out.jsonl"
)
@click.argument("job", required=False)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    callback=output_name,
    metavar="FILE",
    help="Write to FILE instead of standard output: .jsonl, or a table (.csv, .tsv, .parquet).",
)
@click.option(
    "--out-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write each answer to a file of its own: DIR/ID.answer.md.",
)
@click.option("--text-only", is_flag=True, help='Write rows of {"id", "text"} instead of whole results.')
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@safe_cells_option
@json_option
@where_options
def command(
    job: str | None,
    out: Path | None,
    out_dir: Path | None,
    text_only: bool,
    force: bool,
    safe_cells: bool,
    config: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Write the results of JOB (default: the latest) that are recorded so far, one row per unit in input order: as JSON
    lines, with or without --json, or as a table if --out names one (.csv, .tsv, .parquet).
    """
    from headway.batch.file_types import must_be_spreadsheet
    from headway.cli.shared import printing, workspace
    from headway.display.usage_text import counts_text, unanswered_text
    from headway.errors import UsageError
    from headway.jobs.kinds import kind_of
    from headway.jobs.output_options import STDOUT, OutputOptions

    if safe_cells:
        must_be_spreadsheet(out)
    if out_dir is not None and (out is not None or text_only):
        other = "--out" if out is not None else "--text-only"
        raise UsageError(f"--out-dir and {other} do not go together", hint="leave one of them out")
    settings = workspace.settings(config, db)
    options = OutputOptions(Path(), force=force, safe_cells=safe_cells, text_only=text_only)
    options = options.to(f"{out_dir}/" if out_dir is not None else str(out or STDOUT))
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=as_json)
        kind = kind_of(chosen)
        if options.form == "stream":
            _write_stream(kind, store, chosen, options)
            return
        if options.form == "folder":
            from headway.batch.outputs.answer_folder import export_answers
            from headway.batch.outputs.choose_output import folder_for
            from headway.wiring.agent_work import collected_files

            options = msgspec.structs.replace(options, collected=collected_files(settings, chosen.name))
            folder = folder_for(lambda: workspace.open_read_only(settings), chosen, options)
            wrote = export_answers(folder, store, chosen, force=force)
            answers = "1 answer" if wrote == 1 else f"{wrote:,} answers"
            rest = unanswered_text(chosen)
            printing.say(f"wrote {answers} to {out_dir}" + (f"; {rest}" if rest else ""))
            return
        assert out is not None
        _write_file(kind, store, chosen, options, out)
    printing.say(f"wrote {out}: {counts_text(chosen)}")


def _write_stream(kind: JobKind, store: Store, job: Job, options: OutputOptions) -> None:
    """To standard output, a device or a pipe. A terminal gets its control characters escaped."""
    from headway.jobs.output_options import opened_stream
    from headway.safe_text import escaped

    with opened_stream(options.path) as stream:
        on_terminal = stream.isatty()
        for line in _lines(kind, store, job, options):
            stream.write(escaped(line.decode()).encode() if on_terminal else line)


def _lines(kind: JobKind, store: Store, job: Job, options: OutputOptions) -> Iterator[bytes]:
    """The rows, or only ids and texts."""
    if not options.text_only:
        return kind.rows(store, job, 0, job.total - 1)
    from headway.batch.output_file import results_of
    from headway.batch.result_rows import text_line

    return map(text_line, results_of(store, job, 0, job.total - 1))


def _write_file(kind: JobKind, store: Store, job: Job, options: OutputOptions, out: Path) -> None:
    from headway.batch.file_types import must_go_together
    from headway.errors import UsageError
    from headway.jobs.base import ReportKind
    from headway.stores.files import Replacement
    from headway.stores.output_lock import OutputLock
    from headway.wiring.report_files import write_reports

    must_go_together(options)
    as_report = isinstance(kind, ReportKind) and options.path.suffix != ".jsonl"
    if not as_report:
        kind.check_export(options.path)
    with OutputLock(options.path, job.name, make=False):
        if out.exists() and not options.force:
            raise UsageError(f"{out} already exists", hint="replace it with --force")
        if as_report:
            assert isinstance(kind, ReportKind)
            write_reports(kind, store, job, options)
            return
        try:
            with Replacement(options.path) as fresh:
                if options.text_only:
                    fresh.file.writelines(_lines(kind, store, job, options))
                else:
                    kind.export(fresh.file, options.path.name, store, job, safe_cells=options.safe_cells)
                fresh.commit()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(f"--out {out} cannot be written: {why}", hint="name another file") from None
