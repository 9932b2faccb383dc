"""What the units of a job see of each other: variables, stored outputs, earlier turns, outputs after transforms.

All of it is read from the records, so the same is seen while the job runs, after a crash and when results are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headway.batch.answer_text import answer_of, decoded, text_of
from headway.config.routing import Target
from headway.errors import UsageError
from headway.evals.assertions.graded_answer import GradedAnswer
from headway.evals.programs.answers import output_of
from headway.evals.running.eval_form import EvalForm, StoredTests, cell_of, form_of
from headway.evals.running.planned_units import CONVERSATION, EARLIER_TURNS, REGISTER, VARIABLE, VARS
from headway.evals.running.target_requests import is_program, messages_in, prompt_of
from headway.evals.spec import Cell, EvalProvider, PromptSpec, TestSpec
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store

#: Turns whose history is kept in memory.
_FEW: Final = 256
#: The APIs whose answers have a text in a place of their own. Other answers are those of programs.
_CHATS: Final = frozenset({"openai", "azure", "anthropic", "gemini", "bedrock"})


class AnsweredFigures(NamedTuple):
    """How long an answer took, and what it cost."""

    latency_ms: float | None
    cost_usd: float | None


class CellValues:
    """Reads one job. `store` may be replaced; `page` has units that were read already, by index."""

    def __init__(self, job: Job, store: Store) -> None:
        self.store, self.page = store, dict[int, UnitResult]()
        self._page_edges: dict[int, dict[str, int]] = {}
        self._page_requests: dict[int, bytes] = {}
        self._job = job.id
        self.form: EvalForm = form_of(job)
        self._tests = StoredTests(job.id)
        self._targets = {
            (one.provider, one.model): Target(one.provider, one.kind, one.model)
            for one in store.routes(job.id)
        }
        self._histories: dict[int, list[dict[str, Any]]] = {}

    # -- records --------------------------------------------------------------------------------------------------------

    def result(self, index: int) -> UnitResult:
        known = self.page.get(index)
        return self.store.results(self._job, index - 1, 1)[0] if known is None else known

    def cell(self, answer: int) -> Cell:
        """The cell of an answer."""
        return cell_of(self.result(answer).metadata)

    def target(self, index: int) -> Target:
        """Where a unit goes."""
        result = self.result(index)
        return self._targets[result.provider, result.model]

    def test(self, cell: Cell) -> TestSpec:
        return self._tests.test(self.store, cell.test)

    def provider(self, cell: Cell) -> EvalProvider:
        return self.form.spec.providers[cell.provider]

    def prompt(self, cell: Cell) -> PromptSpec:
        return self.form.spec.prompts[cell.prompt]

    def edges(self, index: int) -> dict[str, int]:
        """What a unit waits for, by role."""
        if index in self.page:
            return self._page_edges.get(index, {})
        return {edge.role: edge.before for edge in self.store.edges(self._job, [index])}

    def read(self, results: Sequence[UnitResult]) -> None:
        """Keep these units, instead of those that were kept before."""
        self.page = {result.index: result for result in results}
        self._page_edges = {}
        for edge in self.store.edges(self._job, list(self.page)):
            self._page_edges.setdefault(edge.index, {})[edge.role] = edge.before
        early = [
            one.index for one in results if one.metadata is not None and one.index not in self._page_edges
        ]
        self._page_requests = {index: body for index, _, body in self.store.requests(self._job, early)}

    def sent_prompt(self, answer: int) -> str:
        """The prompt of an answer, as it was sent."""
        body = self._page_requests.get(answer)
        return prompt_of(self.store.request(self._job, answer)[1] if body is None else body)

    def options(self, cell: Cell) -> dict[str, Any]:
        """The parameters of a cell's request."""
        return options_of(self.provider(cell), self.prompt(cell), self.test(cell))

    # -- values ---------------------------------------------------------------------------------------------------------

    def vars(self, answer: int, cell: Cell) -> dict[str, Any]:
        """The variables of a cell: its own, changed by code, and the stored outputs that it reads."""
        own = dict(cell.vars)
        edges = self.edges(answer)
        own |= self.changed_vars(edges)
        for prefix in (VARIABLE, REGISTER):
            for role, writer in edges.items():
                if role.startswith(prefix):
                    own[role.removeprefix(prefix)] = self.output(writer)
        return own

    def changed_vars(self, edges: Mapping[str, int]) -> dict[str, Any]:
        """What `transformVars` made of the variables of a row."""
        if VARS not in edges:
            return {}
        changed = self.output(edges[VARS])
        if not isinstance(changed, dict):
            raise UsageError("transformVars must return an object with variables")
        return changed

    def values(self, answer: int, cell: Cell) -> dict[str, Any]:
        """The variables as templates see them, with the environment."""
        return {**self.vars(answer, cell), "env": self.form.spec.env}

    def output(self, index: int) -> Any:
        """The output of an answer, a transform or another unit of code."""
        result = self.result(index)
        if result.body is None:
            raise UsageError(f"the answer of {result.custom_id}, which this unit uses, is not recorded")
        return self.output_in(result)

    def output_in(self, result: UnitResult) -> Any:
        """The output in a unit's answer."""
        assert result.body is not None
        kind = self._targets[result.provider, result.model].kind
        if kind in _CHATS:
            return self._structured(result, _chat_output(result.body))
        return output_of(result.body) if is_program(kind) else answer_of(result.body)

    def _structured(self, result: UnitResult, output: Any) -> Any:
        """An answer whose request asked for a schema is its value."""
        if result.metadata is None or not isinstance(output, str):
            return output
        wanted = self.options(cell_of(result.metadata)).get("response_format")
        if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
            return output
        try:
            return msgspec.json.decode(output)
        except (msgspec.DecodeError, RecursionError):
            return output

    def response(self, result: UnitResult) -> dict[str, Any]:
        """An answer as code sees it, under promptfoo's names."""
        use = {"prompt": result.input_tokens or 0, "completion": result.output_tokens or 0}
        return {
            "output": self.output_in(result),
            "tokenUsage": {**use, "total": sum(use.values())},
            "cost": self.figures(result).cost_usd,
            "cached": result.status == "cached",
            "metadata": metadata_of(result.body or b""),
        }

    def history(self, answer: int) -> list[dict[str, Any]]:
        """The turns before an answer in its conversation, the first one first."""
        missing: list[int] = []
        turn = self.edges(answer).get(CONVERSATION)
        while turn is not None and turn not in self._histories:
            missing.append(turn)
            turn = self.edges(turn).get(CONVERSATION)
        history = [] if turn is None else self._histories[turn]
        for turn in reversed(missing):
            history = [*history, self._turn(turn)]
            if len(self._histories) >= _FEW:
                self._histories.pop(next(iter(self._histories)))
            self._histories[turn] = history
        return history

    def _turn(self, answer: int) -> dict[str, Any]:
        """One turn as `_conversation` has it."""
        prompt: Any = messages_in(self.sent_prompt(answer))
        said = prompt if isinstance(prompt, str) else prompt[-1].get("content")
        metadata = self.test(self.cell(answer)).metadata
        return {
            "prompt": prompt,
            "input": said,
            "output": text_of_output(self.output(answer)),
            "metadata": metadata,
        }

    # -- answers to judge -----------------------------------------------------------------------------------------------

    def graded(self, answer: int, output: int) -> GradedAnswer:
        """An answer as assertions see it. `output`: the unit with the output, after transforms."""
        cell, result = self.cell(answer), self.result(answer)
        return self.graded_with(answer, cell, result, self.output(output))

    def graded_with(self, answer: int, cell: Cell, result: UnitResult, output: Any) -> GradedAnswer:
        """The same for an output that is known."""
        figures = self.figures(result)
        known = self.vars(answer, cell)
        if EARLIER_TURNS in self.prompt(cell).raw:
            known[EARLIER_TURNS] = self.history(answer)
        return GradedAnswer(
            output=output,
            vars=known,
            prompt=self.sent_prompt(answer),
            env=self.form.spec.env,
            latency_ms=figures.latency_ms,
            cost_usd=figures.cost_usd,
            finish_reason=finish_reason_of(result.body or b""),
            tools=tuple(self.options(cell).get("tools") or ()),
        )

    def figures(self, result: UnitResult) -> AnsweredFigures:
        """Those of the request that was sent, also where its answer was taken over from another job."""
        started, finished, cost = result.started_utc, result.finished_utc, result.cost_usd
        if result.status == "cached":
            started, finished, cost = self.store.cache.original_figures(self._job, result.index)
        latency = None if started is None or finished is None else (finished - started) * 1000.0
        return AnsweredFigures(latency, cost)


