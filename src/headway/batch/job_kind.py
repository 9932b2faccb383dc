"""The kind of job that `headway run` makes from rows: `.jsonl`, `.csv`, `.tsv`, `.parquet`, or standard input.

Modules that read and write tables are imported where they are used: commands that only list jobs do not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from headway.engine.run_spec import Render
from headway.errors import UsageError
from headway.jobs.base import AnswerCheck, FileJobKind, JobOutput, JobSource, OutputOptions
from headway.jobs.output_options import STDOUT
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.providers.adapter import Adapter
from headway.stores.records import Job
from headway.stores.store import Store


def _is_claimed_later(options: OutputOptions) -> bool:
    from headway.batch.file_types import is_table

    return options.form == "folder" or options.text_only or is_table(options.path)


class BatchKind(FileJobKind):
    """Rows in, rows or a table out."""

    name = "batch"
    takes_several = True

    # -- a file into units ------------------------------------------------------------------------------------

    def reads(self, path: str) -> bool:
        """Every file that no other kind reads. A wrong name is reported when the file is opened."""
        return True

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """Read the whole input once, for its digest."""
        from headway.batch.input_source import open_batch
        from headway.batch.inputs.path_patterns import is_file_set
        from headway.batch.request_options import request_options_of

        options = request_options_of(flags)
        paths = [path, *flags["more_files"]]
        if is_file_set(paths, options.prompt):
            from headway.batch.inputs.text_files import open_files

            return open_files(paths, options, flags["out"], flags["warn"])
        source = open_batch(path, stdin, options)
        if source.is_table and options.asks_all_rows_alike:
            flags["warn"](
                "warning: --prompt names no column: every row gets the same question; a column is named by '{{COLUMN}}'"
            )
        return source

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """Beside the input: requests.jsonl → requests.results.jsonl, and a table → a table. The name contains --limit and --name.

        Only rows can be in order of completion, or have only texts. The results of files go beside their folder.
        """
        from headway.batch.file_types import delimiter_of, is_parquet, is_table
        from headway.batch.inputs.path_patterns import is_file_set, results_place

        named = "" if not flags["name"] else f"{flags['name']}."
        sample = named + ("" if flags["limit"] is None else f"first-{flags['limit']}.")
        if path == "-":
            return Path(f"{sample}results.jsonl")
        if is_file_set([path, *flags["more_files"]], flags["prompt"]):
            place = results_place([path, *flags["more_files"]])
            return place.with_name(f"{place.name}.{sample}results.jsonl")
        file = Path(path)
        if not file.name:
            raise UsageError(
                f"'{path}' is not a file", hint="name a .jsonl, .csv or .parquet file, or - for stdin"
            )
        stem = file.name.removesuffix(".gz")
        for suffix in (".jsonl", ".csv", ".tsv", ".parquet"):
            stem = stem.removesuffix(suffix)
        end = ".jsonl"
        if is_table(path) and flags["out_order"] == "input" and not flags["text_only"]:
            end = ".parquet" if is_parquet(path) else ".tsv" if delimiter_of(path) == "\t" else ".csv"
        return file.with_name(f"{stem}.{sample}results{end}")

    def output_owner(self, output: OutputOptions, store: Store) -> str | None:
        """From its first row, or from the store. A table that a job will write at its end counts, too."""
        from headway.batch.outputs.ownership import owner_at

        return owner_at(output.path, store)

    def output_for_job(self, path: Path, job: str) -> Path:
        """requests.results.jsonl → requests.JOB.results.jsonl"""
        return path.with_name(f"{path.stem.removesuffix('.results')}.{job}.results{path.suffix}")

    # -- while it runs ----------------------------------------------------------------------------------------

    def answer_check(self, job: Job) -> AnswerCheck | None:
        """Validates answers against the job's schema, if it has one."""
        schema = job.form.get("schema")
        if schema is None:
            return None
        from headway.batch.answer_schema import Validator
        from headway.batch.schema_adapter import SchemaAdapter

        validator = Validator(schema)

        def checked(adapter: Adapter, provider_kind: str) -> Adapter:
            return SchemaAdapter(adapter, provider_kind, validator)

        return checked

    def renderer(self, job: Job) -> Render:
        """Makes the requests of later turns of a conversation, and of rows with `{{name}}` in them."""
        from functools import partial

        from headway.batch.conversations import request_of

        return partial(request_of, job.id)

    # -- results into a file ----------------------------------------------------------------------------------

    def check_output(self, options: OutputOptions) -> None:
        """A table is in input order and has all columns, and only a spreadsheet has formulas."""
        from headway.batch.file_types import (
            is_table,
            must_be_an_output,
            must_be_spreadsheet,
            must_go_together,
        )

        if options.form == "file":
            must_be_an_output(options.path)
        must_go_together(options)
        table = options.form == "file" and is_table(options.path)
        if table and options.order != "input":
            raise UsageError(
                "--out-order completion cannot be used with a table", hint="name a .jsonl file with --out"
            )
        if options.safe_cells:
            must_be_spreadsheet(options.path)

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Rows name the job that wrote them. For other outputs the store is needed; without a store, they are claimed when they are
        written. A table with the same content does not need the same owner. A stream has no owner.
        """
        if options.form == "stream" or (store is None and _is_claimed_later(options)):
            return
        if options.form == "folder":
            from headway.batch.outputs.answer_folder import claim_folder

            claim_folder(options.path, job, force=options.force, store=store, make=make)
            return
        from headway.batch.outputs.ownership import claim

        claim(options.path, job, force=options.force, store=store, make=make, text_only=options.text_only)

    def outdated_outputs(self, options: OutputOptions, store: Store, job: Job, earlier: Job) -> int:
        """Answer files of inputs that are gone."""
        if options.form != "folder":
            return 0
        from headway.batch.outputs.answer_folder import outdated_answers

        return outdated_answers(options.path, store, job, earlier)

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        """Rows are written while the job runs, a table at its end."""
        from headway.batch.outputs.choose_output import output_for

        return output_for(open_store, job, options)

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """OpenAI Batch result rows."""
        from headway.batch.output_file import lines_of

        return lines_of(store, job, first, last)

    def check_export(self, path: Path) -> None:
        """Raise if the format needs an extra that is not installed."""
        from headway.batch.file_types import is_table, must_be_an_output
        from headway.batch.outputs.ownership import must_be_writable_table

        must_be_an_output(path)
        if is_table(path):
            must_be_writable_table(path)

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        """Rows, or a table, by the name of the file."""
        from headway.batch.file_types import is_table

        if is_table(name):
            from headway.batch.tables.table_output import write_table

            write_table(file, name, store, job, safe=safe_cells)
        else:
            file.writelines(self.rows(store, job, 0, job.total - 1))

    # -- texts ------------------------------------------------------------------------------------------------

    def input_name(self, job: Job) -> str:
        """The file's name, or the pattern of files."""
        if "files" in job.form:
            return str(job.form["files"])
        return "standard input" if job.input == "-" else Path(job.input).name

    def origin(self, job: Job) -> str:
        """The input and the output file."""
        results = "on standard output" if job.out == STDOUT else job.out or "in the database"
        return f"input {job.input}, results {results}"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """The request, answers that did not fit, and the answer or error."""
        from headway.batch.answer_text import answer_of
        from headway.providers.attached_body import described_marks

        result = msgspec.json.decode(unit.result)
        answer = result["response"]["body"] if result["response"] else result["error"]
        remarks = []
        if (source := unit.answer_of) is not None:
            whose = "a job that is gone" if source.job is None else f"job {source.job}"
            remarks.append(
                f"answered without a call: it has the answer of {source.custom_id or source.index} in {whose}"
            )
        return UnitText(
            where=f"{unit.provider}/{unit.model} {unit.request.path}",
            remarks=remarks,
            sections=[
                Section("request", described_marks(bytes(unit.request.body))),
                *_attachments(unit),
                *(
                    Section(
                        f"answer of attempt {repair.attempt}, which did not fit",
                        answer_of(bytes(repair.answer)),
                    )
                    for repair in unit.repairs
                ),
                Section("answer" if result["response"] else "error", msgspec.json.encode(answer)),
            ],
        )


def _attachments(unit: UnitReport) -> Iterator[Section]:
    """The files of a request, one a line."""
    if unit.request.attachments:
        from headway.batch.attachments.media import Media

        lines = (
            f"{Media(file.type, file.width, file.height, file.pages).text}, {file.size:,} bytes, blake2b {file.digest}"
            for file in unit.request.attachments
        )
        yield Section("attachments", "\n".join(lines))
