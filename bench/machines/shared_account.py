"""One account, three engines on three machines: what the provider admits and refuses, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from tests.crash.stage import wait_for
from tests.postgres.machines import Figures, Machine, Table, laid_table

RPM: Final = 6_000.0
BURST: Final = "2s"
PHASE_S: Final = 15.0
CHANGE_S: Final = 6.0
PATIENCE_S: Final = 60.0
#: More than are sent.
UNITS: Final = 60_000


class Phase(msgspec.Struct, frozen=True):
    """What the provider counted. `all_work`: all engines that live could work all the time. `parts`: their shares, where it was measured."""

    name: str
    figures: Figures
    all_work: bool = True
    parts: tuple[float, ...] = ()


def phases(binaries: Path, *, headers: bool) -> list[Phase]:
    """Measure one after the other. `headers`: the limits are not configured, but reported."""
    with TemporaryDirectory(prefix="hw-machines-") as name, laid_table(Path(name), binaries) as table:
        table.provide(
            "--rpm",
            str(RPM),
            "--burst",
            BURST,
            "--latency",
            "50ms-150ms",
            *(() if headers else ("--headers", "none")),
        )
        limits = "" if headers else f'rpm = {RPM:g}\nburst = "{BURST}"'
        light, cut, heavy = (table.machine(each) for each in ("light", "cut", "heavy"))
        for machine, weight, skew_s in ((light, 1.0, -4.0), (cut, 1.0, 4.0), (heavy, 2.0, 0.0)):
            machine.write(UNITS, limits, weight=weight)
            machine.start(skew_s=skew_s)
        wait_for("all three work", lambda: len(table.started(0.0, 9e12)) == 3, PATIENCE_S)
        time.sleep(CHANGE_S)
        measured = [_together(table)]
        light.kill()
        measured.append(_during(table, "the 6 s after one is killed", CHANGE_S, all_work=False))
        measured.append(_during(table, "the other two"))
        table.cut(cut)
        measured.append(_during(table, "the 6 s after one is cut off", CHANGE_S, all_work=False))
        measured.append(_during(table, "the last one, while the other is cut off"))
        measured.append(_while_mending(table, cut))
        measured.append(_during(table, "both again"))
        return measured


def _together(table: Table) -> Phase:
    began_utc = table.utc()
    phase = _during(table, "all three")
    time.sleep(CHANGE_S)  # Until the attempts are on record.
    by_job = table.started(began_utc, began_utc + PHASE_S)
    whole = sum(by_job.values())
    return msgspec.structs.replace(phase, parts=tuple(sorted(n / whole for n in by_job.values())))


def _while_mending(table: Table, cut: Machine) -> Phase:
    return _during(table, "the 6 s after it is back", CHANGE_S, all_work=False, first=lambda: table.mend(cut))


def _during(
    table: Table,
    name: str,
    seconds: float = PHASE_S,
    *,
    all_work: bool = True,
    first: Callable[[], None] = lambda: None,
) -> Phase:
    before = table.figures()
    first()
    time.sleep(seconds)
    return Phase(name, table.figures().since(before), all_work)
