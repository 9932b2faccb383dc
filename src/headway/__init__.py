"""Headway runs LLM and agent work at the edge of every provider's rate limit, and never loses a unit.

This file owns the public names. Importing it must stay cheap: it imports no third-party package and reads no file.
A name is loaded when it is first used. The build reads the version from here.
"""

TYPE_CHECKING = False  # As in `typing`, which takes 4 ms to import.

if TYPE_CHECKING:
    from headway.api.agents.agent_result import AgentError
    from headway.api.agents.agent_worker import AgentWorker
    from headway.api.asking.ask import aask, ask
    from headway.api.asking.frame import frame
    from headway.api.flow_runs import Flow
    from headway.api.mapping.map_stream import Stream, amap, map, stream  # noqa: A004 - the public name is headway.map
    from headway.api.pool.run_pool import PoolResult, run_pool
    from headway.api.pool.work_units import WorkerResult, WorkUnit
    from headway.api.pool.worker_pool import WorkerPool
    from headway.api.results import CallsFailed, Result
    from headway.config.call_settings import Limits, Retry
    from headway.errors import HeadwayError, UnitError
    from headway.providers.call_reports import RateLimited, usage
    from headway.sdk.clients import httpx_client, httpx_transport
    from headway.sdk.permits import Lane, Permit

__version__ = "0.1.0"

__all__ = [
    "AgentError",
    "AgentWorker",
    "CallsFailed",
    "Flow",
    "HeadwayError",
    "Lane",
    "Limits",
    "Permit",
    "PoolResult",
    "RateLimited",
    "Result",
    "Retry",
    "Stream",
    "UnitError",
    "WorkUnit",
    "WorkerPool",
    "WorkerResult",
    "__version__",
    "aask",
    "amap",
    "ask",
    "frame",
    "httpx_client",
    "httpx_transport",
    "map",
    "run_pool",
    "stream",
    "usage",
]

_HOMES = {
    "AgentError": "api.agents.agent_result",
    "AgentWorker": "api.agents.agent_worker",
    "CallsFailed": "api.results",
    "Flow": "api.flow_runs",
    "HeadwayError": "errors",
    "Lane": "sdk.permits",
    "Limits": "config.call_settings",
    "Permit": "sdk.permits",
    "PoolResult": "api.pool.run_pool",
    "RateLimited": "providers.call_reports",
    "Result": "api.results",
    "Retry": "config.call_settings",
    "Stream": "api.mapping.map_stream",
    "UnitError": "errors",
    "WorkUnit": "api.pool.work_units",
    "WorkerPool": "api.pool.worker_pool",
    "WorkerResult": "api.pool.work_units",
    "aask": "api.asking.ask",
    "amap": "api.mapping.map_stream",
    "ask": "api.asking.ask",
    "frame": "api.asking.frame",
    "httpx_client": "sdk.clients",
    "httpx_transport": "sdk.clients",
    "map": "api.mapping.map_stream",
    "run_pool": "api.pool.run_pool",
    "stream": "api.mapping.map_stream",
    "usage": "providers.call_reports",
}


def __getattr__(name: str) -> object:
    if name == "eval":  # Not in `__all__`: an import of everything must not replace Python's own function.
        return _loaded("headway.eval")
    if name not in _HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    value: object = getattr(_loaded(f"headway.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _loaded(module: str) -> object:
    """Import a module with SIGINT blocked: msgspec 0.22 does not survive a Ctrl-C while it inspects a type."""
    import signal
    from importlib import import_module

    mask = getattr(signal, "pthread_sigmask", None)
    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask is not None else None
    try:
        return import_module(module)
    finally:
        if mask is not None:
            mask(signal.SIG_SETMASK, before)


def __dir__() -> list[str]:
    return __all__
