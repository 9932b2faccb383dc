"""`headway top`: all running jobs of the database, on a screen of its own, in a pipe or as JSON. It reads the records and what runs
write; only the key `p` gives a command to a job.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headway.cli.shared.click_options import json_option, where_options

if TYPE_CHECKING:
    from headway.config import Config
    from headway.display.lanes.limit_use import LimitUseHistory
    from headway.display.top.full_screen import FullScreen
    from headway.display.top.top_page import TopChoice, TopData
    from headway.reports.watching.job_watch import JobSight
    from headway.stores.store import Store

#: Seconds between two looks, and between two looks at the size of the terminal. Runs write their progress twice a second.
LOOK_S: Final = 0.5
KEY_S: Final = 0.1
#: Seconds between two texts in a pipe, and the width of its lines.
PIPE_S: Final = 10.0
PIPE_WIDTH: Final = 140
#: The version of the format of `--json`.
VERSION: Final = 1


@click.command("top", short_help="Watch all running jobs, lane by lane.", epilog="Example: headway top")
@click.option("--once", is_flag=True, help="Print the present state once, without a screen of its own.")
@json_option
@where_options
def command(once: bool, as_json: bool, config: Path | None, db: str | None) -> int:
    """Watch all running jobs of the database, twice a second: a row for each job with what is in flight, what is left, its rate, 429s,
    progress, time left and cost, and below it a row for each lane, with how near to its limit it was in the last minute and what
    it waits for. Jobs appear when they begin, and leave shortly after their end. A job whose process was killed stays, with the command
    that goes on with it.

    Keys: q quits; ↑ and ↓ (or k and j) choose a job; Enter shows all of its lanes, or none; p asks whether to pause or resume it.

    In a pipe, all jobs and lanes are printed every 10 s. With --json, the present state is printed once as one object.
    """
    from headway.cli.shared import workspace

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        watcher = _TopWatcher(settings, store)
        if as_json:
            _print_json(watcher)
            return 0
        if once or not sys.stdout.isatty():
            return _print(watcher, once=once)
        return _watch(watcher)


class _TopWatcher:
    """The jobs, with what the page needs beside them."""

    def __init__(self, config: Config, store: Store) -> None:
        from headway.cli.shared.resume_hint import place_flags
        from headway.reports.watching.job_watch import JobWatch
        from headway.wiring.store_access import job_places

        self.config, self.store = config, store
        self._watch = JobWatch(store, job_places(config))
        self._histories: dict[str, LimitUseHistory] = {}
        self._resume: dict[tuple[int, float], str] = {}
        self._flags = shlex.join(place_flags(config))

    def look(self) -> TopData:
        """The present state of all jobs that are shown."""
        from headway.display.lanes.limit_use import LimitUseHistory
        from headway.display.top.top_page import TopData

        now_utc = time.time()
        sights = self._watch.look(now_utc)
        names = {sight.job.name for sight in sights}
        self._histories = {name: history for name, history in self._histories.items() if name in names}
        for sight in sights:
            if sight.live and (view := sight.view) is not None:
                self._histories.setdefault(sight.job.name, LimitUseHistory()).note(view)
        resume = {sight.job.name: self._command(sight) for sight in sights if sight.state == "interrupted"}
        return TopData(sights, resume, self._histories, now_utc, self._flags)

    def _command(self, sight: JobSight) -> str:
        """The command that goes on with an interrupted job. It is made once: it may have to look at prices."""
        from headway.cli.shared.resume_hint import resume_command

        key = (sight.job.id, sight.began_utc)
        if key not in self._resume:
            self._resume[key] = resume_command(self.config, self.store, sight.job, "interrupted")
        return self._resume[key]


def _print_json(watcher: _TopWatcher) -> None:
    from headway.cli.shared import printing
    from headway.display.report_json import fields_json
    from headway.reports.watching.job_watch import sight_fields

    data = watcher.look()
    jobs = [fields_json(sight_fields(one, data.resume.get(one.job.name, ""))) for one in data.sights]
    printing.print_json(printing.flat({"version": VERSION, "at_utc": data.utc, "jobs": jobs}))


def _print(watcher: _TopWatcher, *, once: bool) -> int:
    """Print the state, and without `once` again and again."""
    from headway.cli import INTERRUPTED
    from headway.display.terminal import echo
    from headway.display.top.top_page import plain_lines

    width = PIPE_WIDTH
    if sys.stdout.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
    try:
        while True:
            for line in plain_lines(watcher.look(), width):
                echo(line)
            sys.stdout.flush()
            if once:
                return 0
            time.sleep(PIPE_S)
    except KeyboardInterrupt:
        return INTERRUPTED


def _watch(watcher: _TopWatcher) -> int:
    """The screen, until a key or a signal ends it."""
    from rich.console import Console

    from headway.cli import INTERRUPTED
    from headway.display.top.full_screen import FullScreen

    keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    try:
        with FullScreen(Console(), keys) as screen:
            _TopSession(watcher, screen).run()
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


class _TopSession:
    """A user in front of the screen."""

    def __init__(self, watcher: _TopWatcher, screen: FullScreen) -> None:
        from headway.display.top.top_page import TopChoice

        self._watcher, self._screen = watcher, screen
        self._choice: TopChoice = TopChoice()
        self._data: TopData = watcher.look()
        #: What `y` does.
        self._confirmed: Callable[[], str] | None = None

    def run(self) -> None:
        """Until `q`."""
        looked_at, size = time.monotonic(), self._draw()
        while True:
            keys = self._screen.keys(KEY_S)
            if "quit" in keys:
                return
            for key in keys:
                self._press(key)
            is_time = time.monotonic() - looked_at >= LOOK_S
            if is_time:
                looked_at, self._data = time.monotonic(), self._watcher.look()
            if is_time or keys or size != self._screen.size:
                size = self._draw()

    def _draw(self) -> tuple[int, int]:
        from headway.display.top.top_page import page_lines

        if not any(sight.job.name == self._choice.job for sight in self._data.sights):
            self._choice.move(self._data.sights, 0)
        size = self._screen.size
        self._screen.draw(page_lines(self._data, self._choice, *size, blocks=self._screen.has_blocks))
        return size

    def _press(self, key: str) -> None:
        from headway.display.top.top_page import shows_all_lanes

        choice, confirmed, self._confirmed = self._choice, self._confirmed, None
        choice.note = ""
        if confirmed is not None:
            choice.note = confirmed() if key == "yes" else ""
        elif key in ("up", "down"):
            choice.move(self._data.sights, 1 if key == "down" else -1)
        elif key == "enter":
            choice.opened[choice.job] = not shows_all_lanes(self._data, choice, self._screen.size[1])
        elif key == "pause":
            self._ask_to_pause()

    def _ask_to_pause(self) -> None:
        """Ask whether the chosen job is to be paused, or to go on."""
        sight = next((one for one in self._data.sights if one.job.name == self._choice.job), None)
        if sight is None:
            return
        name = sight.job.name
        if not sight.live:
            command = self._data.resume.get(name, f"headway resume {name}")
            self._choice.note = f"no process runs {name}; to go on: {command}"
            return
        what = "resume" if sight.state == "paused" else "pause"
        effect = "" if what == "resume" else " (units in flight finish, no more start)"
        self._choice.note = f"{what} {name}{effect}? y: yes, any other key: no"
        self._confirmed = lambda: self._give(sight, what)

    def _give(self, sight: JobSight, what: str) -> str:
        """Give a command to a job. Its next state shows what it did."""
        from headway.errors import HeadwayError
        from headway.jobs.kinds import must_take_commands
        from headway.wiring.store_access import open_store

        try:
            must_take_commands(sight.job)
            with open_store(self._watcher.config) as store:
                store.add_command(sight.job.id, what, {}, time.time())
        except HeadwayError as error:
            return str(error)
        return f"asked job {sight.job.name} to {what}"
