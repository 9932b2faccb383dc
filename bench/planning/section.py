"""The section `plan`: `headway plan` against what then happened."""

from __future__ import annotations

from collections.abc import Iterator

from bench.planning import plans, templates

# -- plan against reality -----------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## Plan against reality: `headway plan` after one calibrating run, then `headway run`"
    yield ""
    yield f"`headway run --limit {plans.SAMPLE}` calibrates; lengths and delays of answers are random. Bars: time within {plans.TIME_BAR:.0%}, cost within"
    yield f"{plans.COST_BAR:.0%}."
    yield ""
    yield "| scenario | requests | planned s (range) | took s | off | planned $ | paid $ | off | bound by |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for scenario in plans.SCENARIOS:
        print(f"plan: {scenario.name} …", flush=True)
        try:
            result = plans.measure(scenario)
        except RuntimeError as error:  # The others are still measured.
            missed.append(f"plan, {scenario.name}: {error}")
            continue
        missed += plans.misses(result)
        likely, low, high = result.time_s
        yield (
            f"| {result.name} | {result.requests:,} | {likely:.1f} ({low:.1f}–{high:.1f}) | {result.took_s:.1f} "
            f"| {result.time_off:+.1%} | {result.cost_usd:.3f} | {result.paid_usd:.3f} | {result.cost_off:+.1%} | {result.binding} |"
        )
    yield ""
    yield from _templates(missed)
    yield from _sampling(missed)


def _templates(missed: list[str]) -> Iterator[str]:
    """Plans by template: known templates, and new ones."""
    print("plan: templates …", flush=True)
    try:
        with templates.plan_folder() as at:
            known, fresh = templates.calibrated(at), templates.new(at)
    except RuntimeError as error:
        missed.append(f"plan, templates: {error}")
        return
    missed += templates.misses(known, fresh)
    yield "### One model, many templates"
    yield ""
    yield f"All jobs go to the same model from the same directory. Calibrated: a file of {templates.ROWS} rows ran before, then files of the other"
    yield f"templates; another file of the template is planned and run. Bars: time within {templates.TIME_BAR:.0%}, cost within {templates.COST_BAR:.0%}."
    yield ""
    yield "| template | planned s (range) | took s | off | planned $ (range) | paid $ | off |"
    yield "|---|---|---|---|---|---|---|"
    for one in known:
        yield f"| {one.name} | {_three(one.time_s, 1)} | {one.took_s:.1f} | {one.time_off:+.1%} | {_three(one.cost_usd, 4)} | {one.paid_usd:.4f} | {one.cost_off:+.1%} |"
    yield ""
    inside = sum(one.inside for one in fresh)
    yield f"New: files of {templates.NEW_ROWS} rows of a template that was never sent. Both figures were inside the printed range in {inside} of {len(fresh)}"
    yield f"trials (bar: {templates.INSIDE_BAR} of 10)."
    yield ""
    yield "| template | range s | took s | range $ | paid $ | inside |"
    yield "|---|---|---|---|---|---|"
    for one in fresh:
        yield f"| {one.name} | {_three(one.time_s, 1)} | {one.took_s:.1f} | {_three(one.cost_usd, 4)} | {one.paid_usd:.4f} | {'yes' if one.inside else 'no'} |"
    yield ""


def _three(figure: tuple[float, float, float], digits: int) -> str:
    likely, low, high = (f"{value:.{digits}f}" for value in figure)
    return f"{likely} ({low}–{high})"


def _sampling(missed: list[str]) -> Iterator[str]:
    print("plan: a sample against the whole …", flush=True)
    one = plans.sampling(plans.MANY, plans.TRIED)
    yield (
        f"A forecast of {one.units:,} rows from {one.tried:,} of them, compared with one from all rows, in virtual time: {one.sampled_s:,.1f} s and "
        f"{one.whole_s:,.1f} s, {one.off:+.2%} (bar: {plans.SAMPLING_BAR:.0%}); {one.sampled_cpu_s:.1f} s and {one.whole_cpu_s:.1f} s of CPU."
    )
    yield ""
    if abs(one.off) > plans.SAMPLING_BAR:
        missed.append(f"plan: a sample is off by {one.off:+.1%}, the bar is {plans.SAMPLING_BAR:.0%}")
