"""Where the units of agents and programs work: a worktree for each, or one directory, which writers do not share.

Options that one run sets hold for every later run of the job.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.config import Config, ProviderConfig, kind_of
from headway.config.kinds.programs import AGENT_NAMES, bypasses_permissions, command_of, only_reads
from headway.errors import UsageError
from headway.providers.adapter import Adapter
from headway.providers.scrubber import Scrubber
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.store_access import headway_folder, hide_from_git, job_folder, open_store_read_only

if TYPE_CHECKING:
    from headway.executors.worktrees.unit_worktrees import UnitWorktrees

#: The name of the options in a job's settings.
SETTING: Final = "agents"
_PAGE: Final = 1_000
#: In the body of every row with settings of its own.
_KEY: Final = b'"agent"'


class AgentOptions(msgspec.Struct, frozen=True):
    """`--worktree`, `--shared-directory` and `--collect`."""

    worktree: bool = False
    shared_directory: bool = False
    collect: tuple[str, ...] = ()

    def joined(self, job: Job) -> AgentOptions:
        """With what earlier runs of the job have set."""
        before = msgspec.convert(job.settings.get(SETTING, {}), AgentOptions)
        return AgentOptions(
            self.worktree or before.worktree,
            self.shared_directory or before.shared_directory,
            self.collect or before.collect,
        )


class AgentWork:
    """The working directories of one run."""

    def __init__(self, config: Config, job: Job, options: AgentOptions) -> None:
        self._config, self._job, self.options = config, job, options.joined(job)

    def check(self, providers: Iterable[ProviderConfig]) -> list[str]:
        """Raise if the options do not fit the providers of the job; returns remarks for the user."""
        programs = [provider for provider in providers if is_program(provider)]
        if not programs and (self.options.worktree or self.options.collect):
            flag = "--worktree" if self.options.worktree else "--collect"
            raise UsageError(f"{flag} is for agents and programs, and this job has none", hint="leave it out")
        away = [one for one in programs if command_of(one).executor == "ray" and self._config.ray.travel]
        if away and (self.options.worktree or self.options.collect):
            flag = "--worktree" if self.options.worktree else "--collect"
            raise UsageError(
                f"{flag}: the programs of {away[0].name} work on other machines",
                hint="set [ray] travel = false if all nodes see this folder, or leave it out",
            )
        unasked = [
            f"{provider.name} bypasses permissions: its agents run every command without being asked"
            for provider in programs
            if bypasses_permissions(command_of(provider).permission_mode, command_of(provider).args)
        ]
        return [*unasked, *(self._check_repositories(programs) if self.options.worktree else ())]

    def _check_repositories(self, programs: list[ProviderConfig]) -> list[str]:
        from headway.executors.worktrees.git_command import GitError
        from headway.executors.worktrees.repository import has_changes, repository_of

        worktrees = self.worktrees()
        hide_from_git(self._config)
        remarks: dict[str, str] = {}
        for provider in programs:
            directory = self.directory_of(provider, {})
            try:
                repository = repository_of(directory)
                worktrees.check_names(repository)
                start = worktrees.start_commit(repository)
                if has_changes(repository):
                    remarks[repository.top] = (
                        f"{repository.top} has changes that are not committed: the worktrees start from commit "
                        f"{start[:10]}, without them"
                    )
            except GitError as error:
                raise UsageError(
                    f"--worktree: {directory}: {error}",
                    hint="name a directory of a git repository with a commit (directory = …), or leave --worktree out",
                ) from None
        return list(remarks.values())

    def around(self, adapter: Adapter, provider: ProviderConfig, secrets: Iterable[str]) -> Adapter:
        """The adapter of a program, with a directory for each unit; other adapters stay as they are."""
        if not is_program(provider) or not (self.options.worktree or self.options.collect):
            return adapter
        from headway.executors.commands.command_adapter import CommandAdapter
        from headway.executors.worktrees.git_command import LOCAL_VARIABLES
        from headway.executors.worktrees.safe_names import safe_name
        from headway.executors.worktrees.unit_directory import DirectorySettings, UnitDirectoryAdapter

        if self.options.worktree and isinstance(adapter, CommandAdapter):
            adapter.withhold(LOCAL_VARIABLES)
        files = collected_files(self._config, self._job.name)
        settings = DirectorySettings(
            directory_of=lambda row: self.directory_of(provider, row),
            unit_of=self._unit_name,
            worktrees=self.worktrees() if self.options.worktree else None,
            collect=self.options.collect,
            files=lambda unit: files / safe_name(unit),
        )
        return UnitDirectoryAdapter(adapter, settings, Scrubber(secrets))

    def exclusive(
        self, store: Store, providers: Mapping[int, ProviderConfig]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The groups of units that run one at a time, by route, and by index where a row has settings of its own.

        Agents that may write to one directory do, also if one directory is inside of the other. Programs of `kind = "command"` do not:
        most are filters. `providers` are those of the routes.
        """
        agents = {route: one for route, one in providers.items() if one.kind in AGENT_NAMES}
        if not agents or self.options.worktree or self.options.shared_directory:
            return {}, {}
        usual = {route: self._writes_to(provider, {}) for route, provider in agents.items()}
        own = dict(self._own_directories(store, agents))
        groups = _groups({*usual.values(), *own.values()} - {""})
        return (
            {route: groups[directory] for route, directory in usual.items() if directory},
            {index: groups.get(directory, 0) for index, directory in own.items()},
        )

    def _own_directories(
        self, store: Store, agents: Mapping[int, ProviderConfig]
    ) -> Iterator[tuple[int, str]]:
        """The directories of units whose rows have settings of their own."""
        by_name = {provider.name: provider for provider in agents.values()}
        total = self._job.total
        for first in range(0, total, _PAGE):
            indexes = list(range(first, min(first + _PAGE, total)))
            rows = [(index, body) for index, _, body in store.requests(self._job.id, indexes) if _KEY in body]
            for index, body in rows:
                row = msgspec.json.decode(body)
                provider = by_name.get(store.results(self._job.id, index - 1, 1)[0].provider)
                if provider is not None and isinstance(row, dict):
                    yield index, self._writes_to(provider, row)

    def _writes_to(self, provider: ProviderConfig, row: Mapping[str, Any]) -> str:
        return writes_to(self._config.root, provider, row)

    def worktrees(self) -> UnitWorktrees:
        """The worktrees of the job."""
        return worktrees_of(self._config, self._job.name)

    def directory_of(self, provider: ProviderConfig, row: Mapping[str, Any]) -> str:
        """The directory of a row, before any worktree is made."""
        return _directory_of(self._config.root, provider, row)

    def _unit_name(self, index: int) -> str:
        with open_store_read_only(self._config) as store:
            return store.custom_id(self._job.id, index)


