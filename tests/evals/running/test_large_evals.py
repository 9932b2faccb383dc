"""Reading the results of a large eval takes no more memory than of a small one."""

from __future__ import annotations

import os
import tracemalloc

from tests.evals.running.conftest import EvalRuns, named, rows_of

from headway.config import load
from headway.evals.running.eval_source import EvalSource
from headway.evals.running.job_kind import EvalKind
from headway.evals.running.view import cell_results
from headway.evals.spec import AssertionSpec
from headway.jobs.base import IngestOptions, OutputOptions
from headway.wiring.run_plan import RunFlags
from headway.wiring.submission import submitted


def peak_bytes(evals: EvalRuns, rows: int) -> int:
    """The most memory that reading took, of an eval that has not been run."""
    judge = AssertionSpec(type="llm-rubric", value="is kind", grader=named("beta"))
    spec = evals.spec(tests=rows_of([f"{n} {'x' * 500}" for n in range(rows)], asserts=(judge,)))
    config, kind = load(None, evals.root, os.environ), EvalKind()
    source = EvalSource(spec)
    flags = RunFlags(output=OutputOptions(evals.root / "results.json"))
    named_config = kind.with_named_providers(config, source)
    with submitted(named_config, source, flags, IngestOptions(fresh=True), None, print) as ready:
        store, job = ready.store, ready.job
        assert job.total == 2 * rows
        tracemalloc.start()
        try:
            assert sum(1 for _ in cell_results(store, job)) == rows
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_memory_does_not_grow_with_the_matrix(evals: EvalRuns) -> None:
    small = peak_bytes(evals, 1_000)
    assert peak_bytes(evals, 6_000) < 1.2 * small
