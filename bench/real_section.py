"""The section `real`: pacing in real time, a lane beside one in trouble, a faulty provider."""

from __future__ import annotations

from collections.abc import Iterator

from bench import real

# -- in real time -------------------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## In real time: `headway run` against `headway fake`, beside an oracle"
    yield ""
    yield f"Two accounts in one job, A like OpenAI (tokens bind) and B like Anthropic (input tokens bind): {real.RATE:.0f}"
    yield f"requests per second each for {real.LENGTH_S:.0f} s, answers after 0.1 to 0.6 s. The oracle knows all limits and depths. It runs at the"
    yield "same time on its own accounts. Makespan: from an account's first admission to its last."
    yield ""
    yield "| case | account | bar | oracle s (429s per 1000) | Headway s (429s per 1000) | ÷ oracle |"
    yield "|---|---|---|---|---|---|"
    for bar in real.BARS:
        print(f"real time: {bar.name} …", flush=True)
        try:
            case = real.paced(bar.limits_from, bar.depth_s)
        except RuntimeError as error:  # The other cases are still measured.
            missed.append(f"{bar.name}: {error}")
            continue
        missed += real.misses(bar, case)
        for lap in case.laps:
            yield (
                f"| {bar.name} | {lap.account} | ≤ {bar.ratio} ({bar.refused_per_1000:g}) "
                f"| {lap.oracle_s:.2f} ({lap.oracle_refused_per_1000:.1f}) "
                f"| {lap.makespan_s:.2f} ({lap.refused_per_1000:.1f}) | {lap.ratio:.3f} |"
            )
    yield ""
    yield from _beside_trouble(missed)
    yield from _faulty(missed)


def _beside_trouble(missed: list[str]) -> Iterator[str]:
    yield "### A lane beside one in trouble, compared with running alone"
    yield ""
    alone_s = 0.0
    for trouble, name in real.TROUBLES.items():
        print(f"real time: {name} …", flush=True)
        case = real.beside(trouble)
        missed += real.unsound(f"a lane {name}", case)
        taken_s = case.laps[0].makespan_s
        alone_s = alone_s or taken_s
        ratio = taken_s / alone_s
        yield f"- {name}: {taken_s:.2f} s" + (f", {ratio:.3f} (bar: ≤ {real.BESIDE})" if trouble else "")
        if ratio > real.BESIDE:
            missed.append(f"a lane {name}: {ratio:.3f} of its time alone, the bar is {real.BESIDE}")
    yield ""


def _faulty(missed: list[str]) -> Iterator[str]:
    print("real time: a faulty provider …", flush=True)
    yield "### A faulty provider"
    yield ""
    case = real.faulty()
    missed += real.unsound("a faulty provider", case)
    met = ", ".join(f"{count} × {name}" for name, count in case.faults.items())
    output = case.output
    yield (
        f"{case.units:,} units in {case.attempts:,} attempts ({met}): {output.lost} lost, {output.wrong} wrong, "
        f"{output.double} double."
    )
    yield ""
