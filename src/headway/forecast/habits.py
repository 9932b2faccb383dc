"""What answers of one model were like: how many tokens a text has, how long answers are, how long they take.

Each is a line through what earlier units took (input tokens over characters, output tokens over characters, seconds
over output tokens), and what it left unexplained is drawn again by chance. A line that explains nothing is its mean.
Where too little was seen everything is assumed, and says so: the range is then as wide as models differ. Answers that their
limit cut off say how long answers are at the least: where there is more room now, the range goes up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

import msgspec

from headway.core.lanes.estimate import ENOUGH, FIRST_OUTPUT, FIRST_RATIO, FIRST_SHARE
from headway.core.model import Usage
from headway.stores.records import UsageSample

#: A slope that explains less than this share of the variance is chance.
EXPLAINS: Final = 0.1
#: What a forecast is off by even where everything was seen often.
LEAST_DOUBT: Final = 0.02
MOST_DOUBT: Final = 0.8
#: Before anything was seen: half a second and fifty tokens a second, as large hosted models answer.
FIRST_TOOK_S: Final = 0.5
FIRST_TOOK_PER_TOKEN_S: Final = 0.02
#: And how far all of that may be off: texts have 3 to 5 characters a token, answers anything between one token and all that
#: they may have (4,096 where nothing limits them), and models between a third and two and a half times of that time.
FIRST_DOUBTS: Final = ((0.8, 4.0 / 3.0), (1.0 / 1024.0, 16.0), (0.35, 2.5))
#: Of a model that is known and asked something new: other texts have other tokens, and its speed may have other causes.
NEW_INPUT_DOUBT: Final = (0.8, 1.25)
NEW_TOOK_DOUBT: Final = (0.5, 2.0)
#: An answer that was cut off and that nothing limits any more may be so many times as long.
MOST_REACH: Final = 16.0
#: No answer is quicker.
SHORTEST_S: Final = 0.001


class Line(msgspec.Struct, frozen=True):
    """`base + slope × x`, and what it leaves unexplained of each point it was laid through."""

    base: float
    slope: float = 0.0
    left: tuple[float, ...] = (0.0,)

    def at(self, x: float) -> float:
        """Its height there."""
        return self.base + self.slope * x

    def drawn(self, x: float, chance: float) -> float:
        """A value there by chance, which is between 0 and 1."""
        return self.base + self.slope * x + self.left[int(chance * len(self.left))]

    def doubt(self, mean: float, planned: int = 0) -> float:
        """How far the mean of `planned` ones (0: of any number) may be from the one that was seen, as a share of it: two
        standard errors of both."""
        n = len(self.left)
        variance = sum(one * one for one in self.left) / n
        error = 2.0 * sqrt(variance / n + (variance / planned if planned else 0.0))
        return min(MOST_DOUBT, LEAST_DOUBT + (error / mean if mean > 0.0 else 0.0))


def line_through(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The line of least squares that rises and begins above nothing; flat where a slope explains nothing."""
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
    """What one unit will take, as chance has it."""

    input_tokens: float
    output_tokens: float
    cached_tokens: float
    took_s: float


#: Factors of (input tokens, output tokens, seconds) that make a forecast of one mind.
Mind = tuple[float, float, float]


class Habits(msgspec.Struct, frozen=True):
    """Of requests of one family to one model. `answers` is how many such taught, 0 where the length of answers is assumed;
    `others` is how many answers to other requests told the rest then."""

    answers: int
    input: Line
    output: Line
    took: Line
    cached: float = 0.0
    doubts: tuple[tuple[float, float], ...] = FIRST_DOUBTS
    others: int = 0
    #: The share of them that was cut off at a lower limit than there is now.
    cut_off: float = 0.0
    #: Whether they are of other rows of the same file, which ask something else.
    other_rows: bool = False

    @property
    def minds(self) -> dict[str, Mind]:
        """The likely, the quick and the slow one."""
        low, high = zip(*self.doubts, strict=True)
        return {"estimate": (1.0, 1.0, 1.0), "low": low, "high": high}

    def input_tokens(self, requests: int, chars: int, mind: Mind) -> float:
        """Of so many requests with so many characters in all."""
        return (self.input.base * requests + self.input.slope * chars) * mind[0]

    def draw(self, chars: int, max_tokens: int, mind: Mind, chance: Callable[[], float]) -> DrawnUsage:
        """One unit; `max_tokens` is 0 where nothing limits its answer, and below 0 where it has none."""
        tokens_in = max(1.0, self.input.at(chars) * mind[0])
        tokens_out = 0.0
        if max_tokens >= 0:
            tokens_out = self._output(chars, max_tokens, chance()) * mind[1]
            tokens_out = max(1.0, min(tokens_out, max_tokens or tokens_out))
        took_s = max(SHORTEST_S, self.took.drawn(tokens_out, chance()) * mind[2])
        return DrawnUsage(tokens_in, tokens_out, tokens_in * self.cached, took_s)

    def mean(self, chars: int, max_tokens: int, mind: Mind) -> Usage:
        """What units of this length take on average."""
        tokens_out = 0.0
        if max_tokens >= 0:
            tokens_out = self._output(chars, max_tokens, None) * mind[1]
            tokens_out = max(1.0, min(tokens_out, max_tokens or tokens_out))
        return Usage(max(1.0, self.input.at(chars) * mind[0]), tokens_out)

    def _output(self, chars: int, max_tokens: int, chance: float | None) -> float:
        if not self.answers and max_tokens:
            return FIRST_SHARE * max_tokens
        return self.output.at(chars) if chance is None else self.output.drawn(chars, chance)


