"""Which jobs an engine can run: whether a job needs more than the database and a network, and whether the settings here have what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headway.config import Config, kind_of, with_overrides
from headway.errors import HeadwayError, JobBusy, StoreAway, UsageError
from headway.jobs.base import JobKind
from headway.jobs.kinds import run_kind_of
from headway.stores.job_lock import is_folder_name
from headway.stores.records import Job
from headway.stores.store import Store
from headway.stores.submissions import may_take
from headway.wiring.run_plan import check_route

#: The kinds of job that need nothing but their records.
_BY_RECORDS = ("batch", "flow")
#: How the providers of a flow's tools begin.
_TOOL = "tool:"
#: Which providers are reached over the network.
_REMOTE_ALSO = ("bedrock",)


def must_be_for_engines(kind: JobKind, path: str) -> None:
    """Raise if a file makes a job that only the machine with its files can run."""
    if kind.name not in _BY_RECORDS:
        raise UsageError(
            f"{path} is a {kind.name}: its steps may use files and programs of this machine",
            hint=f"run it here: headway run {path}",
        )


def route_check(config: Config, path: str) -> Callable[[str, str], None]:
    """The check of every provider before a job is made for other machines. Its key is not needed here."""

    def check(provider: str, model: str) -> None:
        if needs_machine(config, provider):
            what = "its tools are" if provider.startswith(_TOOL) else f"provider '{provider}' is for"
            raise UsageError(
                f"{what} programs and files of this machine, which an engine elsewhere has not",
                hint=f"run it here: headway run {path}",
            )

    return check


def must_suit(config: Config, store: Store, job: Job) -> None:
    """Raise if a unit of a job, one that it may get later included, needs programs and files of this machine."""
    config = run_kind_of(job).with_providers(config, job)
    check = route_check(config, job.input)
    for route in store.routes(job.id):
        if route.provider in config.providers:
            check(route.provider, route.model)


def needs_machine(config: Config, provider: str) -> bool:
    """Whether a provider works with programs and files of its machine."""
    kind = kind_of(config.providers[provider])
    return not kind.is_server and kind.name not in _REMOTE_ALSO


def must_still_be_served(
    config: Config, store: Store, job: Job, name: str, environ: Mapping[str, str]
) -> None:
    """Raise if an engine may no longer run the job that it chose. Its process has the lease now: what a user decides from here on reaches it."""
    wanted = store.submissions.open().get(job.id)
    if job.name != name or wanted is None or not may_take(job, wanted=wanted):
        raise JobBusy(f"job '{name}' no longer waits for an engine: it is {job.state}")
    if reason := why_not_here(config, store, job, environ):
        raise UsageError(reason)


def why_not_here(config: Config, store: Store, job: Job, environ: Mapping[str, str]) -> str:
    """Why a job cannot run with the settings and keys of this engine; "": it can."""
    if not is_folder_name(job.name):
        return "its name is not one that Headway gives"
    if job.kind not in _BY_RECORDS:
        return f"a {job.kind} needs the machine with its files"
    cap = job.settings.get("run", {}).get("max_cost_usd", 0.0)
    if cap and not config.run.max_cost_usd:
        config = with_overrides(config, max_cost=cap)  # Needs prices.
    try:
        own, config = config, run_kind_of(job).with_providers(config, job)
        if brought := sorted(
            name for name in config.providers.keys() - own.providers.keys() if needs_machine(config, name)
        ):
            return f"its step '{brought[0]}' is for programs and files of one machine"
        check = check_route(config, environ)
        for route in store.routes(job.id):
            if route.provider not in config.providers:
                return (
                    f"headway.toml has no provider '{route.provider}' here — add [providers.{route.provider}]"
                )
            if needs_machine(config, route.provider):
                return f"provider '{route.provider}' is for programs and files of one machine"
            check(route.provider, route.model)
    except StoreAway:
        raise
    except HeadwayError as error:
        return str(error)
    return ""
