"""What watches a run from outside: metrics for Prometheus, notifications, traces. Each is off unless a flag or the file switches it on,
and none can disturb the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headway import __version__
from headway.config import Config, dotenv_of, host_of, keys_of, kind_of
from headway.config.kinds.programs import AGENT_NAMES
from headway.engine.observer import Observer
from headway.errors import HeadwayError
from headway.providers.scrubber import Scrubber, secrets_in_environment
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.run_plan import RunFlags, TraceFactory, provider_of

if TYPE_CHECKING:
    from headway.notifications.delivery import Deliveries
    from headway.notifications.message import Notification
    from headway.notifications.watcher import NotificationWatcher
    from headway.tracing.exporting import Exporting
    from headway.tracing.route_facts import RouteFacts
    from headway.tracing.unit_spans import UnitSpans


class RunWatch:
    """The observers of a run, and what is told when it ends."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.trace: TraceFactory | None = None
        self.spans: UnitSpans | None = None
        self.notified: NotificationWatcher | None = None
        self.deliveries: list[Deliveries] = []
        self._state = "failed"
        #: Lines of threads, printed when the run has ended.
        self.warnings: list[str] = []

    def tell(self, notification: Notification) -> None:
        """Deliver a notification to every target, soon."""
        for one in self.deliveries:
            one.send(notification)

    def ended(self, job: str, state: str, exit_code: int, error: str = "") -> None:
        """The run has ended. `error`: what ended it early."""
        self._state = state
        if self.notified is not None:
            from headway.notifications.watcher import end_of

            self.tell(end_of(job, state, exit_code, self.notified.totals, error))

    def close_spans(self, exporting: Exporting) -> None:
        """End the spans, and send them."""
        if self.spans is not None:
            self.spans.finish(self._state)
            if self.spans.trouble:
                self.warnings.append(f"warning: OpenTelemetry: {self.spans.trouble}")
        exporting.close()

    def say_warnings(self, warn: Callable[[str], None]) -> None:
        """Print what went wrong with watching."""
        for line in dict.fromkeys(self.warnings):
            warn(line)


@contextmanager
def watched(
    config: Config, job: Job, flags: RunFlags, show: Callable[[str], None], warn: Callable[[str], None]
) -> Iterator[RunWatch]:
    """Start what watches a run, and end it. An error of a setting is raised before anything is sent. `show` prints a line at the beginning,
    `warn` one at the end.
    """
    watch = RunWatch()
    with ExitStack() as stack:
        stack.callback(watch.say_warnings, warn)
        _start_notifications(config, job, flags, watch, stack)
        if config.otel.enabled if flags.watch.otel is None else flags.watch.otel:
            _start_traces(config, job, watch, stack)
        if flags.watch.metrics is not None:
            _start_metrics(flags, watch, stack, show)
        try:
            yield watch
        except BaseException as error:
            code = error.exit_code if isinstance(error, HeadwayError) else 1
            message = error.message if isinstance(error, HeadwayError) else type(error).__name__
            watch.ended(job.name, "failed", code, message)
            raise


def _start_metrics(flags: RunFlags, watch: RunWatch, stack: ExitStack, show: Callable[[str], None]) -> None:
    from headway.metrics.http_server import MetricsServer
    from headway.metrics.run_metrics import RunMetrics

    assert flags.watch.metrics is not None
    metrics = RunMetrics()
    watch.observers.append(metrics)
    stack.enter_context(MetricsServer(flags.watch.metrics, metrics.exposition))
    show(f"metrics: {flags.watch.metrics.url}")


def _start_notifications(
    config: Config, job: Job, flags: RunFlags, watch: RunWatch, stack: ExitStack
) -> None:
    texts = flags.watch.notify or config.notify.targets
    if not texts:
        return
    from headway.notifications.delivery import Deliveries
    from headway.notifications.targets import parse_target
    from headway.notifications.watcher import NotificationWatcher

    place = "--notify" if flags.watch.notify else f"{config.path}: run.notify"
    variables = {**dotenv_of(config), **os.environ}
    targets = [parse_target(text, variables, place) for text in texts]
    keys = {provider.api_key_env for provider in config.providers.values()}
    environ = {name: value for name, value in os.environ.items() if name not in keys}
    for target in targets:
        deliveries = Deliveries(target, environ, watch.warnings.append)
        stack.callback(deliveries.close)
        watch.deliveries.append(deliveries)
    hold_s = config.notify.hold_s if flags.watch.notify_hold_s is None else flags.watch.notify_hold_s
    watch.notified = NotificationWatcher(watch.tell, hold_s)
    watch.observers.append(watch.notified)


def _start_traces(config: Config, job: Job, watch: RunWatch, stack: ExitStack) -> None:
    from headway.tracing.exporting import Exporting

    resource = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or "headway",
        "service.version": __version__,
    }
    exporting = Exporting(resource, watch.warnings.append)
    stack.callback(watch.close_spans, exporting)

    def trace(config: Config, store: Store, job: Job) -> UnitSpans:
        watch.spans = _unit_spans(config, store, job, exporting)
        watch.spans.begin(exporting.parent())
        return watch.spans

    watch.trace = trace


def _unit_spans(config: Config, store: Store, job: Job, exporting: Exporting) -> UnitSpans:
    """What follows the attempts of a job. `config` has all of its providers."""
    from headway.tracing.genai_metrics import GenAiMetrics
    from headway.tracing.genai_names import versions
    from headway.tracing.unit_spans import TraceOptions, UnitSpans

    chosen = versions(os.environ)
    dotenv = dotenv_of(config)
    scrub = Scrubber(secrets_in_environment({**dotenv, **os.environ}, keys_of(config, os.environ, dotenv)))
    options = TraceOptions(config.otel.content, config.otel.propagate, chosen)
    routes = {
        route.id: _route_facts(config, job, route.provider, route.model) for route in store.routes(job.id)
    }
    metrics = GenAiMetrics(exporting.meter, chosen)
    return UnitSpans(exporting.tracer, metrics, job.name, routes, options, scrub.text)


def _route_facts(config: Config, job: Job, name: str, model: str) -> RouteFacts:
    from headway.tracing.route_facts import RouteFacts

    provider = provider_of(config, job, name)
    is_remote = kind_of(provider).is_server
    address = urlsplit(provider.base_url or f"https://{host_of(provider)}") if is_remote else urlsplit("")
    return RouteFacts(
        lane=f"{provider.name}/{provider.pool or model}",
        kind=provider.kind,
        profile=provider.profile or "",
        model=model,
        host=address.hostname or "",
        port=(address.port or (80 if address.scheme == "http" else 443)) if is_remote else 0,
        is_agent=provider.kind in AGENT_NAMES,
        is_remote=is_remote,
    )
