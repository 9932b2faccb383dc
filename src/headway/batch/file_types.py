"""What kind of file a name stands for: rows (.jsonl), a table with text cells (.csv, .tsv), a table with types (.parquet)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headway.errors import UsageError
from headway.jobs.output_options import OutputOptions

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
ROWS: Final = (".jsonl", ".ndjson")
TABLES: Final = (*_DELIMITERS, ".parquet")


def delimiter_of(path: str | Path) -> str | None:
    """The character between two columns; None: the file is not a table of texts."""
    return _DELIMITERS.get(Path(str(path).removesuffix(".gz")).suffix.lower())


def is_parquet(path: str | Path) -> bool:
    """Whether a file is a Parquet file."""
    return Path(str(path).removesuffix(".gz")).suffix.lower() == ".parquet"


def is_table(path: str | Path) -> bool:
    """Whether a file is a table of any kind."""
    return delimiter_of(path) is not None or is_parquet(path)


#: Results of flows.
FLOW_RESULTS: Final = ".json"
#: Reports of an eval, besides .json and .csv.
REPORTS: Final = (".xml", ".md", ".html")


def must_be_an_output(path: Path, *, or_flow: bool = False) -> None:
    """Raise unless results can be written under this name. A name without a suffix means rows. `or_flow`: it is not known yet whether
    they are those of a flow or of an eval.
    """
    if or_flow and path.suffix in (FLOW_RESULTS, *REPORTS):
        return
    if path.suffix.lower() == ".gz":
        what = "a table is" if is_table(path) else "results are"
        raise UsageError(f"--out {path}: {what} not written compressed", hint="remove .gz from its name")
    if path.suffix and path.suffix.lower() not in (*ROWS, *TABLES):
        known = f"{ROWS[0]} (rows), {', '.join(TABLES)} (tables)"
        raise UsageError(
            f"--out {path}: results cannot be written as {path.suffix}", hint=f"use one of: {known}"
        )


def must_go_together(options: OutputOptions) -> None:
    """Raise if a table is asked to have only texts."""
    if options.text_only and options.form == "file" and is_table(options.path):
        raise UsageError("--text-only does not go with a table", hint="its column 'answer' has the texts")


def must_be_spreadsheet(path: Path | None) -> None:
    """Raise unless --safe-cells has a meaning for this file: only .csv and .tsv have cells that look like formulas."""
    if path is None or delimiter_of(path.name) is None:
        raise UsageError("--safe-cells is for spreadsheets", hint="name a .csv or .tsv file with --out")


#: The files of a unit's folder (`outputs.unit_folders`).
UNIT_TEXT: Final = "answer.txt"
UNIT_JSON: Final = "answer.json"
UNIT_TRANSCRIPT: Final = "transcript.jsonl"


def is_unit_folder(folder: Path) -> bool:
    """Whether Headway has written the result of an agent to this folder."""
    return (folder / UNIT_TRANSCRIPT).is_file() and any(
        (folder / name).is_file() for name in (UNIT_TEXT, UNIT_JSON)
    )
