"""The matrix of an eval: its columns, rows and cells, numbered as promptfoo 0.123 numbers them.

A column is a provider with one of its prompts, provider by provider. Rows are counted over tests, repetitions and combinations
of variables, in this order: all combinations of the first repetition come first. A row is counted even if no cell of it runs,
because the test names other providers or prompts.

Cells are made one at a time. What is the same for all rows of a test is computed once for the test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import msgspec

from headway.evals.records import Column
from headway.evals.spec import Cell, EvalProvider, EvalSpec, PromptSpec, TestSpec

#: Rows or cells of one eval. More are a mistake: a few lists of variables that multiply.
MOST_CELLS: Final = 10_000_000


class ColumnPlace(msgspec.Struct, frozen=True):
    """A column by the positions of its provider and its prompt in the eval's lists."""

    number: int
    provider: int
    prompt: int


def columns(spec: EvalSpec) -> tuple[Column, ...]:
    """The columns, for reports."""
    return tuple(
        Column(
            prompt_index=place.number,
            provider=spec.providers[place.provider].id,
            provider_label=spec.providers[place.provider].name,
            prompt=spec.prompts[place.prompt].raw,
            prompt_label=spec.prompts[place.prompt].label,
            prompt_id=prompt_digest(spec.prompts[place.prompt]),
        )
        for place in column_places(spec)
    )


def column_places(spec: EvalSpec) -> tuple[ColumnPlace, ...]:
    """The columns in order: each provider with each prompt that it takes."""
    pairs = [
        (number, place)
        for number, provider in enumerate(spec.providers)
        for place, prompt in enumerate(spec.prompts)
        if takes_prompt(provider.prompts, prompt)
    ]
    return tuple(ColumnPlace(number, *pair) for number, pair in enumerate(pairs))


def cells(spec: EvalSpec) -> Iterator[Cell]:
    """Every cell, row by row."""
    places = column_places(spec)
    index = row = 0
    for number, test in enumerate(spec.tests):
        own = _places_of(test, spec, places)
        for repetition in range(repetitions(spec, test)):
            for values in combinations(test):
                for place in own:
                    yield Cell(
                        index=index,
                        test_index=row,
                        prompt_index=place.number,
                        test=number,
                        provider=place.provider,
                        prompt=place.prompt,
                        repetition=repetition,
                        vars=values,
                    )
                    index += 1
                row += 1


def repetitions(spec: EvalSpec, test: TestSpec) -> int:
    """How often a test runs."""
    return test.repeat or spec.repeat


def combinations(test: TestSpec) -> Iterator[dict[str, Any]]:
    """The variables of each row of a test. The last list changes fastest."""
    names = list(test.vars)
    lists = [value if isinstance(value, list) else [value] for value in test.vars.values()]
    return (dict(zip(names, values, strict=True)) for values in product(*lists))


def row_count(spec: EvalSpec) -> int:
    """Rows of the matrix."""
    return sum(_rows_of(spec, test) for test in spec.tests)


def cell_count(spec: EvalSpec) -> int:
    """Cells of the matrix, without making them."""
    places = column_places(spec)
    return sum(_rows_of(spec, test) * len(_places_of(test, spec, places)) for test in spec.tests)


def size_problem(spec: EvalSpec) -> str:
    """Why the matrix is too large; "" if it is not."""
    size = max(row_count(spec), cell_count(spec))
    return f"the eval has {size:,} cells; at most {MOST_CELLS:,} are run" if size > MOST_CELLS else ""


def _rows_of(spec: EvalSpec, test: TestSpec) -> int:
    rows = repetitions(spec, test)
    for value in test.vars.values():
        rows *= len(value) if isinstance(value, list) else 1
    return rows


def _places_of(test: TestSpec, spec: EvalSpec, places: tuple[ColumnPlace, ...]) -> tuple[ColumnPlace, ...]:
    """The columns that a test runs in."""
    if not test.providers and not test.prompts:
        return places
    return tuple(
        place
        for place in places
        if takes_provider(test.providers, spec.providers[place.provider])
        and takes_prompt(test.prompts, spec.prompts[place.prompt])
    )


def takes_prompt(references: tuple[str, ...], prompt: PromptSpec) -> bool:
    """Whether references to prompts (of a provider or a test) name this one. No reference names all."""
    return not references or any(_names(one, prompt.label, prompt.id) for one in references)


def takes_provider(references: tuple[str, ...], provider: EvalProvider) -> bool:
    """Whether references to providers (of a test) name this one. No reference names all."""
    return not references or any(_names(one, provider.label, provider.id) for one in references)


def _names(reference: str, label: str, identity: str) -> bool:
    """A label or an id, the beginning of one (`group:*`), or the group in front of its colon (`group`)."""
    for name in filter(None, (label, identity)):
        if name == reference or name.startswith(f"{reference}:"):
            return True
        if reference.endswith("*") and name.startswith(reference[:-1]):
            return True
    return False


def prompt_digest(prompt: PromptSpec) -> str:
    """A prompt's id in results: a hash of its label."""
    return hashlib.sha256((prompt.label or prompt.id or prompt.raw).encode()).hexdigest()
