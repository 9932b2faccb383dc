"""What it costs a run to be watched: its CPU per unit alone, with a scrape each second, and with the dashboard open beside that."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.cookiejar import CookieJar
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import msgspec

from bench.overhead import FEW, LONGEST_S, RUN, prepare, sound, start, unlimited_fake
from headway.cli import COMMANDS
from headway.fake.process import FakeProcess

UNITS: Final = 20_000
TURNS: Final = 5
SCRAPE_S: Final = 1.0
#: The growth of the CPU of a unit, with a scrape each second and an EventSource client.
GROWTH_BAR: Final = 1.03
_URL: Final = re.compile(r"http://\S+/metrics")
_PAGE: Final = re.compile(r"http://\S+token=\S+")


class WatchedCosts(msgspec.Struct):
    """CPU microseconds per unit, of each turn: alone, scraped, and scraped with the dashboard open; and how many scrapes there were."""

    alone: list[float] = []
    scraped: list[float] = []
    #: Empty where this tree has no dashboard.
    shown: list[float] = []
    scrapes: int = 0
    events: int = 0

    def growth(self, watched: list[float]) -> float:
        """The CPU of the watched runs ÷ that of the runs alone: the ratio of the medians."""
        return median(watched) / median(self.alone)


def measure(units: int = UNITS, turns: int = TURNS) -> WatchedCosts:
    """All of them in turns, because the speed of the machine varies."""
    costs = WatchedCosts([], [], [])
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        for turn in range(turns):
            place = Path(name) / str(turn)
            costs.alone.append(_run(fake, place.with_suffix(".alone"), units))
            costs.scraped.append(_run(fake, place.with_suffix(".scraped"), units, costs))
            if "ui" in COMMANDS:
                costs.shown.append(_run(fake, place.with_suffix(".shown"), units, costs, with_page=True))
    return costs


def _run(
    fake: FakeProcess, folder: Path, units: int, costs: WatchedCosts | None = None, *, with_page: bool = False
) -> float:
    """One run, to its end; microseconds of CPU per unit."""
    prepare(folder, fake.url, units, FEW)
    fake.reset()
    metrics = [] if costs is None else ["--metrics", "0"]
    running = start(folder, *RUN, "--log-file", "run.log", *metrics)
    with ExitStack() as stack:
        if costs is not None:
            stack.enter_context(_scraping(folder / "run.log", costs))
        if with_page and costs is not None:
            stack.enter_context(_page_open(folder, costs))
        ended = sound(running.wait(), 0)
    return ended.cpu_s / units * 1e6


@contextmanager
def _scraping(log: Path, costs: WatchedCosts) -> Iterator[None]:
    """Scrape each second, as Prometheus does."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(SCRAPE_S):
            if log.exists() and (found := _URL.search(log.read_text())):
                with suppress(OSError), urlopen(found[0], timeout=10) as answer:
                    answer.read()
                    costs.scrapes += 1

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _page_open(folder: Path, costs: WatchedCosts) -> Iterator[None]:
    """`headway ui`, and an EventSource that reads what the page of the job reads."""
    # The store is there as soon as the run has begun to read its rows.
    while not (folder / ".headway" / "headway.db").exists():
        time.sleep(0.02)
    page = start(folder, "ui", "--port", "0", "--no-open", longest_s=LONGEST_S)
    thread = threading.Thread(target=_read_events, args=(folder, costs), daemon=True)
    thread.start()
    try:
        yield
    finally:
        page.interrupt()
        page.wait()
        thread.join(10.0)


def _printed(folder: Path) -> str:
    """What processes in a folder have printed."""
    return " ".join(file.read_text() for file in sorted(folder.glob(".*-*")))


def _read_events(folder: Path, costs: WatchedCosts) -> None:
    give_up_at = time.monotonic() + LONGEST_S
    while not (found := _PAGE.search(_printed(folder))):
        if time.monotonic() > give_up_at:
            return
        time.sleep(0.05)
    opener = build_opener(HTTPCookieProcessor(CookieJar()))
    root = found[0].partition("/?")[0]
    with suppress(OSError):
        opener.open(found[0], timeout=10).read()  # Its cookie lets the next requests in.
    with suppress(OSError, ValueError):
        jobs = msgspec.json.decode(opener.open(f"{root}/api/jobs", timeout=10).read())["jobs"]
        with opener.open(f"{root}/api/events?job={jobs[0]['job']}", timeout=30) as stream:
            for line in stream:
                costs.events += line.startswith(b"event:")


def lines(costs: WatchedCosts) -> Iterator[str]:
    """The table in bench/RESULTS.md."""
    yield "### What a run pays for being watched"
    yield ""
    yield f"{UNITS:,} small requests without latency, alone and watched, in turns. The bar: CPU per unit ≤ {GROWTH_BAR:g} × that of a run alone."
    yield ""
    yield "| a run | µs CPU per unit | against alone |"
    yield "|---|---|---|"
    yield f"| alone | {median(costs.alone):.0f} | |"
    yield f"| with a scrape each second ({costs.scrapes} in all) | {median(costs.scraped):.0f} | {costs.growth(costs.scraped):.3f} |"
    if costs.shown:
        yield f"| and with the dashboard open ({costs.events} events) | {median(costs.shown):.0f} | {costs.growth(costs.shown):.3f} |"
    yield ""


def misses(costs: WatchedCosts) -> list[str]:
    """The missed bar."""
    growth = costs.growth(costs.shown or costs.scraped)
    if growth <= GROWTH_BAR:
        return []
    return [f"watching: CPU per unit {growth:.3f} × that of a run alone, the bar is {GROWTH_BAR:g}"]
