"""`headway ui`: the dashboard, a web page that shows all jobs and steers those that run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headway.cli.shared.click_options import where_options
from headway.display.terminal import echo

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
    help="Allow other machines to open the page. Whoever has its URL sees everything and can steer jobs.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use the token of FILE, so that the URL stays the same. A missing file is made.",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@where_options
def command(
    port: int,
    host: str | None,
    public: bool,
    token_file: Path | None,
    no_open: bool,
    config: Path | None,
    db: str | None,
) -> None:
    """Show all jobs of the database on a web page: live while they run, and afterwards; also jobs that other terminals run, and those
    whose process has died. The page can pause, resume, cancel and retry, change limits and budgets, and answer a flow's human steps.

    The URL is printed once. Its token lets a browser in; without it nothing is shown. The page is for this machine only, unless --public
    says otherwise. Ctrl-C ends the page, and no job.
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
        _serve(settings, place, listener, address, secrets, opens=opens)
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
    from headway.wiring.store_access import jobs_folder, open_store_read_only

    return RecordPlace(
        settings,
        jobs_folder(settings),
        tuple(place_flags(settings)),
        lambda store, job, state: next_step(settings, store, job, state),
        SlowValues(lambda: open_store_read_only(settings)),
        SearchIndexes(lambda: open_store_read_only(settings), jobs_folder(settings)),
    )


def _serve(
    settings: Config,
    place: RecordPlace,
    listener: socket,
    address: BindAddress,
    secrets: AccessSecrets,
    *,
    opens: bool,
) -> None:
    from headway.dashboard.access.browser_page import open_browser
    from headway.dashboard.application import Dashboard
    from headway.dashboard.records.record_reader import RecordReader
    from headway.dashboard.server import serve
    from headway.metrics.store_metrics import StoreMetrics
    from headway.wiring.store_access import open_store_read_only

    def open_store() -> Store:
        return open_store_read_only(settings)

    reader, metrics = RecordReader(open_store), StoreMetrics(open_store, place.jobs_folder)
    url = secrets.url(address.url)

    def announce() -> Callable[[], None]:
        _say_where(url, address)
        return open_browser(url) if opens else lambda: None

    serve(Dashboard(place, reader, metrics, address, secrets), listener, announce)


def _say_where(url: str, address: BindAddress) -> None:
    echo(f"the dashboard: {url}")
    if address.is_public:
        echo(
            f"  other machines reach it at port {address.port} of this one, with the same token; it is not encrypted"
        )
    else:
        echo(f"  from another machine: ssh -L {address.port}:127.0.0.1:{address.port} {os.uname().nodename}")
    echo("  Ctrl-C ends the page; jobs go on")
    sys.stdout.flush()
