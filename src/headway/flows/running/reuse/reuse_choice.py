"""What the user said about earlier answers when a job of a flow was made: `--fresh`, `--no-cache`, `--from`. It holds for every run of the job."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.stores.records import Job

#: The key in a job's form.
REUSE: Final = "reuse"


class ReuseChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """`takes_over`: answers of earlier jobs of the flow are kept. `uses_cache`: those of the cache are used. `again`: the paths of the nodes that
    run again, by `--from` the node `begins_at`.
    """

    takes_over: bool = True
    uses_cache: bool = True
    begins_at: str = ""
    again: tuple[str, ...] = ()


#: Without a flag.
AS_USUAL: Final = ReuseChoice()


def choice_of(job: Job) -> ReuseChoice:
    """The choice of a job."""
    choice = msgspec.convert(job.form.get(REUSE, {}), ReuseChoice)
    return msgspec.structs.replace(choice, takes_over=False) if job.form.get("fresh") else choice


def choice_form(choice: ReuseChoice) -> dict[str, Any]:
    """As a part of a job's form; nothing for the usual choice."""
    values: dict[str, Any] = msgspec.to_builtins(choice)
    return {REUSE: values} if values else {}
