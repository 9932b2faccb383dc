"""The names of jobs that Python programs make, and the functions that those jobs belong to.

A name is also the name of a folder, so it is cleaned. A name that cleaning changes carries a hash of the whole name: two
names are always two jobs. Names that differ only in case share a folder where the file system ignores case. That does no
harm: the folder holds the lock, and a run beside the other one is refused.

A job records the function that made it, as `module.qualname`, and for a function of the main script where that script is.
Another function is refused, so that it does not get the first one's answers. A function that was renamed or moved says so
with `renamed_from`. A script that was moved needs no word: the recorded one is no longer there. An `AgentWorker` is recorded with
the settings that change its answers, so one with other settings is another function.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.config.argument_checks import must_be_recordable
from headway.config.database_address import shown_database
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.stores.records import Job
    from headway.stores.store import Store

LONGEST: Final = 60
#: Of the hash, in hexadecimal: 80 bits, so that no second name can be made for it.
DIGITS: Final = 20
#: Of the hash in versions before.
_OLD_DIGITS: Final = 10
_HASHED: Final = re.compile(rf".*-(?:[0-9a-f]{{{_OLD_DIGITS}}}|[0-9a-f]{{{DIGITS}}})", re.DOTALL)
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.]+")


class JobIdentity(msgspec.Struct, frozen=True):
    """Which job a program means: its kind, its name as given, and the function that it belongs to."""

    kind: str
    name: str
    function: str
    #: Other names under which the function may be on record.
    earlier: tuple[str, ...] = ()
    #: The argument that names the job.
    argument: str = "name"
    #: The main script, if the function is from there.
    script: str = ""
    #: Whether the caller says that the function had another name.
    renamed: bool = False
    #: Whether it is an `AgentWorker`, whose name has its settings.
    is_agent: bool = False

    def name_in(self, store: Store) -> str:
        """The name of the job in this store. Earlier versions made other names: their jobs are still found."""
        name = job_name(self.name, self.kind)
        if store.job(name) is None:
            for old in (_hashed(self.name, self.kind, _OLD_DIGITS), old_job_name(self.name, self.kind)):
                if self._is_from_before(store.job(old)):
                    return old
        return name

    def _is_from_before(self, job: Job | None) -> bool:
        """Whether a job under a name that is made no longer is this one."""
        if job is None or job.kind != self.kind or not self._is_ours(job):
            return False
        return _name_of(job) in (None, self.name)

    def check(self, job: Job, db: str) -> None:
        """That a job of this name is of this kind, and belongs to this function."""
        other = f"give this one another {self.argument}=…"
        if _name_of(job) not in (None, self.name):
            raise UsageError(
                f"the job '{job.name}' in {shown_database(db)} has the name '{_name_of(job)}'", hint=other
            )
        if job.kind != self.kind:
            message = f"the job '{job.name}' in {shown_database(db)} is a {job.kind}, not a {self.kind}"
            raise UsageError(message, hint=other)
        if not self._is_ours(job):
            owner = _function_of(job)
            why = "to keep its finished answers" if self.is_agent else f"if {owner} was renamed or moved"
            raise UsageError(
                f"the job '{job.name}' in {shown_database(db)} was made by {owner}, not by {self.function}",
                hint=f"{other}; {why}, renamed_from={json.dumps(owner, ensure_ascii=False)}",
            )
        if (script := self._other_script(job, db)) is not None:
            raise UsageError(
                f"the job '{job.name}' in {shown_database(db)} was made by {self.function} of {script}, not of {self.script}",
                hint=f'{other}; if it is the same job, renamed_from="{self.function}"',
            )

    def _other_script(self, job: Job, db: str) -> Path | None:
        """The script that made the job, where that is still there and is not this one."""
        recorded = job.settings.get("script")
        if not (self.script and isinstance(recorded, str) and recorded) or self.renamed:
            return None
        script = Path(os.path.normpath(_folder_of(db) / recorded))
        return script if script.is_file() and not script.samefile(self.script) else None

    def form(self) -> dict[str, Any]:
        """What a new job records."""
        return {"name": self.name}

    def settings(self, job: Job, db: str) -> dict[str, Any]:
        """What a job records when it is taken over. A script is found from the database: both are moved together."""
        script = os.path.relpath(self.script, _folder_of(db)) if self.script else ""
        return {"name": _name_of(job) or self.name, "function": self.function, "script": script}

    def _is_ours(self, job: Job) -> bool:
        return _function_of(job) in (self.function, *self.earlier)


def identity_of_map(call: Any, name: str, renamed_from: str) -> JobIdentity:
    """The job of a `map` or a `stream`."""
    if not (name or renamed_from):
        what = "functools.partial" if isinstance(call, partial) else "lambda"
        if isinstance(call, partial) or getattr(call, "__name__", "") == "<lambda>":
            raise UsageError(f"a {what} has no name to store results under", hint="set one: name='…'")
    function = name_of(call)
    earlier = ("functools.partial",) if isinstance(call, partial) else ()
    return JobIdentity(
        "map",
        name or renamed_from or function,
        function,
        _known(renamed_from, *earlier),
        script=_script_of(call),
        renamed=bool(renamed_from),
        is_agent=bool(_agent_name(_inner(call))),
    )


def identity_of_pool(worker: object, job_id: str, renamed_from: str) -> JobIdentity:
    """The job of a worker pool. Earlier versions recorded a worker's class without its module."""
    kind = type(worker)
    if agent := _agent_name(worker):
        return JobIdentity(
            "pool",
            job_id or renamed_from or agent,
            agent,
            _known(renamed_from),
            "job_id",
            renamed=bool(renamed_from),
            is_agent=True,
        )
    earlier = _known(renamed_from, kind.__qualname__)
    return JobIdentity(
        "pool",
        job_id or kind.__qualname__,
        name_of(kind),
        earlier,
        "job_id",
        script=_script_of(kind),
        renamed=bool(renamed_from),
    )


