"""`headway eval CONFIG`: compares prompts and providers on tests; the same file again continues the job, or writes its reports again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.evals.options import eval_options
from headway.cli.shared.click_options import pace_options, where_options
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.cli.shared.detach import Detachment
    from headway.config import Config
    from headway.evals.config.eval_file import CheckedEval
    from headway.evals.running.eval_source import EvalSource
    from headway.evals.running.job_kind import EvalKind
    from headway.evals.spec import EvalSpec
    from headway.wiring.run_plan import RunFlags

#: The files that are looked for without an argument.
USUAL_FILES: Final = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")


@click.command(
    "eval",
    short_help="Compare prompts and providers on tests.",
    epilog="Example: headway eval promptfooconfig.yaml --out results.html --fail-under 95%",
)
@click.argument("path", required=False, type=click.Path(path_type=Path), metavar="[CONFIG]")
@eval_options
@pace_options
@where_options
def command(path: Path | None, **flags: Any) -> int:
    """Run every prompt of CONFIG (default: promptfooconfig.yaml) on every provider and test, grade the answers and show the results.
    CONFIG is a configuration of promptfoo.

    Each provider is a lane with its own limits, and so is each grader: none waits for another. Everything is recorded as it
    happens: after Ctrl-C or a crash the same command resumes the job. After a change of CONFIG, answers to requests that have not
    changed are kept: a changed threshold costs nothing.

    Exit codes: 0 as many cells passed as --fail-under asks for; 5 fewer (errors have not passed); 1 enough passed, but some units have no
    answer, or a lane stopped.
    """
    from headway.cli.shared.detach import detachable

    file = path or _usual_file()
    if flags.pop("check"):
        return _check(file, **flags)
    return detachable(lambda detachment: _run(file, detachment, **flags), flags)


def _check(file: Path, *, config: Path | None, db: str | None, as_json: bool, **flags: Any) -> int:
    from headway.cli.evals.check import list_unsupported
    from headway.cli.shared import workspace
    from headway.evals.running.job_kind import EvalKind

    settings = workspace.settings_for(EvalKind(), config, db, provider=None, model=(), **flags)
    return list_unsupported(file, _checked(file, settings), as_json=as_json)


def _checked(file: Path, settings: Config) -> CheckedEval:
    """The eval of a file, or what is wrong with it."""
    import os

    from headway.config import dotenv_of
    from headway.evals.config.eval_file import check_eval

    if not file.is_file():
        raise UsageError(
            f"there is no file {file}", hint="name a configuration, such as promptfooconfig.yaml"
        )
    return check_eval(file.absolute(), config=settings, environ={**dotenv_of(settings), **os.environ})


def _usual_file() -> Path:
    found = next((Path(name) for name in USUAL_FILES if Path(name).is_file()), None)
    if found is None:
        raise UsageError("there is no promptfooconfig.yaml here", hint="name the configuration")
    return found


def _run(
    file: Path,
    detachment: Detachment | None,
    *,
    config: Path | None,
    db: str | None,
    dry_run: bool,
    fail_under: float,
    **flags: Any,
) -> int:
    from headway.cli.run import counter
    from headway.cli.shared import printing, run_job, workspace
    from headway.evals.running.job_kind import EvalKind
    from headway.jobs.base import IngestOptions
    from headway.wiring.report_files import must_be_reports
    from headway.wiring.submission import submitted

    kind = EvalKind()
    flags["concurrency"] = flags["concurrency"] or flags.pop("max_concurrency")
    settings = workspace.settings_for(kind, config, db, provider=None, model=(), **flags)
    source = _source(file, settings, flags)
    again = _error_units(settings, kind, source) if flags["retry_errors"] else ()
    outs = flags["outs"] or tuple(source.spec.path.parent / name for name in source.spec.outputs)
    must_be_reports(kind, outs)
    run_flags = _run_flags(kind, source, outs, {**flags, "only_units": again})
    settings = kind.with_named_providers(settings, source)
    quiet, say = flags["quiet"], printing.say_unless(flags["quiet"])
    if not quiet:
        workspace.print_config_notes(settings)
        workspace.warn_network_file_system(settings)
    options = IngestOptions(flags["fresh"], False, counter(quiet), say, flags["name"] or "")
    if dry_run:
        from headway.cli import dry_run as ahead

        return ahead.dry_run(settings, source, run_flags, options, flags["as_json"], quiet)
    with submitted(settings, source, run_flags, options, flags["max_cost"], say) as ready:
        code = run_job.run_ready(
            ready,
            detachment,
            progress=flags["progress"],
            quiet=quiet or flags["as_json"],
            as_json=False,
        )
        if detachment is not None:
            return code
        from headway.cli.evals.summary import show_results

        job = ready.store.job(ready.job.name) or ready.job
        return show_results(ready.store, job, code, fail_under, as_json=flags["as_json"], quiet=quiet)


def _error_units(settings: Config, kind: EvalKind, source: EvalSource) -> tuple[int, ...]:
    """What --retry-errors runs again. Their answers stay until new ones are committed."""
    from headway.evals.running.error_units import error_units
    from headway.jobs.find_or_add import find
    from headway.wiring.store_access import open_store_or_empty

    with open_store_or_empty(settings) as store:
        job = find(store, kind.with_named_providers(settings, source), source)
        if job is None:
            raise UsageError(
                f"--retry-errors: {source.name} has not been run as it is now", hint="leave out the flag"
            )
        return tuple(error_units(store, job))


def _run_flags(kind: EvalKind, source: EvalSource, outs: tuple[Path, ...], flags: dict[str, Any]) -> RunFlags:
    """The run options. The first output is the job's, the others have the same results."""
    import msgspec

    from headway.cli.shared import run_job
    from headway.stores.output_lock import real_path

    of_rows = {"out_dir": None, "text_only": False, "out_order": "input", "worktree": False, "shared_directory": False, "collect": ()}  # fmt: skip
    made = run_job.flags_of(
        kind,
        outs[0] if outs else None,
        lambda: str(kind.default_output(str(source.spec.path), flags)),
        **of_rows,
        **{name: value for name, value in flags.items() if name not in ("out", "then")},
    )
    more = tuple(real_path(path) for path in outs[1:])
    output = msgspec.structs.replace(made.output, more=more)
    return msgspec.structs.replace(made, output=output, limits=source.limits)


