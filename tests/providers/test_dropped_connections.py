"""Idle connections that the server has closed, found before a request is sent over them."""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import pytest

from headway.providers.http.connections import PooledConnection
from headway.providers.http.dropped_connections import DroppedConnections


class Idle:
    """An idle connection as the check sees it."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self.closed = self.is_new = False
        self.checked_in = 0

    @property
    def descriptor(self) -> int:
        return self._near.fileno()

    def drop(self) -> None:
        """The server closes it; the loop has not seen that."""
        self._far.close()

    def close(self) -> None:
        self._near.close()
        self._far.close()


@pytest.fixture
def idle() -> Iterator[deque[Idle]]:
    connections = deque(Idle() for _ in range(12))
    yield connections
    for connection in connections:
        connection.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    made: list[None] = []
    real = select.poll

    def counted() -> Any:
        made.append(None)
        return real()

    monkeypatch.setattr(select, "poll", counted)
    return made


def check(idle: deque[Idle]) -> DroppedConnections:
    return DroppedConnections(cast("deque[PooledConnection]", idle))


def has(check: DroppedConnections, connection: Idle) -> bool:
    return check.has(cast(PooledConnection, connection))


async def test_every_dropped_connection_is_found_however_many_are_used_in_one_round(
    idle: deque[Idle],
) -> None:
    dropped = {0, 3, 4, 9, 11}
    numbers = {id(connection): number for number, connection in enumerate(idle)}
    for number in dropped:
        idle[number].drop()
    waiting, found = deque(idle), set()
    checked = check(waiting)
    while waiting:
        connection = waiting.pop()
        if has(checked, connection):
            found.add(numbers[id(connection)])
    assert found == dropped


async def test_the_requests_of_one_round_share_their_looks(idle: deque[Idle], looks: list[None]) -> None:
    waiting = deque(idle)
    checked = check(waiting)
    while waiting:
        assert not has(checked, waiting.pop())
    assert len(looks) == 4  # 1 + 2 + 4 + 5 connections.


async def test_a_look_does_not_count_in_the_next_round(idle: deque[Idle], looks: list[None]) -> None:
    checked = check(idle)
    assert not has(checked, idle[-1])
    assert not has(checked, idle[-1])
    assert len(looks) == 1
    idle[-1].drop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert has(checked, idle[-1])


async def test_a_closed_one_is_dropped_and_a_new_one_is_not_without_a_look(
    idle: deque[Idle], looks: list[None]
) -> None:
    checked = check(idle)
    idle[0].closed, idle[1].is_new = True, True
    assert has(checked, idle[0])
    assert not has(checked, idle[1])
    assert not looks
