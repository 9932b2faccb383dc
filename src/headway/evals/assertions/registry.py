"""Every type of assertion: what it needs, and how it is judged. docs/reference/eval-assertions.md is generated from here. PURE."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from headway.evals.assertions import json_checks, overlap_checks, request_checks, text_checks, tool_checks
from headway.evals.assertions.graded_answer import CheckFinding, Demand, GradedAnswer
from headway.evals.assertions.json_checks import schema_problem
from headway.evals.assertions.patterns import pattern_problem
from headway.evals.spec import AssertionSpec

#: What an assertion needs besides the answer. `row`: the other answers of the row.
Need = Literal["nothing", "code", "grader", "embedding", "row"]


class AssertionKind(msgspec.Struct, frozen=True, kw_only=True):
    """A type of assertion. `check` judges those that need nothing."""

    needs: Need
    #: One sentence: when it passes.
    passes: str
    #: What is written under `value`; "" for nothing.
    value: str = ""
    value_required: bool = True
    #: What `threshold` means; "" if it has none.
    threshold: str = ""
    threshold_required: bool = False
    check: Callable[[Demand, GradedAnswer], CheckFinding] | None = None


def _pure(check: Callable[[Demand, GradedAnswer], CheckFinding], passes: str, **fields: Any) -> AssertionKind:
    return AssertionKind(needs="nothing", check=check, passes=passes, **fields)


_TEXT: Final = "a text"
_TEXTS: Final = "a list of texts, or one text with commas"
_SCHEMA: Final = "a JSON Schema (optional)"
_SIMILAR: Final = "the smallest similarity (0.75)"

_OF_TEXT: Final[Mapping[str, AssertionKind]] = {
    "equals": _pure(text_checks.equals, "The answer is the value. Objects and lists are compared as JSON.", value="any value", value_required=False),
    "contains": _pure(text_checks.contains, "The answer contains the value.", value=_TEXT),
    "contains-any": _pure(text_checks.contains_any, "The answer contains one of the values.", value=_TEXTS),
    "contains-all": _pure(text_checks.contains_all, "The answer contains all of the values.", value=_TEXTS),
    "icontains": _pure(text_checks.icontains, "As `contains`; upper and lower case are the same.", value=_TEXT),
    "icontains-any": _pure(text_checks.icontains_any, "As `contains-any`; upper and lower case are the same.", value=_TEXTS),
    "icontains-all": _pure(text_checks.icontains_all, "As `contains-all`; upper and lower case are the same.", value=_TEXTS),
    "starts-with": _pure(text_checks.starts_with, "The answer starts with the value.", value=_TEXT),
    "regex": _pure(text_checks.regex, "The pattern is found in the answer. Patterns are those of JavaScript.", value="a pattern"),
    "word-count": _pure(text_checks.word_count, "The answer has so many words.", value="a number, or `min` and `max`"),
    "levenshtein": _pure(text_checks.levenshtein, "The edit distance to the value is at most the threshold.", value=_TEXT, threshold="the largest distance (5)"),
    "rouge-n": _pure(overlap_checks.rouge_n, "The F-score of the words that both texts have is at least the threshold.", value=_TEXT, threshold="the smallest score (0.75)"),
    "bleu": _pure(overlap_checks.bleu_score, "The BLEU score is at least the threshold.", value="a text, or a list of texts", threshold="the smallest score (0.5)"),
}  # fmt: skip
_OF_STRUCTURE: Final[Mapping[str, AssertionKind]] = {
    "is-json": _pure(json_checks.is_json, "The answer is JSON, and fits the schema.", value=_SCHEMA, value_required=False),
    "contains-json": _pure(json_checks.contains_json, "The answer contains a JSON object, and one that fits the schema.", value=_SCHEMA, value_required=False),
    "is-valid-openai-tools-call": _pure(tool_checks.is_valid_tools_call, "The answer is a list of tool calls, and each fits a function of the request's tools."),
    "is-valid-openai-function-call": _pure(tool_checks.is_valid_function_call, "The answer is a function call that fits a function of the request's tools."),
    "is-valid-function-call": _pure(tool_checks.is_valid_function_call, "The same."),
    "cost": _pure(request_checks.cost, "The answer cost at most the threshold.", threshold="USD", threshold_required=True),
    "latency": _pure(request_checks.latency, "The answer took at most the threshold.", threshold="milliseconds", threshold_required=True),
    "finish-reason": _pure(request_checks.finish_reason, "The answer ended for this reason.", value="a text: stop, length, …"),
}  # fmt: skip
_OF_OTHERS: Final[Mapping[str, AssertionKind]] = {
    "python": AssertionKind(needs="code", passes="Python code says so, in a process of its own.", value="an expression, a function body, or `file://check.py:name`", threshold="the smallest score"),
    "javascript": AssertionKind(needs="code", passes="JavaScript code says so, run by node.", value="an expression, a function body, or `file://check.js:name`", threshold="the smallest score"),
    "llm-rubric": AssertionKind(needs="grader", passes="A grader says that the answer meets the rubric.", value="a rubric", threshold="the smallest score"),
    "factuality": AssertionKind(needs="grader", passes="A grader says that the answer agrees with the facts of the value.", value=_TEXT),
    "model-graded-factuality": AssertionKind(needs="grader", passes="The same as `factuality`.", value=_TEXT),
    "model-graded-closedqa": AssertionKind(needs="grader", passes="A grader says that the answer meets the criterion.", value="a criterion"),
    "g-eval": AssertionKind(needs="grader", passes="A grader writes steps for the criteria, and its score after them is at least the threshold.", value="a criterion, or a list of them", threshold="the smallest score (0.7)"),
    "similar": AssertionKind(needs="embedding", passes="The cosine of the embeddings of answer and value is at least the threshold.", value="a text, or a list of texts", threshold=_SIMILAR),
    "similar:cosine": AssertionKind(needs="embedding", passes="The same.", value="a text, or a list of texts", threshold=_SIMILAR),
    "similar:dot": AssertionKind(needs="embedding", passes="The same with the dot product.", value="a text, or a list of texts", threshold=_SIMILAR),
    "similar:euclidean": AssertionKind(needs="embedding", passes="The distance of the embeddings is at most the threshold.", value="a text, or a list of texts", threshold="the largest distance (0.75)"),
    "select-best": AssertionKind(needs="row", passes="A grader says that the answer is the best of its row.", value="a criterion"),
    "assert-set": AssertionKind(needs="nothing", passes="All parts pass, or their weighted score is at least the threshold.", threshold="the smallest score"),
}  # fmt: skip
KINDS: Final[Mapping[str, AssertionKind]] = {**_OF_TEXT, **_OF_STRUCTURE, **_OF_OTHERS}

#: Types of promptfoo that are refused, with what to write instead.
UNSUPPORTED: Final[Mapping[str, str]] = {
    "agent-rubric": "use llm-rubric",
    "answer-relevance": "use llm-rubric with a rubric about relevance",
    "classifier": "use python with a classifier of yours",
    "contains-html": "use regex",
    "contains-sql": "use python with a parser of SQL",
    "contains-xml": "use regex, or python",
    "context-faithfulness": "use llm-rubric with the context in the rubric",
    "context-recall": "use llm-rubric with the context in the rubric",
    "context-relevance": "use llm-rubric with the context in the rubric",
    "conversation-relevance": "use llm-rubric",
    "gleu": "use bleu",
    "guardrails": "use python on the metadata",
    "human": "grade by hand after the run",
    "is-html": "use regex, or python",
    "is-refusal": "use llm-rubric, or icontains-any with the phrases that you know",
    "is-sql": "use python with a parser of SQL",
    "is-xml": "use python",
    "max-score": "compare the scores in the report",
    "meteor": "use rouge-n",
    "moderation": "use llm-rubric",
    "perplexity": "use python",
    "perplexity-score": "use python",
    "pi": "use llm-rubric",
    "rouge-l": "use rouge-n",
    "rouge-s": "use rouge-n",
    "ruby": "use python or javascript",
    "search-rubric": "use llm-rubric",
    "skill-used": "use python",
    "tool-call-f1": "use python",
    "webhook": "use python",
}


def problem_of(assertion: AssertionSpec) -> str:
    """What is wrong with an assertion before anything runs; "" if nothing is. A value with a template is judged later."""
    kind = KINDS.get(assertion.type)
    if kind is None:
        return _unknown(assertion.type)
    if assertion.type == "assert-set":
        return "" if assertion.children else "'assert-set' has no assertions under 'assert'"
    if kind.threshold_required and assertion.threshold is None:
        return f"'{assertion.type}' needs a 'threshold': {kind.threshold}"
    if (
        kind.value
        and kind.value_required
        and assertion.code is None
        and assertion.value in (None, "", [], ())
    ):
        return f"'{assertion.type}' needs a 'value': {kind.value}"
    return _value_problem(assertion)


def _unknown(name: str) -> str:
    instead = UNSUPPORTED.get(name)
    if instead is not None:
        return f"'{name}' is not supported; {instead}"
    near = difflib.get_close_matches(name, KINDS, n=1)
    return f"there is no assertion '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")


def _value_problem(assertion: AssertionSpec) -> str:
    """A bad pattern or schema that is written in the file itself."""
    value = assertion.value
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return ""
    if assertion.type == "regex" and isinstance(value, str):
        return pattern_problem(value)
    if assertion.type in ("is-json", "contains-json") and value:
        return schema_problem(value)
    return ""