def writes_to(root: Path, provider: ProviderConfig, row: Mapping[str, Any]) -> str:
    """The real path of the directory that an agent may write to for a row; "" if it only reads."""
    settings = command_of(provider)
    own = row.get("agent")
    own = own if isinstance(own, dict) else {}
    mode, args = own.get("permission_mode", settings.permission_mode), own.get("args", settings.args)
    if isinstance(mode, str) and isinstance(args, list | tuple) and only_reads(mode, list(map(str, args))):
        return ""
    return os.path.realpath(_directory_of(root, provider, row))


def _directory_of(root: Path, provider: ProviderConfig, row: Mapping[str, Any]) -> str:
    own = row.get("agent")
    named = own.get("directory") if isinstance(own, dict) else None
    directory = named if isinstance(named, str) else command_of(provider).directory
    return os.path.join(str(root), os.path.expanduser(directory))


def _groups(directories: Iterable[str]) -> dict[str, int]:
    """A number for each directory; directories below another one have the number of that."""
    groups: dict[str, int] = {}
    tops: list[str] = []
    for directory in sorted(directories):
        top = next((top for top in tops if os.path.commonpath((top, directory)) == top), None)
        if top is None:
            tops.append(directory)
            groups[directory] = len(tops)
        else:
            groups[directory] = groups[top]
    return groups


def is_program(provider: ProviderConfig) -> bool:
    """Whether a provider is a program or an agent CLI."""
    return kind_of(provider).builder == "command"


def collected_files(config: Config, job: str) -> Path:
    """The folder of files that units of a job have left (`--collect`)."""
    return job_folder(config, job) / "files"


def kept_count(config: Config, job: str) -> int:
    """How many worktrees of a job there are, as far as they were made completely."""
    return sum(1 for record in worktrees_of(config, job).all() if record.is_ready)


def worktrees_of(config: Config, job: str) -> UnitWorktrees:
    """The worktrees of a job."""
    from headway.executors.worktrees.unit_worktrees import UnitWorktrees

    records = job_folder(config, job) / "worktrees"
    return UnitWorktrees(headway_folder(config) / "worktrees", records, job)
