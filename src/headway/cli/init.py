"""`headway init`: writes a first `headway.toml` for the keys that are set. It uses their names; it writes and prints no key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headway.cli import verbose_option
from headway.cli.shared.click_options import json_option
from headway.display.terminal import echo
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.config.starter import DetectedAccount

#: Before the umask. A config that every user may write is refused.
MODE: Final = 0o644


@click.command(
    "init",
    short_help="Write a commented headway.toml from the keys that are set.",
    epilog="Example: headway init",
)
@click.option("--force", is_flag=True, help="Replace an existing headway.toml.")
@json_option
@verbose_option
def command(force: bool, as_json: bool) -> None:
    """Write a headway.toml into the working directory: a provider for each key that is set in the environment or in
    a .env file here, and a comment for every setting. The file holds names of variables, never a key.
    """
    from headway.cli.shared import printing
    from headway.config import read_env_file
    from headway.config.starter import accounts, lacking, starter
    from headway.config.trust import FILE_NAME, check_env_file, nearest

    here = Path.cwd()
    path = here / FILE_NAME
    _must_be_free(path, force=force)
    above = nearest(here.parent)
    check_env_file(here / ".env", here)
    dotenv = read_env_file(here / ".env")
    found = accounts(os.environ, dotenv)
    _write(path, starter(found), force=force)
    steps = next_steps(found)
    if as_json:
        printing.print_json({"path": str(path), "found": found, "next": steps})
        return
    echo(f"wrote {FILE_NAME}" + _about(found))
    for one in found:
        echo(f"  {one.provider}: {one.variable} ({one.where}), {one.base_url}")
    for one in found:
        if not one.model:
            echo(f"note: set model in [providers.{one.provider}], or name it in the rows or with --model")
    for note in (*lacking(os.environ, dotenv), *_notes(above)):
        echo(f"note: {note}")
    for number, step in enumerate(steps):
        echo(f"{'next:' if number == 0 else 'then:'} {step}")


def next_steps(found: list[DetectedAccount]) -> list[str]:
    """The commands to run next."""
    from headway.config.starter import LOCAL_KEY

    if not found:
        row = '{"prompt": "What is a headway?"}'
        run = f"echo '{row}' > one.jsonl && headway run one.jsonl"
        return ["headway fake --port 8900, in another terminal", f"export {LOCAL_KEY}=anything", run]
    model = "" if found[0].model else ', "model": "MODEL"'
    row = f'{{"prompt": "What is a headway?"{model}}}'
    return ["headway doctor", f"echo '{row}' > one.jsonl && headway run one.jsonl"]


def _about(found: list[DetectedAccount]) -> str:
    if found:
        return f" with {len(found)} provider{'s' if len(found) > 1 else ''}:"
    return (
        " for a server on this machine: no key was found in the environment or in .env "
        "(to use one: export OPENAI_API_KEY=…, then 'headway init --force')"
    )


def _notes(above: Path | None) -> list[str]:
    """Other config files: one that the new file hides, and one that hides the new file."""
    notes = []
    if above is not None:
        notes.append(f"{above} is no longer used in this directory")
    if os.environ.get("HEADWAY_CONFIG"):
        notes.append("HEADWAY_CONFIG is set: the file that it names is used instead")
    return notes


def _must_be_free(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="move or rename it")
    if os.path.lexists(path) and not force:
        raise UsageError(
            f"{path} already exists", hint="check it with 'headway doctor', or replace it with --force"
        )


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write the file completely or not at all. A file that was created meanwhile is not overwritten."""
    from headway.stores.files import Replacement

    try:
        if not force:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(path, flags, MODE), "wb") as file:
                file.write(text.encode())
            return
        with Replacement(path, MODE) as fresh:
            fresh.file.write(text.encode())
            fresh.commit()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {(error.strerror or str(error)).lower()}",
            hint="run it in a writable directory",
        ) from None
