"""`headway ui`: the dashboard, a web page that shows all jobs and steers those that run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo, echo_json

if TYPE_CHECKING:
    from socket import socket

    from headway.config import Config
    from headway.dashboard.access.access_secrets import AccessSecrets
    from headway.dashboard.access.address import BindAddress
    from headway.dashboard.records.job_reading import RecordPlace
    from headway.stores.store import Store

PORT: Final = 8484
_PACKAGES: Final = ("starlette", "uvicorn")


@click.command("ui", short_help="Show and steer jobs on a web page.", epilog="Example: headway ui --no-open")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port. 0 chooses a free one.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="The address to listen on. Default: 127.0.0.1; with --public, all addresses.",
)
@click.option(
    "--public",
    is_flag=True,
    help="Allow other machines to open the page. Everyone with its URL sees everything and can steer jobs.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use the token of FILE, so that the URL stays the same. A missing file is made.",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@json_option
@where_options
def command(
    port: int,
    host: str | None,
    public: bool,
    token_file: Path | None,
    no_open: bool,
    as_json: bool,
    config: Path | None,
    db: str | None,
) -> None:
    """Show all jobs of the database on a web page: live while they run, and afterwards; also jobs that other terminals run, and those
    whose process has died. The page can pause, resume, cancel and retry, change limits and budgets, and answer a flow's human steps.

    The URL is printed once. Its token lets a browser in; without it nothing is shown. The page is for this machine only, unless --public
    says otherwise. Ctrl-C ends the page, and no job. With --json, the line that is printed is {"url", "port", "pid"}.
    """  # fmt: skip
    _require_packages()
    from headway.cli.shared import workspace
    from headway.dashboard.access.access_secrets import AccessSecrets, new_token, token_of_file
    from headway.dashboard.access.address import bind_address
    from headway.dashboard.access.browser_page import has_display
    from headway.dashboard.server import listening_socket, port_of

    settings = workspace.settings(config, db)
    place = _place(settings)
    wanted = bind_address(host, port, public=public)
    token = new_token() if token_file is None else token_of_file(token_file)
    listener = listening_socket(wanted)
    try:
        address = bind_address(host, port_of(listener), public=public)
        secrets = AccessSecrets(token, address.port)
        opens = not no_open and has_display()
        say = _PageAnnouncer(secrets.url(address.url), address, as_json=as_json, opens=opens)
        _serve(place, listener, say, secrets)
    finally:
        listener.close()


def _require_packages() -> None:
    """The packages of the extra, or one line that says how to install them."""
    from importlib.util import find_spec

    from headway.errors import UsageError
    from headway.install_hint import install_command

    if any(find_spec(name) is None for name in _PACKAGES):
        raise UsageError("the dashboard needs starlette and uvicorn", hint=install_command("ui"))


def _place(settings: Config) -> RecordPlace:
    from headway.cli.shared.resume_hint import next_step, place_flags
    from headway.dashboard.records.job_reading import RecordPlace
    from headway.dashboard.records.search_indexes import SearchIndexes
    from headway.dashboard.records.slow_values import SlowValues
    from headway.wiring.store_access import job_places, open_store_read_only

    return RecordPlace(
        settings,
        job_places(settings),
        tuple(place_flags(settings)),
        lambda store, job, state: next_step(settings, store, job, state),
        SlowValues(lambda: open_store_read_only(settings)),
        SearchIndexes(lambda: open_store_read_only(settings), job_places(settings)),
    )


def _serve(place: RecordPlace, listener: socket, say: _PageAnnouncer, secrets: AccessSecrets) -> None:
    from headway.dashboard.application import Dashboard
    from headway.dashboard.records.record_reader import RecordReader
    from headway.dashboard.server import serve
    from headway.metrics.store_metrics import StoreMetrics
    from headway.wiring.store_access import open_store_read_only

    def open_store() -> Store:
        return open_store_read_only(place.config)

    reader, metrics = RecordReader(open_store), StoreMetrics(open_store, place.jobs)
    serve(Dashboard(place, reader, metrics, say.address, secrets), listener, say.started)


class _PageAnnouncer:
    """Says once where the page is, as text or JSON, and opens a browser."""

    def __init__(self, url: str, address: BindAddress, *, as_json: bool, opens: bool) -> None:
        self._url, self.address, self._as_json, self._opens = url, address, as_json, opens

    def started(self) -> Callable[[], None]:
        """Requests are answered. Returns what is to be done at the end."""
        if self._as_json:
            echo_json({"url": self._url, "port": self.address.port, "pid": os.getpid()})
        else:
            self._say_where()
        sys.stdout.flush()
        if not self._opens:
            return lambda: None
        from headway.dashboard.access.browser_page import open_browser

        return open_browser(self._url)

    def _say_where(self) -> None:
        port = self.address.port
        echo(f"the dashboard: {self._url}")
        if self.address.is_public:
            echo(
                f"  other machines reach it at port {port} of this one, with the same token; it is not encrypted"
            )
        else:
            echo(f"  from another machine: ssh -L {port}:127.0.0.1:{port} {os.uname().nodename}")
        echo("  Ctrl-C ends the page; jobs go on")
