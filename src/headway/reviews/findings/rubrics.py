"""The axes of a review: what one question about a file looks for. Six are built in; a file with a rubric makes another one.

Each built-in axis has a vocabulary of rules. A rule's name is part of a finding's fingerprint, so a model should use the same name for the same fault
in every run. It may add a name where none fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec


class ReviewAxis(msgspec.Struct, frozen=True, kw_only=True):
    """One point of view. `rules`: name → what the rule means, in a few words."""

    name: str
    title: str
    text: str
    rules: Mapping[str, str] = {}


_CORRECTNESS: Final = ReviewAxis(
    name="correctness",
    title="Correctness",
    text=(
        "Find code that does something else than its author meant. Follow the values through each function: empty, missing, negative and very large "
        "inputs, the first and the last element, a loop that ends early, an error between two changes that belong together, two callers at the same time. "
        "Name the input or the order of events that shows the fault, and what happens then. Code that is only unusual is no finding."
    ),
    rules={
        "wrong-condition": "a condition is inverted, incomplete or compares the wrong values",
        "off-by-one": "a bound, an index or a range is wrong by one",
        "missing-case": "an input or a state is possible and not covered",
        "null-access": "a value that may be missing is used as if it were there",
        "wrong-type": "a value of another type than expected is stored, passed or returned",
        "lost-error": "an error is swallowed, hidden or reported as a success",
        "race": "the result depends on the order of concurrent work",
        "resource-leak": "a file, a connection, a lock or a task is not given back on every path",
        "partial-update": "a failure leaves data half changed",
        "wrong-result": "the value that is computed or returned is wrong",
        "wrong-call": "a function of a library or of this project is called against its contract",
        "endless-loop": "a loop or a recursion may not end",
    },
)
_SECURITY: Final = ReviewAxis(
    name="security",
    title="Security",
    text=(
        "Find what an attacker could use. Ask where data from outside enters (requests, files, arguments, environment, other services, model output), and where it "
        "reaches a command, a query, a path, a page, a template, a log or a parser. Say who the attacker is, what must be sent, and what is gained. "
        "Severity follows what is gained and how easily. A danger that only a trusted administrator can cause is low or info."
    ),
    rules={
        "command-injection": "outside data reaches a shell or the arguments of a program",
        "sql-injection": "outside data becomes part of a query",
        "path-traversal": "outside data decides which file is read or written",
        "cross-site-scripting": "outside data becomes markup or script of a page",
        "server-side-request": "outside data decides which address the program calls",
        "unsafe-deserialization": "outside data is decoded in a way that runs code",
        "code-injection": "outside data is evaluated as code or as a template",
        "missing-authorization": "an action does not check who asks for it",
        "broken-authentication": "an identity can be forged, guessed or reused",
        "secret-in-code": "a key, a password or a token is in the source",
        "secret-in-log": "a secret or personal data reaches a log or an error message",
        "weak-cryptography": "an algorithm, a key or a random number is too weak for its use",
        "unchecked-certificate": "the other side of a connection is not verified",
        "resource-exhaustion": "a small input makes the program use much time, memory or disk",
        "insecure-permissions": "a file, a socket or a setting is open to too many",
        "check-then-use": "what was checked can change before it is used",
    },
)
_PERFORMANCE: Final = ReviewAxis(
    name="performance",
    title="Performance",
    text=(
        "Find work that grows faster than it has to, or waits without need. Say what grows (rows, files, users), how the cost grows with it, and at which size it "
        "starts to hurt. Report only what a user would notice in real use of this code; a constant factor on a path that runs once is no finding."
    ),
    rules={
        "quadratic-work": "the work grows with the square of the input, or faster",
        "query-in-loop": "a query or a request is made for each element instead of once",
        "repeated-work": "the same value is computed or loaded again and again",
        "blocking-call": "a call blocks an event loop, a lock or a user interface",
        "unbounded-memory": "memory grows with the input though a part at a time would do",
        "unbounded-cache": "a cache or a list grows for the life of the process",
        "needless-copy": "large data is copied, converted or parsed without need",
        "missing-index": "data is searched from end to end where an index or a map would do",
        "serial-waiting": "independent waits happen one after the other",
        "wide-lock": "a lock is held longer than what it protects",
    },
)
_TESTS: Final = ReviewAxis(
    name="tests",
    title="Tests",
    text=(
        "If the file has tests: find those that prove less than they claim, that can pass while the code is broken, or that fail now and then. If the file has code: find the "
        "behaviour whose fault would matter most and that is hard to test as it is written, and say what stands in the way. You may see this file alone, "
        "so do not report that a test is missing unless the file itself shows it."
    ),
    rules={
        "no-assertion": "a test checks nothing that could fail",
        "weak-assertion": "a test would pass with a wrong result",
        "tests-the-mock": "a test checks its own stand-in instead of the code",
        "flaky-test": "a test depends on time, order, chance, the network or the machine",
        "shared-state": "tests influence each other",
        "missing-edge": "the tests of a function leave out a case that is likely to break",
        "wrong-expectation": "a test demands a result that is wrong",
        "skipped-test": "a test is switched off without a reason that holds",
        "untestable-code": "time, chance or the outside world cannot be replaced in a test",
    },
)
_READABILITY: Final = ReviewAxis(
    name="readability",
    title="Readability",
    text=(
        "Find what makes the next reader misunderstand the code or need far longer than necessary: names that say something else than the thing is, comments that are wrong, "
        "functions that do several things, hidden effects, the same rule written twice. Respect the style that the file already has; formatting and taste are no findings. "
        "Suggest the better name or the split, concretely. Severity is low or info unless a reader is likely to be misled into a fault."
    ),
    rules={
        "misleading-name": "a name says something else than the thing is or does",
        "wrong-comment": "a comment or a docstring contradicts the code",
        "long-function": "a function does several things that could have names of their own",
        "deep-nesting": "conditions or loops are nested so deeply that the paths are hard to follow",
        "hidden-effect": "a function changes something that its name and its result do not show",
        "duplicated-rule": "the same rule or constant is written in more than one place",
        "magic-value": "a number or a text has a meaning that is not said",
        "unclear-contract": "what a function expects or returns cannot be seen",
        "mixed-levels": "details and decisions are mixed in one place",
    },
)
_DEAD_CODE: Final = ReviewAxis(
    name="dead-code",
    title="Dead code",
    text=(
        "Find code that no execution reaches or whose result nothing uses, judged by this file: statements after a return, conditions that are always true or always false, "
        "assignments that are overwritten unread, private functions and imports without a use, parameters that nothing reads, code in comments. A public name may be used by other "
        "files: it is a finding only if the file proves the contrary. Names that a framework calls, registers or exports are in use."
    ),
    rules={
        "unreachable-code": "no execution gets here",
        "constant-condition": "a condition always has the same result",
        "unused-variable": "a value is assigned and never read",
        "unused-import": "an import is not used",
        "unused-function": "a private function, method or class has no use in the file",
        "unused-parameter": "a parameter is never read",
        "commented-code": "code is kept in a comment",
        "old-flag": "a switch, a fallback or a workaround has lost its purpose",
        "duplicate-code": "a branch or a function repeats another one and can go",
    },
)

#: The built-in axes by name, in the order in which reports show them.
RUBRICS: Final[Mapping[str, ReviewAxis]] = {
    axis.name: axis for axis in (_CORRECTNESS, _SECURITY, _PERFORMANCE, _TESTS, _READABILITY, _DEAD_CODE)
}


def axis_digest(axis: ReviewAxis) -> str:
    """Changes when the question about a file changes: an answer to another rubric is no answer to this one."""
    return hashlib.sha256(msgspec.json.encode([axis.name, axis.text, sorted(axis.rules.items())])).hexdigest()
