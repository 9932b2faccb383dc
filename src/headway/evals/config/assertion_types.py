"""The types of assertions: those that are supported, and why others are not."""

from __future__ import annotations

from typing import Final

#: Types, and what they mean.
TYPES: Final = {
    "equals": "The output is the value; objects are compared as JSON.",
    "contains": "The output contains the value.",
    "contains-any": "It contains one of the values.",
    "contains-all": "It contains all values.",
    "icontains": "It contains the value, in capitals or not.",
    "icontains-any": "It contains one of the values, in capitals or not.",
    "icontains-all": "It contains all values, in capitals or not.",
    "regex": "The pattern is found in the output.",
    "starts-with": "The output begins with the value.",
    "is-json": "The output is JSON, and fits the schema in `value`.",
    "contains-json": "The output contains JSON that fits the schema in `value`.",
    "is-valid-openai-tools-call": "The output is a call of one of the provider's tools.",
    "python": "Code in Python, in a worker process: an expression, a function body or a file.",
    "javascript": "Code in JavaScript, by node: an expression, a function body or a file.",
    "cost": "The answer costs at most `threshold` USD.",
    "latency": "The answer took at most `threshold` milliseconds.",
    "levenshtein": "The edit distance to the value is at most `threshold`.",
    "rouge-n": "ROUGE-N against the value is at least `threshold`.",
    "bleu": "BLEU against the value is at least `threshold`.",
    "similar": "The embeddings of output and value are similar.",
    "llm-rubric": "A grader says whether the output fits the rubric in `value`.",
    "factuality": "A grader compares the facts with the value.",
    "model-graded-closedqa": "A grader says whether the output meets the criterion.",
    "g-eval": "A grader writes steps from the criteria, then scores the output.",
    "select-best": "A grader chooses the best output of the row.",
    "assert-set": "Several assertions that count as one.",
}
ALIASES: Final = {
    "model-graded-factuality": "factuality",
    "similar:cosine": "similar",
}
#: Types whose value is code.
CODE_TYPES: Final = ("python", "javascript")
#: Types that need a value.
VALUED: Final = frozenset(
    [
        "equals",
        "contains",
        "contains-any",
        "contains-all",
        "icontains",
        "icontains-any",
        "icontains-all",
        "regex",
        "starts-with",
        "python",
        "javascript",
        "levenshtein",
        "rouge-n",
        "bleu",
        "similar",
        "llm-rubric",
        "factuality",
        "model-graded-closedqa",
        "g-eval",
        "select-best",
    ]
)
#: Types that nothing turns round.
NEVER_NEGATED: Final = ("assert-set", "select-best")
_NO_TRACES: Final = ("traces are not collected", "write a python assertion")
_NO_CONTEXT: Final = ("contexts of retrieval are not checked", "write an llm-rubric with the context in it")
_BY_CODE: Final = ("there is no such check", "write a python assertion")
#: Types that promptfoo has: why they are refused, and what to write instead.
REFUSED: Final = {
    "agent-rubric": ("graders are models, not agents", "write an llm-rubric"),
    "answer-relevance": ("questions are not generated from answers", "write an llm-rubric"),
    "classifier": ("there are no classifiers", "write an llm-rubric"),
    "contains-html": _BY_CODE,
    "contains-sql": _BY_CODE,
    "contains-xml": _BY_CODE,
    "context-faithfulness": _NO_CONTEXT,
    "context-recall": _NO_CONTEXT,
    "context-relevance": _NO_CONTEXT,
    "conversation-relevance": ("conversations are not graded as a whole", "write an llm-rubric"),
    "finish-reason": ("the reason is not kept", "write an llm-rubric"),
    "gleu": ("there is no GLEU", "use bleu"),
    "guardrails": ("there are no guardrails", "write an llm-rubric"),
    "human": ("results are not graded by hand", "write an llm-rubric"),
    "is-html": _BY_CODE,
    "is-refusal": ("refusals are not recognised", "write an llm-rubric"),
    "is-sql": _BY_CODE,
    "is-valid-function-call": ("only calls of tools are checked", "use is-valid-openai-tools-call"),
    "is-valid-openai-function-call": ("only calls of tools are checked", "use is-valid-openai-tools-call"),
    "is-xml": _BY_CODE,
    "max-score": ("the best of a row is chosen by a grader", "use select-best"),
    "meteor": ("there is no METEOR", "use rouge-n or bleu"),
    "moderation": ("there are no moderation APIs", "write an llm-rubric"),
    "perplexity": ("log probabilities are not kept", ""),
    "perplexity-score": ("log probabilities are not kept", ""),
    "pi": ("there is no Pi scorer", "write an llm-rubric"),
    "ruby": ("Ruby is not run", "write a python assertion"),
    "search-rubric": ("graders do not search", "write an llm-rubric"),
    "similar:dot": ("only cosine similarity is computed", "use similar"),
    "similar:euclidean": ("only cosine similarity is computed", "use similar"),
    "skill-used": _NO_TRACES,
    "tool-call-f1": ("calls are checked one by one", "use is-valid-openai-tools-call or a python assertion"),
    "trace-error-spans": _NO_TRACES,
    "trace-span-count": _NO_TRACES,
    "trace-span-duration": _NO_TRACES,
    "trajectory:goal-success": _NO_TRACES,
    "trajectory:step-count": _NO_TRACES,
    "trajectory:tool-args-match": _NO_TRACES,
    "trajectory:tool-sequence": _NO_TRACES,
    "trajectory:tool-used": _NO_TRACES,
    "webhook": ("addresses are not called by assertions", "write a python assertion"),
    "word-count": ("there is no such check", "write a javascript assertion: output.split(/\\s+/).length < 100"),
}  # fmt: skip
