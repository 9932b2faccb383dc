"""Which units the cells of an eval need, and what each waits for. Pure: it gets cells in order, and returns units without requests.

Every unit has a lower index than those that wait for it. So a serial run, which takes units in index order, never waits in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from headway.core.gates import Gates
from headway.evals.assertions.grading import question_names
from headway.evals.assertions.registry import KINDS
from headway.evals.running.unit_names import (
    PROVIDER_TRANSFORM,
    TRANSFORM,
    answer_unit,
    assertion_unit,
    best_unit,
    variable_unit,
    vars_unit,
)
from headway.evals.spec import AssertionSpec, Cell, Code, EvalProvider, EvalSpec, TestSpec
from headway.evals.templates import names_in
from headway.stores.records import Edge

UnitRole = Literal["vars", "variable", "answer", "transform", "code", "grader", "embedding", "best"]

#: The roles of edges.
VARS: Final = "vars"
VARIABLE: Final = "var:"
OUTPUT: Final = "output"
CONVERSATION: Final = "conversation"
REGISTER: Final = "register:"
QUESTION: Final = "question:"
CELL: Final = "cell:"

#: The variable of a prompt that has the earlier turns of its conversation.
EARLIER_TURNS: Final = "_conversation"


class UnitPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a unit is for. A late unit keeps it in the place of a request.

    `answer` is the index of the answer that it judges or changes. `place` says which assertion it is for; empty: none.
    """

    role: UnitRole
    answer: int = -1
    place: tuple[int, ...] = ()
    #: The question to a grader; the name of a variable.
    question: str = ""
    #: Whose transform it is: the provider's or the test's.
    of_provider: bool = False
    #: The answers of a row, of which one is the best.
    answers: tuple[int, ...] = ()


class PlannedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit without its request. `target` is where it goes; None: to the default grader. Code has no target of its own."""

    id: str
    cell: Cell
    plan: UnitPlan
    target: EvalProvider | None = None
    code: Code | None = None
    edges: tuple[Edge, ...] = ()
    serial: bool = False


class JudgedCell(NamedTuple):
    """A cell whose assertions get units. `name` is the id of its answer; `answer` and `output` are indexes of units."""

    name: str
    cell: Cell
    test: TestSpec
    answer: int
    output: int

    @property
    def waits(self) -> tuple[Edge, ...]:
        """What waits for its output."""
        return (Edge(OUTPUT, self.output),)


class UnitPlanner:
    """Plans the units of one eval. It gets each row once, in order."""

    def __init__(self, spec: EvalSpec) -> None:
        self._spec = spec
        self._gates = Gates()
        self._next = 0
        self._stored = {test.store_output_as for test in spec.tests if test.store_output_as}

    def row(self, cells: Sequence[Cell]) -> list[PlannedUnit]:
        """The units of one row."""
        self._units: list[PlannedUnit] = []
        test = self._spec.tests[cells[0].test]
        own_vars = self._vars(cells[0], test)
        outputs = [self._cell(cell, test, own_vars) for cell in cells]
        best = [number for number, one in enumerate(test.asserts) if needs_of(one) == "row"]
        for number in best:
            self._best(cells, test, number, outputs, is_first=number == best[0])
        return self._units

    def _add(self, name: str, cell: Cell, plan: UnitPlan, edges: Iterable[Edge] = (), **where: Any) -> int:
        """Add a unit under an id; returns its index."""
        index, self._next = self._next, self._next + 1
        self._units.append(PlannedUnit(id=name, cell=cell, plan=plan, edges=tuple(edges), **where))
        return index

    def _vars(self, cell: Cell, test: TestSpec) -> tuple[Edge, ...]:
        """Add the units that compute the variables of a row; returns the edges to them. The answer of its first cell follows."""
        answer = self._next + (test.transform_vars is not None) + len(test.var_code)
        changed: tuple[Edge, ...] = ()
        if test.transform_vars is not None:
            index = self._add(
                vars_unit(cell.test_index), cell, UnitPlan(role="vars", answer=answer),
                code=test.transform_vars, serial=test.runs_serially,
            )  # fmt: skip
            changed = (Edge(VARS, index),)
        edges = list(changed)
        for name, code in test.var_code.items():
            plan = UnitPlan(role="variable", answer=answer, question=name)
            unit = variable_unit(cell.test_index, name)
            index = self._add(unit, cell, plan, changed, code=code, serial=test.runs_serially)
            edges.append(Edge(VARIABLE + name, index))
        return tuple(edges)

    def _cell(self, cell: Cell, test: TestSpec, own_vars: tuple[Edge, ...]) -> tuple[int, int]:
        """Add the units of a cell; returns the indexes of its answer and of its output."""
        name, answer = answer_unit(cell.test_index, cell.prompt_index), self._next
        provider = self._spec.providers[cell.provider]
        edges = (*own_vars, *self._waits(cell, test))
        plan = UnitPlan(role="answer", answer=answer)
        output = self._add(name, cell, plan, edges, target=provider, serial=test.runs_serially)
        for code, step in ((provider.transform, PROVIDER_TRANSFORM), (test.transform, TRANSFORM)):
            if code is not None:
                plan = UnitPlan(role="transform", answer=answer, of_provider=step == PROVIDER_TRANSFORM)
                waits = (Edge(OUTPUT, output),)
                output = self._add(f"{name}/{step}", cell, plan, waits, code=code, serial=test.runs_serially)
        if test.store_output_as:
            self._gates.waits(output, writes=(test.store_output_as,))
        judged = JudgedCell(name, cell, test, answer, output)
        for place, one in flat(test.asserts):
            self._assertion(judged, place, one)
        return answer, output

    def _waits(self, cell: Cell, test: TestSpec) -> Iterator[Edge]:
        """The edges of an answer: to the turn before it, and to the writers of the outputs that its cell reads."""
        turns = EARLIER_TURNS in self._prompt_names(cell, test) and not test.options.get(
            "disableConversationVar"
        )
        key = f"{cell.prompt_index}/{test.conversation_id}" if turns else None
        reads = self._reads(cell, test) if self._stored else frozenset[str]()
        waits = self._gates.waits(self._next, conversation=key, reads=reads)
        if waits.turn is not None:
            yield Edge(CONVERSATION, waits.turn)
        for name, writer in sorted(waits.writers.items()):
            yield Edge(REGISTER + name, writer)

    def _prompt_names(self, cell: Cell, test: TestSpec) -> frozenset[str]:
        prompt = self._spec.prompts[cell.prompt]
        return names_in("".join((test.prefix, prompt.prefix, prompt.raw, prompt.suffix, test.suffix)))

    def _reads(self, cell: Cell, test: TestSpec) -> frozenset[str]:
        """The stored outputs that a prompt, a variable or an assertion names. Code may read any."""
        if _has_code(test) or self._spec.providers[cell.provider].transform is not None:
            return frozenset(self._stored)
        texts = [*_texts(cell.vars), *_texts([_named(one) for _, one in flat(test.asserts)])]
        names = self._prompt_names(cell, test).union(*map(names_in, texts))
        return names & self._stored

    def _assertion(self, judged: JudgedCell, place: tuple[int, ...], one: AssertionSpec) -> None:
        """Add the units of one assertion."""
        needs, name = needs_of(one), assertion_unit(judged.name, place)
        if one.transform is not None and needs != "row":
            plan = UnitPlan(role="transform", answer=judged.answer, place=place)
            changed = assertion_unit(judged.name, place, TRANSFORM)
            output = self._add(changed, judged.cell, plan, judged.waits, code=one.transform)
            judged = judged._replace(output=output)
        if needs == "code":
            plan = UnitPlan(role="code", answer=judged.answer, place=place)
            self._add(name, judged.cell, plan, judged.waits, code=one.code)
        elif needs == "embedding":
            plan = UnitPlan(role="embedding", answer=judged.answer, place=place)
            self._add(name, judged.cell, plan, judged.waits, target=one.grader or self._spec.embedder)
        elif needs == "grader":
            self._questions(judged, place, one)

    def _questions(self, judged: JudgedCell, place: tuple[int, ...], one: AssertionSpec) -> None:
        """Add the questions to a grader."""
        asked: dict[str, int] = {}
        names = asked_ids(judged.name, place, one)
        target = one.grader or judged.test.grader or self._spec.grader
        for question in question_names(one):
            plan = UnitPlan(role="grader", answer=judged.answer, place=place, question=question.name)
            edges = judged.waits
            if question.after:
                edges = (*edges, Edge(QUESTION + question.after, asked[question.after]))
            asked[question.name] = self._add(names[question.name], judged.cell, plan, edges, target=target)

    def _best(
        self,
        cells: Sequence[Cell],
        test: TestSpec,
        number: int,
        outputs: Sequence[tuple[int, int]],
        *,
        is_first: bool,
    ) -> None:
        edges = [Edge(f"{CELL}{place}", output) for place, (_, output) in enumerate(outputs)]
        answers = tuple(answer for answer, _ in outputs)
        plan = UnitPlan(role="best", answer=answers[0], place=(number,), answers=answers)
        name = best_unit(cells[0].test_index, number, is_first=is_first)
        target = test.asserts[number].grader or test.grader or self._spec.grader
        self._add(name, cells[0], plan, edges, target=target)


def needs_of(assertion: AssertionSpec) -> str:
    """What an assertion needs besides the answer. A set needs what its parts need."""
    kind = KINDS.get(assertion.type)
    return "nothing" if assertion.children or kind is None else kind.needs


def asked_ids(answer: str, place: tuple[int, ...], assertion: AssertionSpec) -> dict[str, str]:
    """The units of an assertion that is judged by others, by the names of their questions. The first has the assertion's own id."""
    if needs_of(assertion) != "grader":
        return {"": assertion_unit(answer, place)}
    names = [question.name for question in question_names(assertion)]
    return {name: assertion_unit(answer, place, name if n else "") for n, name in enumerate(names)}


def flat(asserts: Sequence[AssertionSpec]) -> Iterator[tuple[tuple[int, ...], AssertionSpec]]:
    """Every assertion that is judged by itself, with its place: its number, and its number within its set."""
    for number, one in enumerate(asserts):
        if one.children:
            yield from (((number, n), child) for n, child in enumerate(one.children))
        else:
            yield (number,), one


def assertion_at(asserts: Sequence[AssertionSpec], place: Sequence[int]) -> AssertionSpec:
    """The assertion at a place."""
    own = asserts[place[0]]
    return own.children[place[1]] if len(place) > 1 else own


def _has_code(test: TestSpec) -> bool:
    codes = [test.transform, test.transform_vars, *test.var_code.values()]
    codes += [code for _, one in flat(test.asserts) for code in (one.code, one.transform)]
    return any(code is not None for code in codes)


def _named(one: AssertionSpec) -> list[Any]:
    return [one.value, one.rubric_prompt, one.metric]


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        if "{" in value:
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
