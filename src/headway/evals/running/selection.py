"""Which part of an eval is run: the filters of `headway eval`, and what its flags change."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from headway.errors import UsageError
from headway.evals.running.eval_form import StoredTests
from headway.evals.running.eval_source import EVAL
from headway.evals.running.view import cell_results
from headway.evals.spec import EvalSpec, TestSpec
from headway.stores.records import Job
from headway.stores.store import Store


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Flags of the command. `failing`: tests (`test_key`) that failed before; None: all tests."""

    pattern: str = ""
    providers: str = ""
    first: int = 0
    failing: Collection[bytes] | None = None
    repeat: int = 0
    vars: Mapping[str, Any] = {}
    cached: bool = True


def selected(spec: EvalSpec, choice: Selection) -> EvalSpec:
    """The eval as the flags want it. Raises UsageError if nothing is left."""
    tests = spec.tests
    if choice.failing is not None:
        tests = tuple(test for test in tests if test_key(test) in choice.failing)
    if choice.pattern:
        wanted = _regex("--filter-pattern", choice.pattern)
        tests = tuple(test for test in tests if wanted.search(test.description))
    tests = tests[: choice.first] if choice.first else tests
    if not tests:
        raise UsageError("the filters leave no test", hint="change or leave out one of them")
    if choice.vars:
        tests = tuple(msgspec.structs.replace(test, vars={**test.vars, **choice.vars}) for test in tests)
    providers = spec.providers
    if choice.providers:
        asked = _regex("--filter-providers", choice.providers)
        providers = tuple(one for one in providers if asked.search(one.id) or asked.search(one.label))
        if not providers:
            names = ", ".join(one.name for one in spec.providers)
            raise UsageError(
                f"--filter-providers {choice.providers} leaves no provider", hint=f"there are {names}"
            )
    return msgspec.structs.replace(
        spec,
        tests=tests,
        providers=providers,
        repeat=choice.repeat or spec.repeat,
        cached=spec.cached and choice.cached,
    )


def _regex(flag: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{flag} {pattern}: not a regular expression: {error}") from None


def test_key(test: TestSpec) -> bytes:
    """What makes a test the same test in another version of its file: its description and its variables."""
    return msgspec.json.encode([test.description, test.vars], order="deterministic")


def failing_tests(store: Store, job: Job) -> set[bytes]:
    """The tests of a job with a cell that did not pass."""
    tests = StoredTests(job.id)
    numbers = {cell.test for cell in cell_results(store, job) if cell.status not in ("pass", "pending")}
    return {test_key(tests.test(store, number)) for number in sorted(numbers)}


def eval_job(store: Store, path: str, name: str) -> Job:
    """The eval that `--filter-failing` means: the named job, or the latest one of the file."""
    if name:
        job = store.job(name)
        if job is None or job.kind != EVAL:
            raise UsageError(
                f"--filter-failing {name}: there is no eval of that name", hint="see 'headway jobs'"
            )
        return job
    jobs = [
        job for job in store.jobs() if job.kind == EVAL and job.input == path and job.state != "ingesting"
    ]
    if not jobs:
        raise UsageError("--filter-failing: this file has not been run yet", hint="run it without the flag")
    return max(jobs, key=lambda job: job.id)
