"""The writer of a job's results: a stream, a folder, a table or a file of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.batch.file_types import is_table
from headway.batch.output_file import OutputFile
from headway.batch.result_rows import result_line, text_line
from headway.jobs.base import JobOutput
from headway.jobs.output_options import OutputOptions
from headway.stores.records import Job
from headway.stores.store import Store

if TYPE_CHECKING:
    from headway.batch.outputs.answer_folder import AnswerFolder


def output_for(open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
    """The writer for these options. Each form is imported only if it is used."""
    path, order, force = options.path, options.order, options.force
    if options.form == "stream":
        from headway.batch.outputs.stream_output import StreamOutput

        return StreamOutput(open_store, job, path, order, text_line if options.text_only else result_line)
    if options.form == "folder":
        return folder_for(open_store, job, options)
    if is_table(path):
        from headway.batch.tables.table_output import TableFile

        return TableFile(open_store, job, path, force=force, safe=options.safe_cells)
    if options.text_only:
        from headway.batch.outputs.text_rows import TextRows

        return TextRows(open_store, job, path, order, force=force)
    return OutputFile(open_store, job, path, order)


def folder_for(open_store: Callable[[], Store], job: Job, options: OutputOptions) -> AnswerFolder:
    """The writer of a folder: a folder for each unit where agents or programs work, otherwise a file for each answer."""
    from headway.batch.outputs.answer_folder import AnswerFolder
    from headway.batch.outputs.unit_folders import UnitFolders, is_for_programs

    path, force = options.path, options.force
    with open_store() as store:
        if not is_for_programs(store, job):
            return AnswerFolder(open_store, job, path, force=force)
    return UnitFolders(open_store, job, path, force=force, collected=options.collected)
