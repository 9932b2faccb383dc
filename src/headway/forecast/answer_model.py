"""A statistical model of the answers of one LLM: tokens of a text, length of answers, duration.

Each is a line through earlier units (input tokens over characters, output tokens over characters, seconds over output tokens);
its residuals are drawn at random. A line that explains nothing is the mean. With too few units everything is assumed, and the
forecast says so: its range is then as wide as LLMs differ. Answers that were cut off at their limit show only the least length:
if the limit is higher now, the range goes up to the new limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

import msgspec

from headway.core.lanes.estimate import ENOUGH, FIRST_OUTPUT, FIRST_RATIO, FIRST_SHARE
from headway.core.model import Usage
from headway.stores.records import UsageSample

#: A slope that explains less than this share of the variance is taken for chance.
EXPLAINS: Final = 0.1
#: The least relative error of a forecast, however many units were seen.
LEAST_DOUBT: Final = 0.02
MOST_DOUBT: Final = 0.8
#: Assumed before any answer: half a second and fifty tokens a second, as large hosted models answer.
FIRST_TOOK_S: Final = 0.5
FIRST_TOOK_PER_TOKEN_S: Final = 0.02
#: The factors by which these assumptions may be off: texts have 3 to 5 characters a token, answers have from one token to their
#: limit (4,096 without one), and durations are between a third and two and a half times as long.
FIRST_DOUBTS: Final = ((0.8, 4.0 / 3.0), (1.0 / 1024.0, 16.0), (0.35, 2.5))
#: The same for new prompts to a known LLM: other texts have other tokens, and durations may have other causes.
NEW_INPUT_DOUBT: Final = (0.8, 1.25)
NEW_TOOK_DOUBT: Final = (0.5, 2.0)
#: An answer that was cut off may be so many times as long without a limit.
MOST_REACH: Final = 16.0
#: The least duration of an answer.
SHORTEST_S: Final = 0.001


class Line(msgspec.Struct, frozen=True):
    """`base + slope × x`, and the residuals of the points that it was fitted to."""

    base: float
    slope: float = 0.0
    left: tuple[float, ...] = (0.0,)

    def at(self, x: float) -> float:
        """Its value at `x`."""
        return self.base + self.slope * x

    def drawn(self, x: float, chance: float) -> float:
        """The value at `x` plus a residual; `chance` (0 to 1) selects it."""
        return self.base + self.slope * x + self.left[int(chance * len(self.left))]

    def doubt(self, mean: float, planned: int = 0) -> float:
        """How far the mean of `planned` units (0: any number) may be from the observed mean, as a share of it: two standard errors of
        both."""
        n = len(self.left)
        variance = sum(one * one for one in self.left) / n
        error = 2.0 * sqrt(variance / n + (variance / planned if planned else 0.0))
        return min(MOST_DOUBT, LEAST_DOUBT + (error / mean if mean > 0.0 else 0.0))


def line_through(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The least-squares line with a slope and a base of 0 or more; flat if the slope explains nothing."""
    n = len(xs)
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    over = sum((x - mean_x) ** 2 for x in xs)
    total = sum((y - mean_y) ** 2 for y in ys)
    both = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    slope = both / over if over > 0.0 else 0.0
    if slope <= 0.0 or slope * both < EXPLAINS * total:
        base, slope = mean_y, 0.0
    else:
        base = mean_y - slope * mean_x
        if base < 0.0:
            base, slope = 0.0, mean_y / mean_x
    left = tuple(y - base - slope * x for x, y in zip(xs, ys, strict=True))
    return Line(base, slope, left)


class DrawnUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage and duration of one unit, drawn at random."""

    input_tokens: float
    output_tokens: float
    cached_tokens: float
    took_s: float


#: The factors of (input tokens, output tokens, seconds) in one variant of a forecast.
Factors = tuple[float, float, float]


class AnswerModel(msgspec.Struct, frozen=True):
    """Answers of one LLM to one family of requests. `answers` is how many it was learned from; 0: the length of answers is assumed, and
    `others` is from how many answers to other requests the rest was learned."""

    answers: int
    input: Line
    output: Line
    took: Line
    cached: float = 0.0
    doubts: tuple[tuple[float, float], ...] = FIRST_DOUBTS
    others: int = 0
    #: The share of the answers that were cut off at a lower limit than the present one.
    cut_off: float = 0.0
    #: Whether the answers are to other rows of the same file, with another prompt.
    other_rows: bool = False

    @property
    def variants(self) -> dict[str, Factors]:
        """The factors of the likely, the quick and the slow forecast."""
        low, high = zip(*self.doubts, strict=True)
        return {"estimate": (1.0, 1.0, 1.0), "low": low, "high": high}

    def input_tokens(self, requests: int, chars: int, variant: Factors) -> float:
        """The input tokens of so many requests with so many characters in total."""
        return (self.input.base * requests + self.input.slope * chars) * variant[0]

    def draw(self, chars: int, max_tokens: int, variant: Factors, chance: Callable[[], float]) -> DrawnUsage:
        """Draw one unit. `max_tokens` is 0 if nothing limits its answer, and negative if it has no answer (embeddings)."""
        tokens_in = max(1.0, self.input.at(chars) * variant[0])
        tokens_out = 0.0
        if max_tokens >= 0:
            tokens_out = self._output(chars, max_tokens, chance()) * variant[1]
            tokens_out = max(1.0, min(tokens_out, max_tokens or tokens_out))
        took_s = max(SHORTEST_S, self.took.drawn(tokens_out, chance()) * variant[2])
        return DrawnUsage(tokens_in, tokens_out, tokens_in * self.cached, took_s)

    def mean(self, chars: int, max_tokens: int, variant: Factors) -> Usage:
        """The mean usage of units of this length."""
        tokens_out = 0.0
        if max_tokens >= 0:
            tokens_out = self._output(chars, max_tokens, None) * variant[1]
            tokens_out = max(1.0, min(tokens_out, max_tokens or tokens_out))
        return Usage(max(1.0, self.input.at(chars) * variant[0]), tokens_out)

    def _output(self, chars: int, max_tokens: int, chance: float | None) -> float:
        if not self.answers and max_tokens:
            return FIRST_SHARE * max_tokens
        return self.output.at(chars) if chance is None else self.output.drawn(chars, chance)


ASSUMED: Final = AnswerModel(
    0, Line(0.0, 1.0 / FIRST_RATIO), Line(FIRST_OUTPUT), Line(FIRST_TOOK_S, FIRST_TOOK_PER_TOKEN_S)
)


def model_of(lessons: Sequence[UsageSample], planned: int = 0, limit: int | None = None) -> AnswerModel:
    """A model learned from earlier units, to predict `planned` further ones (0: any number). `limit` is their present `max_tokens`: 0
    is none, None: unchanged.
    """
    if limit is not None and any(_cut_below(one, limit) for one in lessons):
        roomy = [one for one in lessons if not one.max_tokens or 0 < limit <= one.max_tokens]
        lessons = roomy if len(roomy) >= ENOUGH else lessons
    if len(lessons) < ENOUGH:
        return ASSUMED
    chars = [float(one.chars) for one in lessons]
    inputs = [float(one.input_tokens) for one in lessons]
    outputs = [float(one.output_tokens) for one in lessons]
    took = [one.took_s for one in lessons]
    lines = (line_through(chars, inputs), line_through(chars, outputs), line_through(outputs, took))
    means = (sum(values) / len(lessons) for values in (inputs, outputs, took))
    doubts = [line.doubt(mean, planned) for line, mean in zip(lines, means, strict=True)]
    cached = sum(one.cached_tokens for one in lessons) / max(1.0, sum(inputs))
    model = AnswerModel(len(lessons), *lines, cached, tuple((1.0 - doubt, 1.0 + doubt) for doubt in doubts))
    return model if limit is None else _with_more_room(model, lessons, limit)


def _cut_below(lesson: UsageSample, limit: int) -> bool:
    """Whether an answer was cut off at a limit below this one."""
    return 0 < lesson.max_tokens <= lesson.output_tokens and (not limit or lesson.max_tokens < limit)


def _with_more_room(model: AnswerModel, lessons: Sequence[UsageSample], limit: int) -> AnswerModel:
    """Allow for answers that were cut off: they may have any length between the old limit and the new one."""
    cut = [one.max_tokens for one in lessons if _cut_below(one, limit)]
    if not cut:
        return model
    share = len(cut) / len(lessons)
    reach = limit * len(cut) / sum(cut) if limit else MOST_REACH
    most = 1.0 + share * (reach - 1.0)
    middle = sqrt(most)
    line = model.output
    longer = Line(line.base * middle, line.slope * middle, tuple(one * middle for one in line.left))
    of_input, (low, high), (quick, slow) = model.doubts
    doubts = (of_input, (low / middle, high * most / middle), (quick, slow * most))
    return msgspec.structs.replace(model, output=longer, doubts=doubts, cut_off=share)


def model_of_other_rows(lessons: Sequence[UsageSample], planned: int = 0) -> AnswerModel:
    """A model learned from the first rows of a file for rows with another prompt: the length of their answers is unknown."""
    model = model_of(lessons, planned)
    if not model.answers:
        return model
    doubts = (NEW_INPUT_DOUBT, FIRST_DOUBTS[1], NEW_TOOK_DOUBT)
    return msgspec.structs.replace(model, doubts=doubts, other_rows=True)


def model_of_new_prompts(lessons: Sequence[UsageSample]) -> AnswerModel:
    """A model for new prompts, learned from answers to other requests: the tokens of a text and the speed of the LLM are known, the
    length of answers is not.
    """
    if len(lessons) < ENOUGH:
        return ASSUMED
    outputs = [float(one.output_tokens) for one in lessons]
    took = line_through(outputs, [one.took_s for one in lessons])
    sloped = took.slope > 0.0
    if not sloped:  # Answers of equal length say nothing about longer ones.
        quickest = min(one.took_s for one in lessons)
        took = Line(quickest, FIRST_TOOK_PER_TOKEN_S)
    return AnswerModel(
        0,
        line_through([float(one.chars) for one in lessons], [float(one.input_tokens) for one in lessons]),
        ASSUMED.output,
        took,
        doubts=(NEW_INPUT_DOUBT, FIRST_DOUBTS[1], NEW_TOOK_DOUBT if sloped else FIRST_DOUBTS[2]),
        others=len(lessons),
    )
