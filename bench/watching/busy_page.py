"""A server that feeds the page of the dashboard as fast as it may be fed: a job with many lanes, ten changes a second.

A real run writes its progress twice a second, so this rate cannot come from one. The page and its files are the real ones.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from headway.dashboard.page_files import SHELL, page_files

LANES: Final = 20
CHANGES_PER_S: Final = 10
JOB: Final = "busy"
TOTAL: Final = 100_000
_POINTS: Final = 300


def job_row(tick: int) -> dict[str, Any]:
    """The job at a moment: everything that can change has changed."""
    done = min(TOTAL, 100 * tick)
    counts = {"pending": TOTAL - done - 80, "assigned": 0, "running": 80, "succeeded": done - tick, "cached": 0, "failed": tick, "timed_out": 0, "skipped": 0, "cancelled": 0}  # fmt: skip
    held = {"level": "warning", "what": f"lane-7/model waits: hold {tick}", "do": "It goes on by itself.", "command": "headway lanes --reopen lane-7/model", "action": None, "until_utc": time.time() + 60}  # fmt: skip
    return {
        "job": JOB, "kind": "batch", "state": "running", "live": True, "input": "in.jsonl", "total": TOTAL, "counts": counts, "attempts": done + tick, "refused": tick,
        "cost_usd": done * 0.0003, "created_utc": time.time() - tick, "started_utc": time.time() - tick, "finished_utc": None, "eta_s": (TOTAL - done) / 1000, "rate_per_s": 1000 + tick % 50,
        "trouble": [held], "lanes": [lane_row(number, tick) for number in range(LANES)], "elapsed_s": tick, "failures": [], "parts": {}, "models": ["model"], "csrf": "none",
    }  # fmt: skip


def lane_row(number: int, tick: int) -> dict[str, Any]:
    """One lane at a moment."""
    used = 0.5 + 0.5 * math.sin(tick / 9 + number)
    limits = [
        {"name": name, "dimension": name.partition(" ")[0], "limit": limit, "level": used * limit, "source": "reported", "used_share": used}
        for name, limit in (("requests per minute", 3000), ("tokens per minute", 200_000))
    ]  # fmt: skip
    return {
        "lane": f"lane-{number}/model", "provider": f"lane-{number}", "model": "model", "in_flight": (tick + number) % 32, "window": 32, "queued": tick % 97, "remaining": TOTAL - tick,
        "rate_per_s": 40 + (tick + number) % 20, "limits": limits, "binding": "requests per minute", "wait": None, "held": None, "stopped": None, "refused": tick, "succeeded": 5 * tick, "failed": tick % 7,
        "cost_usd": tick * 0.01, "input_tokens": tick * 900, "output_tokens": tick * 400, "others_share": 0.0, "eta_s": 900 - tick % 60,
    }  # fmt: skip


def history(ends: list[float], tick: int) -> dict[str, Any]:
    """The history of all lanes at these instants."""
    curves = {
        name: [base + 40 * math.sin((tick + n) / 5) for n in range(len(ends))]
        for name, base in (("starts_per_min", 2500), ("tokens_per_min", 150_000), ("in_flight", 50), ("queued", 90))
    }  # fmt: skip
    fixed = {"limit_per_min": 3000, "token_limit_per_min": 200_000, "window": 64, "refused": 1}
    lane = {**curves, **{name: [value] * len(ends) for name, value in fixed.items()}}
    return {"t": ends, "lanes": {f"lane-{number}/model": lane for number in range(LANES)}, "holds": [], "done": [], "cost_usd": []}  # fmt: skip


def _frame(kind: str, value: Mapping[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n".encode()


async def _events(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    tick = 1
    try:
        while True:
            await answer.write(_frame("progress", job_row(tick)))
            if tick % CHANGES_PER_S == 0:
                await answer.write(_frame("sample", history([time.time()], tick)))
            tick += 1
            await asyncio.sleep(1 / CHANGES_PER_S)
    except ConnectionError:
        return answer


@asynccontextmanager
async def busy_server() -> AsyncIterator[str]:
    """The server; gives the address of the job's page."""
    files = page_files()

    async def file(request: web.Request) -> web.Response:
        found = files[request.match_info.get("name", SHELL)]
        return web.Response(body=found.content, headers={"content-type": found.type})

    async def job(_: web.Request) -> web.Response:
        return web.json_response(job_row(1))

    async def past(_: web.Request) -> web.Response:
        now = time.time()
        return web.json_response(history([now - _POINTS + n for n in range(_POINTS)], 0))

    application = web.Application()
    application.router.add_get("/assets/{name:.+}", file)
    application.router.add_get(f"/jobs/{JOB}", file)
    application.router.add_get(f"/api/jobs/{JOB}", job)
    application.router.add_get(f"/api/jobs/{JOB}/history", past)
    application.router.add_get("/api/events", _events)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/jobs/{JOB}"
    finally:
        await runner.cleanup()
