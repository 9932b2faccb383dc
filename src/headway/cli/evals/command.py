"""`headway eval CONFIG`: compares prompts and providers on tests; the same file again continues the job, or writes its reports again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.shared.click_options import pace_options, safe_cells_option, where_options
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.cli.shared.detach import Detachment
    from headway.evals.running.eval_source import EvalSource
    from headway.evals.spec import EvalSpec

#: The files that are looked for without an argument.
USUAL_FILES: Final = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
#: --filter-failing without the name of a job.
LATEST: Final = ""


def _share(_ctx: click.Context, _param: click.Parameter, text: str) -> float:
    """A share: "95%" or 0.95."""
    number = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    value = -1.0 if number is None else float(number[1]) / (100.0 if number[2] else 1.0)
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"--fail-under {text}: expected a share", hint="for example 95%")
    return value


def _pairs(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE texts."""
    for text in texts:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise UsageError(f"--var {text}: expected KEY=VALUE", hint="for example --var language=French")
    return {text.partition("=")[0].strip(): text.partition("=")[2] for text in texts}


def _eval_options(command: Any) -> Any:
    """The flags that only evals have."""
    for option in reversed(
        (
            click.option("--out", "outs", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Write the results to FILE: .json, .csv, .xml (JUnit), .md or .html. Repeatable. Default: outputPath of CONFIG, or CONFIG.results.json."),
            click.option("--force", is_flag=True, help="Replace an existing file that is no report of an eval."),
            safe_cells_option,
            click.option("--check", is_flag=True, help="List what CONFIG uses and is not supported; run nothing."),
            click.option("--dry-run", is_flag=True, help="Check the input and show the plan; send and write nothing."),
            click.option("--name", metavar="NAME", help="Name of the new job."),
            click.option("--fresh", is_flag=True, help="Start over as a new job, and ask everything again."),
            click.option("--retry-errors", is_flag=True, help="Run only what ended with an error in the last run."),
            click.option("--filter-pattern", default="", metavar="REGEX", help="Only tests whose description matches."),
            click.option("--filter-failing", is_flag=False, flag_value=LATEST, default=None, metavar="[JOB]", help="Only tests that did not pass in JOB (default: the latest job of CONFIG)."),
            click.option("--filter-providers", default="", metavar="REGEX", help="Only providers whose id or label matches."),
            click.option("-n", "--filter-first-n", "first_n", type=click.IntRange(min=1), metavar="N", help="Only the first N tests."),
            click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="Run each test N times."),
            click.option("--max-concurrency", "-j", type=click.IntRange(min=1), metavar="N", help="The same as --concurrency."),
            click.option("--var", "variables", multiple=True, callback=_pairs, metavar="KEY=VALUE", help="A variable of all tests. Repeatable."),
            click.option("--fail-under", default="100%", callback=_share, metavar="SHARE", show_default=True, help="Exit with code 5 if fewer cells pass."),
        )  # fmt: skip
    ):
        command = option(command)
    return command


@click.command(
    "eval",
    short_help="Compare prompts and providers on tests.",
    epilog="Example: headway eval promptfooconfig.yaml --out results.html --fail-under 95%",
)
@click.argument("path", required=False, type=click.Path(path_type=Path), metavar="[CONFIG]")
@_eval_options
@pace_options
@where_options
def command(path: Path | None, **flags: Any) -> int:
    """Run every prompt of CONFIG (default: promptfooconfig.yaml) on every provider and test, grade the answers and show the results.
    CONFIG is a configuration of promptfoo.

    Each provider is a lane with its own limits, and so is each grader: none waits for another. Everything is recorded as it
    happens: after Ctrl-C or a crash the same command resumes the job. After a change of CONFIG, answers to requests that have not
    changed are kept: a changed threshold costs nothing.

    Exit codes: 0 as many cells passed as --fail-under asks for; 5 fewer; 1 some units have no answer.
    """
    from headway.cli.shared.detach import detachable

    file = path or _usual_file()
    if flags.pop("check"):
        from headway.cli.evals.check import list_unsupported

        return list_unsupported(file, as_json=flags["as_json"])
    return detachable(lambda detachment: _run(file, detachment, **flags), flags)


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
    outs = flags["outs"] or tuple(source.spec.path.parent / name for name in source.spec.outputs)
    must_be_reports(outs)
    run_flags = _run_flags(kind, source, outs, flags)
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


def _run_flags(kind: Any, source: EvalSource, outs: tuple[Path, ...], flags: dict[str, Any]) -> Any:
    """The run options. The first output is the job's, the others have the same results."""
    import msgspec

    from headway.cli.shared import run_job
    from headway.stores.output_lock import real_path

    of_rows = {"out_dir": None, "text_only": False, "out_order": "input", "worktree": False, "shared_directory": False, "collect": ()}  # fmt: skip
    made = run_job.flags_of(
        kind,
        outs[0] if outs else None,
        lambda: str(kind.default_output(str(source.spec.path), flags)),
        only_failed=flags["retry_errors"],
        **of_rows,
        **{name: value for name, value in flags.items() if name not in ("out", "then")},
    )
    more = tuple(real_path(path) for path in outs[1:])
    output = msgspec.structs.replace(made.output, more=more)
    return msgspec.structs.replace(made, output=output, limits=source.limits)


def _source(file: Path, settings: Any, flags: dict[str, Any]) -> EvalSource:
    """The eval as its file and the flags want it."""
    import os

    from headway.config import dotenv_of
    from headway.evals.config.eval_file import read_eval
    from headway.evals.running.eval_source import EvalSource

    if not file.is_file():
        raise UsageError(f"there is no file {file}", hint="name a configuration, such as promptfooconfig.yaml")
    environ = {**dotenv_of(settings), **os.environ}
    spec = read_eval(file.absolute(), config=settings, environ=environ)
    return EvalSource(_selected(spec, settings, flags))


def _selected(spec: EvalSpec, settings: Any, flags: dict[str, Any]) -> EvalSpec:
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
