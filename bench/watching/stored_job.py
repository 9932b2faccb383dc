"""A store with a large job that has run: prompts, answers and errors of a realistic length, from words with a realistic frequency."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from headway.stores.records import Attempt, JobEvent, NewJob, NewUnit, StoredRoute, UnitChange
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import BEGAN, ENDED, Store
from headway.stores.write_batch import WriteBatch

JOB: Final = "large"
UNITS: Final = 1_000_000
#: A vocabulary in which the n-th word is 1/n as frequent as the first, as in texts.
WORDS: Final = 30_000
PROMPT_WORDS: Final = 40
ANSWER_WORDS: Final = 35
PAGE: Final = 10_000
#: One unit of so many has failed; one of so many was never sent.
FAILED: Final = 200
UNSENT: Final = 500
BEGAN_UTC: Final = 1_790_000_000.0


class RandomTexts:
    """Texts of random words, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        self._words = [
            "".join(self._random.choices(letters, k=self._random.randint(2, 10))) for _ in range(WORDS)
        ]
        self._weights = list(accumulate(1.0 / (n + 1) for n in range(WORDS)))

    def text(self, words: int) -> str:
        """A text of so many words."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=words))

    def word(self, rank: int) -> str:
        """The word with this rank: 0 is the most frequent one."""
        return self._words[rank]


class LargeStore(NamedTuple):
    """The folder of a store with one job of so many units, and the texts that it is made of."""

    folder: Path
    units: int
    texts: RandomTexts

    @property
    def file(self) -> Path:
        """The file of the store."""
        return _file_in(self.folder)


@contextmanager
def large_store(units: int = UNITS) -> Iterator[LargeStore]:
    """Make a store in a folder as `headway` has it. All sections read the same one: making it takes minutes."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _file_in(folder).parent.mkdir(mode=0o700)
        yield LargeStore(folder, units, make_store(_file_in(folder), units))


def _file_in(folder: Path) -> Path:
    return folder / ".headway" / "headway.db"


def make_store(path: Path, units: int, seed: int = 1) -> RandomTexts:
    """Make a store with one job of so many units that has run; returns the texts that it is made of."""
    texts = RandomTexts(seed)
    with Store(SqliteFile(path)) as store:
        job = store.add_job(NewJob(JOB, "batch", "in.jsonl", "digest", "", BEGAN_UTC))
        route = store.add_route(job, StoredRoute("alpha", "openai", "gpt-x"))
        lane = store.lane("key", "alpha/gpt-x").id
        for first in range(0, units, PAGE):
            indexes = range(first, min(units, first + PAGE))
            store.add_units(job, first, [_unit(n, route, texts) for n in indexes])
        store.seal(job, units, {"": ("alpha", "openai", "gpt-x")}, "digest")
        for first in range(0, units, PAGE):
            store.commit(_ended(job, route, lane, range(first, min(units, first + PAGE)), texts))
        batch = WriteBatch(job)
        batch.events += [
            JobEvent(BEGAN_UTC, None, BEGAN, ""),
            JobEvent(BEGAN_UTC + units / 500.0 + 9.0, None, ENDED, ""),
        ]
        batch.state = ("failed", BEGAN_UTC + units / 500.0 + 9.0)
        store.commit(batch)
    return texts


def _unit(index: int, route: int, texts: RandomTexts) -> NewUnit:
    body = f'{{"model":"gpt-x","messages":[{{"role":"user","content":"{texts.text(PROMPT_WORDS)}"}}],"max_tokens":99}}'
    return NewUnit(
        f"unit-{index:07d}", route, "/v1/chat/completions", body.encode(), chars=250, max_tokens=99
    )


def _ended(job: int, route: int, lane: int, indexes: Sequence[int], texts: RandomTexts) -> WriteBatch:
    batch = WriteBatch(job)
    for index in indexes:
        if index % UNSENT == 7:
            continue
        start = BEGAN_UTC + 5.0 + index / 500.0
        failed = index % FAILED == 3
        change = UnitChange(
            "failed" if failed else "succeeded", 1, lane, started_utc=start, finished_utc=start + 2.0
        )
        if failed:
            change.code, change.message = (
                "invalid",
                f"the prompt of {texts.text(3)} was refused by policy {index % 7}",
            )
        else:
            text = (
                f'{{"choices":[{{"message":{{"role":"assistant","content":"{texts.text(ANSWER_WORDS)}"}}}}]}}'
            )
            batch.answers.append((index, 200, None, text.encode()))
        outcome = "failed" if failed else "succeeded"
        batch.attempts.append(
            Attempt(index, 1, lane, outcome, started_utc=start, finished_utc=start + 2.0, cost_usd=0.001)
        )
        batch.change(index, change)
        batch.use(route).attempts += 1
    return batch