ASSUMED: Final = Habits(
    0, Line(0.0, 1.0 / FIRST_RATIO), Line(FIRST_OUTPUT), Line(FIRST_TOOK_S, FIRST_TOOK_PER_TOKEN_S)
)


def habits_of(lessons: Sequence[UsageSample], planned: int = 0, limit: int | None = None) -> Habits:
    """What earlier units taught, for so many more (0: any number). `limit` is what theirs is now, 0 where there is none, and
    None where it is the same as ever.
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
    habits = Habits(len(lessons), *lines, cached, tuple((1.0 - doubt, 1.0 + doubt) for doubt in doubts))
    return habits if limit is None else _with_more_room(habits, lessons, limit)


def _cut_below(lesson: UsageSample, limit: int) -> bool:
    """Whether an answer ended at a limit below this one."""
    return 0 < lesson.max_tokens <= lesson.output_tokens and (not limit or lesson.max_tokens < limit)


def _with_more_room(habits: Habits, lessons: Sequence[UsageSample], limit: int) -> Habits:
    """Answers that were cut off may be anything between the old limit and the new one."""
    cut = [one.max_tokens for one in lessons if _cut_below(one, limit)]
    if not cut:
        return habits
    share = len(cut) / len(lessons)
    reach = limit * len(cut) / sum(cut) if limit else MOST_REACH
    most = 1.0 + share * (reach - 1.0)
    middle = sqrt(most)
    line = habits.output
    longer = Line(line.base * middle, line.slope * middle, tuple(one * middle for one in line.left))
    of_input, (low, high), (quick, slow) = habits.doubts
    doubts = (of_input, (low / middle, high * most / middle), (quick, slow * most))
    return msgspec.structs.replace(habits, output=longer, doubts=doubts, cut_off=share)


def habits_of_other_rows(lessons: Sequence[UsageSample], planned: int = 0) -> Habits:
    """What the beginning of a file teaches about a rest that asks something else: the length of its answers is open."""
    habits = habits_of(lessons, planned)
    if not habits.answers:
        return habits
    doubts = (NEW_INPUT_DOUBT, FIRST_DOUBTS[1], NEW_TOOK_DOUBT)
    return msgspec.structs.replace(habits, doubts=doubts, other_rows=True)


def habits_of_new(lessons: Sequence[UsageSample]) -> Habits:
    """What answers to other requests teach about requests of a kind that nobody has sent yet: how many tokens a text has and
    how quick the model is, but not how long its answers will be.
    """
    if len(lessons) < ENOUGH:
        return ASSUMED
    outputs = [float(one.output_tokens) for one in lessons]
    took = line_through(outputs, [one.took_s for one in lessons])
    told = took.slope > 0.0
    if not told:  # Answers of one length say nothing about longer ones.
        quickest = min(one.took_s for one in lessons)
        took = Line(quickest, FIRST_TOOK_PER_TOKEN_S)
    return Habits(
        0,
        line_through([float(one.chars) for one in lessons], [float(one.input_tokens) for one in lessons]),
        ASSUMED.output,
        took,
        doubts=(NEW_INPUT_DOUBT, FIRST_DOUBTS[1], NEW_TOOK_DOUBT if told else FIRST_DOUBTS[2]),
        others=len(lessons),
    )
