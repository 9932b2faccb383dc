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
from headway.jobs.unit_report import Section, UnitReport, UnitText
from headway.providers.adapter import Adapter
from headway.stores.records import Job
from headway.stores.store import Store


class BatchKind(FileJobKind):
    """Rows in, rows or a table out."""

    name = "batch"

    # -- a file into units ------------------------------------------------------------------------------------

    def reads(self, path: str) -> bool:
        """Every file that no other kind reads. A wrong name is reported when the file is opened."""
        return True

    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """Read the whole input once, for its digest."""
        from headway.batch.input_source import open_batch
        from headway.batch.request_options import request_options_of

        return open_batch(path, stdin, request_options_of(flags))

    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """Beside the input: requests.jsonl → requests.results.jsonl. With --limit, the name contains the limit."""
        sample = "" if flags["limit"] is None else f"first-{flags['limit']}."
        if path == "-":
            return Path(f"{sample}results.jsonl")
        file = Path(path)
        if not file.name:
            raise UsageError(
                f"'{path}' is no file", hint="name a .jsonl, .csv or .parquet file, or - for stdin"
            )
        stem = file.name.removesuffix(".gz")
        for suffix in (".jsonl", ".csv", ".tsv", ".parquet"):
            stem = stem.removesuffix(suffix)
        return file.with_name(f"{stem}.{sample}results.jsonl")

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
        """A table is in input order, and only a spreadsheet has formulas."""
        from headway.batch.file_types import is_table, must_be_spreadsheet

        if options.order != "input" and is_table(options.path):
            raise UsageError(
                "--out-order completion does not go with a table", hint="name a .jsonl file with --out"
            )
        if options.safe_cells:
            must_be_spreadsheet(options.path)

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Rows name the job that wrote them. For a table the store is needed; without a store, a table is claimed when it is
        written. A table with the same content does not need the same owner.
        """
        from headway.batch.file_types import is_table
        from headway.batch.output_file import claim

        if store is None and is_table(options.path):
            return
        claim(options.path, job, force=options.force, store=store, make=make)

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        """Rows are written while the job runs, a table at its end."""
        from headway.batch.tables.table_output import output_for

        return output_for(
            open_store, job, options.path, options.order, force=options.force, safe=options.safe_cells
        )

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """OpenAI Batch result rows."""
        from headway.batch.output_file import lines_of

        return lines_of(store, job, first, last)

    def check_export(self, path: Path) -> None:
        """Raise if the format needs an extra that is not installed."""
        from headway.batch.file_types import is_table
        from headway.batch.output_file import must_be_writable_table

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
        """The file's name."""
        return "standard input" if job.input == "-" else Path(job.input).name

    def origin(self, job: Job) -> str:
        """The input and the output file."""
        return f"input {job.input}, results {job.out}"

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """The request, answers that did not fit, and the answer or error."""
        from headway.batch.answer_text import answer_of

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
                Section("request", bytes(unit.request.body)),
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