def _agent_name(call: object) -> str:
    """The name of an `AgentWorker`, with its settings; empty for anything else."""
    name = None if isinstance(call, type) else getattr(call, "headway_name", None)
    return name if isinstance(name, str) else ""


def _known(*names: str) -> tuple[str, ...]:
    return tuple(name for name in names if name)


def _name_of(job: Job) -> str | None:
    """The name as it was given; None for a job that an earlier version made."""
    name = job.settings.get("name") or job.form.get("name")
    return name if isinstance(name, str) else None


def _function_of(job: Job) -> str:
    """The function that a job belongs to."""
    return str(job.settings.get("function") or job.input)


def check_name(name: str | None, argument: str) -> None:
    """That a name can be one; None is no name."""
    if name is None:
        return
    if name.strip() in ("", ".", ".."):
        raise UsageError(f"{argument} is {name!r}", hint="use a name with letters or digits")
    must_be_recordable(name, argument)


def job_name(name: str, kind: str) -> str:
    """The name of the job: the given one, or where that has to be changed, what is left of it and a hash of the whole."""
    if old_job_name(name, kind) == name and not _HASHED.fullmatch(name):
        return name
    return _hashed(name, kind, DIGITS)


def _hashed(name: str, kind: str, digits: int) -> str:
    """What is left of a name after cleaning, and a hash of the whole."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=digits // 2).hexdigest()
    return f"{old_job_name(name, kind)[: LONGEST - digits - 1].rstrip('-')}-{digest}"


def old_job_name(name: str, kind: str) -> str:
    """As versions without hashes made it: different names could become one."""
    return _OTHER.sub("-", name).strip("-")[:LONGEST] or kind


def _folder_of(db: str) -> Path:
    """Where a database is; the working directory for one on a server."""
    return Path.cwd() if "://" in db else Path(os.path.abspath(db)).parent


def _inner(call: Any) -> Any:
    """The function below partials."""
    while isinstance(call, partial):
        call = call.func
    return call


def _script_of(call: Any) -> str:
    """The main script, if the callable is from there."""
    if getattr(_inner(call), "__module__", None) != "__main__":
        return ""
    main = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.abspath(main) if main else ""


def name_of(call: Any) -> str:
    """What a callable is called, for the records."""
    call = _inner(call)
    if agent := _agent_name(call):
        return agent
    name = getattr(call, "__qualname__", None) or type(call).__qualname__
    module = getattr(call, "__module__", None) or ""
    if module == "__main__":
        main = getattr(sys.modules["__main__"], "__file__", None)
        module = Path(main).stem if main else ""
    return f"{module}.{name}".strip(".").replace("<locals>.", "").replace("<lambda>", "lambda")