def _source(file: Path, settings: Config, flags: dict[str, Any]) -> EvalSource:
    """The eval as its file and the flags want it."""
    from headway.cli.shared.printing import say_unless
    from headway.evals.config.eval_file import spec_of
    from headway.evals.running.eval_source import EvalSource

    checked = _checked(file, settings)
    spec = spec_of(checked, file.absolute())
    for problem in checked.problems:
        say_unless(flags["quiet"])(problem.text(file.name))
    return EvalSource(_selected(spec, settings, flags))


def _selected(spec: EvalSpec, settings: Config, flags: dict[str, Any]) -> EvalSpec:
    from headway.evals.running.selection import Selection, eval_job, failing_tests, selected
    from headway.wiring.store_access import open_store_or_empty

    failing = None
    if flags["filter_failing"] is not None:
        with open_store_or_empty(settings) as store:
            failing = failing_tests(store, eval_job(store, str(spec.path), flags["filter_failing"]))
        if not failing:
            raise UsageError("--filter-failing: every test has passed", hint="leave out the flag")
    choice = Selection(
        pattern=flags["filter_pattern"],
        providers=flags["filter_providers"],
        first=flags["first_n"] or 0,
        failing=failing,
        repeat=flags["repeat"] or 0,
        vars=flags["variables"],
        cached=flags["cache"] != "off",
    )
    return selected(spec, choice)
