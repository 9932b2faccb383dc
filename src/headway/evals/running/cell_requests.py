"""The requests of an eval's units: of answers that wait for nothing, when the eval is taken in; of all others, when it is their turn.

Both are made by `CellRequests`. What a late unit needs is read from the records (`CellValues`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headway.config.routing import Target
from headway.config.settings import ProviderConfig
from headway.engine.run_spec import RenderedRequest
from headway.errors import UsageError
from headway.evals import templates
from headway.evals.assertions import grading, similarity
from headway.evals.programs.code_requests import (
    assertion_request,
    code_target,
    transform_request,
    variable_request,
    vars_request,
)
from headway.evals.running.cell_values import CellValues, options_of, text_of_output
from headway.evals.running.eval_form import brought_by
from headway.evals.running.planned_units import CELL, EARLIER_TURNS, OUTPUT, QUESTION, UnitPlan, assertion_at
from headway.evals.running.target_requests import (
    ProgramRequests,
    SentRequest,
    embedding_request,
    is_program,
    messages_in,
    target_request,
)
from headway.evals.spec import (
    AssertionSpec,
    Cell,
    Code,
    EvalEndpoint,
    EvalProvider,
    EvalSpec,
    PromptSpec,
    TestSpec,
)
from headway.stores.records import Job
from headway.stores.store import Store


class AnswerRequests:
    """Makes the requests of answers. `brings` has the providers that the eval describes itself."""

    def __init__(self, brings: Mapping[str, ProviderConfig]) -> None:
        self._programs = {
            name: ProgramRequests(provider) for name, provider in brings.items() if is_program(provider.kind)
        }

    def request(
        self, target: Target, parts: tuple[EvalProvider, PromptSpec, TestSpec], values: Mapping[str, Any]
    ) -> SentRequest:
        """The request of a cell whose variables are known. Raises UsageError if its prompt cannot be sent."""
        provider, prompt, test = parts
        raw = "".join((test.prefix, prompt.prefix, prompt.raw, prompt.suffix, test.suffix))
        text = templates.render_prompt(raw, values)
        program = self.program(target)
        if program is not None:
            shown = {name: value for name, value in values.items() if name not in ("env", EARLIER_TURNS)}
            return program.request(text, {"vars": shown})
        options = options_of(provider, prompt, test)
        return target_request(target, provider.endpoint, messages_in(text), options)

    def program(self, target: Target) -> ProgramRequests | None:
        """The requests of a target that is a program or an address of the configuration; None: it has an API."""
        return self._programs.get(target.provider)


class LateCellRequests:
    """Makes the requests of late units of one job, in the reader's thread."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._values: CellValues | None = None
        self._answers = AnswerRequests(brought_by(job))

    def __call__(self, store: Store, index: int) -> RenderedRequest:
        """See `engine.run_spec.Render`."""
        values = self._values
        if values is None or values.store is not store:
            values = self._values = CellValues(self._job, store)
        [(_, _, body)] = store.requests(self._job.id, [index])
        request = self._request(values, index, msgspec.json.decode(body, type=UnitPlan))
        return RenderedRequest(request.path, request.body, request.chars)

    def _request(self, values: CellValues, index: int, plan: UnitPlan) -> SentRequest:
        match plan.role:
            case "answer":
                return self._answer(values, index)
            case "vars" | "variable" | "transform" | "code":
                return self._code(values, index, plan)
            case "best":
                return self._best(values, index, plan)
            case _:
                return self._grader(values, index, plan)

    def _answer(self, values: CellValues, index: int) -> SentRequest:
        cell = values.cell(index)
        known = values.values(index, cell)
        known[EARLIER_TURNS] = values.history(index)
        parts = (values.provider(cell), values.prompt(cell), values.test(cell))
        return self._answers.request(values.target(index), parts, known)

    def _grader(self, values: CellValues, index: int, plan: UnitPlan) -> SentRequest:
        """A question to a grader, or texts to embed."""
        cell, edges = values.cell(plan.answer), values.edges(index)
        assertion = with_rubric(values.test(cell), plan)
        answer, target = values.graded(plan.answer, edges[OUTPUT]), values.target(index)
        options = _grader_options(values, cell, assertion, plan)
        if plan.role == "embedding":
            return embedding_request(target, similarity.texts_to_embed(assertion, answer), options)
        earlier = {
            role.removeprefix(QUESTION): text_of_output(values.output(before))
            for role, before in edges.items()
            if role.startswith(QUESTION)
        }
        question = grading.question(assertion, plan.question, answer, earlier)
        return self._asked(target, question.messages, options, _grader_endpoint(values, cell, assertion))

    def _best(self, values: CellValues, index: int, plan: UnitPlan) -> SentRequest:
        edges = values.edges(index)
        answers = [
            values.graded(answer, edges[f"{CELL}{place}"]) for place, answer in enumerate(plan.answers)
        ]
        cell = values.cell(plan.answer)
        assertion = with_rubric(values.test(cell), plan)
        question = grading.best_question(assertion, answers)
        options = _grader_options(values, cell, assertion, plan)
        endpoint = _grader_endpoint(values, cell, assertion)
        return self._asked(values.target(index), question.messages, options, endpoint)

    def _asked(
        self, target: Target, messages: Any, options: Mapping[str, Any], endpoint: EvalEndpoint
    ) -> SentRequest:
        program = self._answers.program(target)
        if program is not None:
            return program.request(text_of_output(msgspec.to_builtins(messages)), {"vars": {}})
        return target_request(target, endpoint, msgspec.to_builtins(messages), options)

    def _code(self, values: CellValues, index: int, plan: UnitPlan) -> SentRequest:
        """Code of the configuration: it gets an output, or variables."""
        cell = values.cell(plan.answer)
        if plan.role in ("vars", "variable"):
            known = {**cell.vars, **values.changed_vars(values.edges(index))}
            return variables_request(plan, values.test(cell), values.prompt(cell), known)
        output = values.output(values.edges(index)[OUTPUT])
        test = values.test(cell)
        if plan.role == "transform":
            code = _transform_of(values, cell, plan)
            shown = {
                "vars": values.vars(plan.answer, cell),
                "prompt": {"label": values.prompt(cell).label},
                "metadata": test.metadata,
            }
            return _program(code, transform_request(code, output, shown))
        assertion = assertion_at(test.asserts, plan.place)
        assert assertion.code is not None
        return _program(
            assertion.code, assertion_request(assertion.code, output, _code_context(values, plan, assertion))
        )