def options_of(provider: EvalProvider, prompt: PromptSpec, test: TestSpec) -> dict[str, Any]:
    """The parameters of a request: the prompt's and the test's win over the provider's."""
    return {**provider.options, **prompt.config, **test.options}


def text_of_output(output: Any) -> str:
    """An output as text: JSON unless it is a text."""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def _chat_output(body: bytes) -> Any:
    """The text of a chat's answer, or its tool calls."""
    answer = decoded(body)
    match answer:
        case {"choices": [{"message": {"tool_calls": list(calls)} as message}, *_]} if calls:
            return (
                calls if not message.get("content") else {"content": message["content"], "tool_calls": calls}
            )
    text = text_of(answer)
    return "" if text is None else text


def metadata_of(body: bytes) -> Any:
    """What a program says about its answer besides the output."""
    return decoded(body).get("metadata")


def finish_reason_of(body: bytes) -> str:
    """Why a model ended its answer, in its own word."""
    match decoded(body):
        case {"choices": [{"finish_reason": str(reason)}, *_]}:
            return reason
        case {"stop_reason": str(reason)} | {"stopReason": str(reason)}:
            return reason
        case {"candidates": [{"finishReason": str(reason)}, *_]}:
            return reason
    return ""


def vectors_of(body: bytes) -> list[list[float]]:
    """The embeddings of an answer, in the order of their texts."""
    match decoded(body):
        case {"data": list(data)}:
            ordered = sorted(data, key=lambda one: one.get("index", 0))
            return [one["embedding"] for one in ordered]
    raise UsageError("the answer has no embeddings")
