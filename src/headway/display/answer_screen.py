"""Shows the answers to a question: the text on standard output, everything else on standard error.

A live screen prints the text as it arrives. Several models answer side by side: the first that has text is printed as it
arrives, and the others follow, each under its own heading, as they finish. Without a live screen, whole answers are printed in
the order of the models.

A stream may break off, and an answer may not fit its schema: then another attempt starts from the beginning. What was printed
cannot be taken back, so a line says that the answer starts anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TextIO

from headway.core.reasons import WaitCode
from headway.display.formatting import duration, money, short
from headway.display.plain import noted_line, waiting
from headway.display.terminal import write_line, write_text
from headway.engine.observer import Observer, View
from headway.providers.adapter import OnText
from headway.reports.answers import AnswerReport
from headway.stores.records import Job, JobEvent, UnknownOutcome

#: Events of a run that say nothing to someone who waits for an answer, or that its error repeats.
_UNSAID: Final = frozenset({"cost", "cache", "stopped", "command"})
#: Shorter waits are not named.
_SOON_S: Final = 1.0

#: Reads the report of a unit that has ended from the store.
ReadAnswer = Callable[[int, float | None], AnswerReport]


class _ModelAnswer:
    """The answer of one model so far."""

    def __init__(self) -> None:
        self.attempt = 0
        self.sent_at = 0.0
        self.first_text_s: float | None = None
        #: Text that arrived and is not printed yet.
        self.waiting: list[str] = []
        #: Characters of this attempt that are printed, and whether the last of them ends a line.
        self.printed = 0
        self.at_line_start = True
        self.report: AnswerReport | None = None
        self.is_shown = False


class AnswerScreen(Observer):
    """Observer and listener of the run of a question. `silent`: it prints no answers, for --json and --raw."""

    def __init__(
        self,
        names: Sequence[str],
        out: TextIO,
        err: TextIO,
        read: ReadAnswer,
        *,
        live: bool,
        quiet: bool,
        silent: bool,
    ) -> None:
        self._names, self._out, self._err, self._read = names, out, err, read
        self._live, self._quiet, self._silent = live, quiet, silent
        self._answers = [_ModelAnswer() for _ in names]
        #: The model whose text is printed as it arrives.
        self._streaming: int | None = None
        #: By lane: the wait that was named last.
        self._waits: dict[str, WaitCode | None] = {}
        #: Cancels the run. Set by what runs it.
        self.cancel: Callable[[], None] = lambda: None
        self._has_printed = False
        #: Why standard output cannot be written, other than that its reader has gone, as after `| head`.
        self.write_error: OSError | None = None

    def say(self, text: str) -> None:
        """A line on standard error, unless quiet."""
        if not self._quiet:
            self._end_line()
            write_line(text, self._err)

    def reports(self) -> list[AnswerReport]:
        """How each model answered, in their order. Reads those that the run left unfinished."""
        return [
            answer.report or self._read(index, answer.first_text_s)
            for index, answer in enumerate(self._answers)
        ]

    def close(self) -> None:
        """The run is over: the shell's prompt gets a line of its own."""
        with suppress(OSError):
            self._end_line()

    # -- the run as its observer sees it ------------------------------------------------------------------------

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """Do nothing: a question has no earlier run."""

    def noted(self, event: JobEvent) -> None:
        """What happened to a lane."""
        if event.what not in _UNSAID:
            self.say(noted_line(event))

    def moved(self, view: View) -> None:
        """Name each wait once. Someone waits for the answer, so that also short ones have a name."""
        for lane in view.snapshot.lanes:
            text = waiting(lane, view, least_s=_SOON_S)
            code = lane.wait.code if text and lane.wait is not None else None
            if code not in (None, WaitCode.STOPPED) and self._waits.get(lane.key) != code:
                self.say(text)
            self._waits[lane.key] = code

    def ended(self, indexes: list[int]) -> None:
        """Answers are recorded: print what is not printed yet."""
        for index in indexes:
            answer = self._answers[index]
            answer.report = self._read(index, answer.first_text_s)
        if self._silent:
            return
        try:
            if self._live:
                self._show_live()
            else:
                self._show_in_order()
        except OSError as error:
            self._stop_printing(error)

    # -- attempts ------------------------------------------------------------------------------------------------

    def started(self, index: int, attempt: int) -> OnText:
        """An attempt begins."""
        answer = self._answers[index]
        answer.attempt, answer.sent_at = attempt, time.monotonic()
        answer.first_text_s = None
        return partial(self._text, index, attempt)

    def _text(self, index: int, attempt: int, piece: str) -> None:
        try:
            self._take_text(index, attempt, piece)
        except OSError as error:
            self._stop_printing(error)
            self.cancel()

    def _stop_printing(self, error: OSError) -> None:
        self._live, self._silent, self._quiet = False, True, True
        if not isinstance(error, BrokenPipeError):
            self.write_error = error

    def _take_text(self, index: int, attempt: int, piece: str) -> None:
        answer = self._answers[index]
        if attempt != answer.attempt:
            return
        if answer.first_text_s is None:
            answer.first_text_s = round(time.monotonic() - answer.sent_at, 3)
        if not self._live:
            return
        if self._streaming is None:
            self._streaming = index
            self._heading(index)
        if self._streaming == index:
            self._print(answer, piece)
        else:
            answer.waiting.append(piece)

    def requeued(self, index: int, reason: str, wait_s: float | None) -> None:
        """An attempt gave no answer that can be used: the next one starts anew. None: there is no next one."""
        with suppress(OSError):
            self._say_again(self._answers[index], index, reason, wait_s)

    def _say_again(self, answer: _ModelAnswer, index: int, reason: str, wait_s: float | None) -> None:
        answer.waiting.clear()
        if wait_s is None:  # The end of the command says why its lane stopped.
            if answer.printed:
                self._broken_off(answer, short(reason))
            return
        again = f"trying again in {duration(wait_s)}" if wait_s >= _SOON_S else "trying again"
        if not answer.printed:
            self.say(f"{self._names[index]}: {short(reason)}; {again}")
            return
        self._broken_off(answer, f"{short(reason)}; {again}, the answer starts anew")

    def _broken_off(self, answer: _ModelAnswer, why: str) -> None:
        """Say that what was printed is not the answer. In a pipe, the reader of the answer must see it, too."""
        self._end_line(answer)
        answer.printed = 0
        line = f"[headway: the answer above is not complete: {why}]"
        if self._out.isatty() and self._err.isatty():
            write_line(line, self._err)
        else:
            write_text(f"{line}\n", self._out)
            self.say(line)

    # -- printing ------------------------------------------------------------------------------------------------

    def _show_live(self) -> None:
        while True:
            if self._streaming is not None:
                answer = self._answers[self._streaming]
                if answer.report is None:
                    return
                self._finish(self._streaming, answer)
                self._streaming = None
            if (index := self._next_to_show()) is None:
                return
            answer = self._answers[index]
            self._heading(index)
            if answer.report is None:
                self._streaming = index
                pieces, answer.waiting = answer.waiting, []
                self._print(answer, "".join(pieces))
                return
            self._finish(index, answer)

    def _next_to_show(self) -> int | None:
        """A complete answer, or one whose text arrives."""
        left = [index for index, answer in enumerate(self._answers) if not answer.is_shown]
        done = [index for index in left if self._answers[index].report is not None]
        begun = [index for index in left if self._answers[index].waiting]
        return next(iter((*done, *begun)), None)

    def _show_in_order(self) -> None:
        for index, answer in enumerate(self._answers):
            if answer.report is None:
                return
            if not answer.is_shown:
                self._heading(index)
                self._finish(index, answer)

    def _finish(self, index: int, answer: _ModelAnswer) -> None:
        """Print what is missing of a complete answer, and what it took."""
        answer.is_shown = True
        report = answer.report
        assert report is not None
        if report.text is not None and not answer.printed:
            self._print(answer, report.text)
        self._end_line(answer)
        if report.cut_off:
            self.say(f"{self._names[index]}: the answer was cut off at max_tokens: raise --max-tokens")

    def _heading(self, index: int) -> None:
        if len(self._names) > 1:
            gap = "\n" if self._has_printed else ""
            write_text(f"{gap}── {' '.join(self._names[index].split())} ──\n", self._out)
        self._has_printed = True

    def _print(self, answer: _ModelAnswer, text: str) -> None:
        if text:
            write_text(text, self._out)
            answer.printed += len(text)
            answer.at_line_start = text.endswith("\n")

    def _end_line(self, answer: _ModelAnswer | None = None) -> None:
        """End the line that is being printed."""
        if answer is None and self._streaming is not None:
            answer = self._answers[self._streaming]
        if answer is not None and not answer.at_line_start:
            write_text("\n", self._out)
            answer.at_line_start = True


def usage_line(report: AnswerReport) -> str:
    """What an answer took, in one line."""
    if report.cached:
        return f"{report.model}: from the cache"
    parts = []
    if report.usage is not None:
        tokens = report.usage.input_tokens
        parts.append(
            f"{tokens:,} {'token' if tokens == 1 else 'tokens'} in, {report.usage.output_tokens:,} out"
        )
    if report.cost_usd is not None:
        parts.append(money(report.cost_usd))
    if report.latency_s is not None:
        parts.append(f"{report.latency_s:.1f} s")
    return f"{report.model}: {', '.join(parts)}" if parts else ""