def variables_request(
    plan: UnitPlan, test: TestSpec, prompt: PromptSpec, known: Mapping[str, Any]
) -> SentRequest:
    """A request for code that changes the variables of a row, or computes one. `known`: the variables so far."""
    if plan.role == "vars":
        assert test.transform_vars is not None
        return _program(test.transform_vars, vars_request(test.transform_vars, known, {}))
    code = test.var_code[plan.question]
    file = "" if code.file is None else f"file://{code.file.name}"
    known = {**known, plan.question: file}
    return _program(code, variable_request(code, plan.question, prompt.raw, known))


def with_rubric(test: TestSpec, plan: UnitPlan) -> AssertionSpec:
    """The assertion of a unit, with the rubric prompt of its test where it has none."""
    assertion = assertion_at(test.asserts, plan.place)
    if assertion.rubric_prompt or not test.rubric_prompt:
        return assertion
    return msgspec.structs.replace(assertion, rubric_prompt=test.rubric_prompt)


def grader_of(spec: EvalSpec, test: TestSpec, assertion: AssertionSpec) -> EvalProvider | None:
    """The grader of an assertion; None: the default."""
    return assertion.grader or test.grader or spec.grader


def _grader_options(
    values: CellValues, cell: Cell, assertion: AssertionSpec, plan: UnitPlan
) -> dict[str, Any]:
    spec = values.form.spec
    if plan.role == "embedding":
        grader = assertion.grader or spec.embedder
    else:
        grader = grader_of(spec, values.test(cell), assertion)
    return {} if grader is None else grader.options


def _grader_endpoint(values: CellValues, cell: Cell, assertion: AssertionSpec) -> EvalEndpoint:
    """The API that a grader is asked by: the one that its id names."""
    grader = grader_of(values.form.spec, values.test(cell), assertion)
    return "chat" if grader is None else grader.endpoint


def _transform_of(values: CellValues, cell: Cell, plan: UnitPlan) -> Code:
    test = values.test(cell)
    if plan.place:
        code = assertion_at(test.asserts, plan.place).transform
    else:
        code = values.provider(cell).transform if plan.of_provider else test.transform
    assert code is not None
    return code


def _code_context(values: CellValues, plan: UnitPlan, assertion: AssertionSpec) -> dict[str, Any]:
    """What an assertion's code is told besides the output, under promptfoo's names."""
    result = values.result(plan.answer)
    cell = values.cell(plan.answer)
    test, provider = values.test(cell), values.provider(cell)
    answer = values.graded_with(plan.answer, cell, result, None)
    response = values.response(result)
    return {
        "vars": answer.vars,
        "prompt": answer.prompt,
        "test": {"vars": answer.vars, "description": test.description, "metadata": test.metadata},
        "config": assertion.config,
        "provider": {"id": provider.id, "label": provider.label},
        "providerResponse": response,
        "metadata": response["metadata"],
        "logProbs": None,
    }


def _program(code: Code, body: bytes) -> SentRequest:
    return SentRequest(code_target(code).path, body, len(body))


def rendered_problem(test: TestSpec, prompt: PromptSpec, error: Exception) -> UsageError:
    """An error in a prompt, with its place."""
    where = f"line {prompt.line}: " if prompt.line else ""
    own = f" (test of line {test.line})" if test.line else ""
    return UsageError(f"{where}prompt {prompt.label[:60]!r}{own}: {error}")
