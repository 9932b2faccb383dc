"""What crosses between this machine and a host on a node, as MessagePack.

There is one call, `exchange`: it brings a host its orders, and returns what has happened there. At most one call waits at the host
at a time, for news; another one that arrives makes the earlier one return. So a call is a heartbeat in both directions, and many
short units share one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.executors.work_result import WorkResult


class PoolSetup(msgspec.Struct, frozen=True, tag="pool"):
    """The worker processes of a host: what they run (`entry_point.EntryPoint`), and the settings of their `ProcessPool`."""

    entry: str
    arguments: bytes
    path: list[str]
    argv: list[str]
    main: tuple[str, str] | None
    #: Whether `arguments` have a user's callable, which only a worker can unpickle.
    has_callable: bool
    recycle_after: int
    memory_ceiling: int
    memory_limit: int
    exit_codes: tuple[int, ...]
    logs: str
    logs_root: str
    backs_off: bool
    env: tuple[str, ...] | None
    max_value: int


class ProgramSetup(msgspec.Struct, frozen=True, tag="programs"):
    """The programs of a host: the variables that they get (`ProgramEnvironment`), and the agent CLI, or ""."""

    env: tuple[str, ...] | None
    withheld: tuple[str, ...]
    cli: str


class HostSetup(msgspec.Struct, frozen=True):
    """The first message to a host. `environ` has the values of the variables that are sent to nodes. Prefixes say which Python this is."""

    version: str
    work: PoolSetup | ProgramSetup
    units: int
    root: str
    travels: bool
    environ: dict[str, str]
    prefix: str


class PoolTask(msgspec.Struct, frozen=True, tag="unit"):
    """A unit for the pool of a host."""

    number: int
    payload: bytes
    timeout_s: float
    fresh: bool


class ProgramTask(msgspec.Struct, frozen=True, tag="program"):
    """A program to run. `reads_lines`: its output is sent line by line."""

    number: int
    argv: tuple[str, ...]
    stdin: bytes
    directory: str
    environ: dict[str, str]
    mark: str
    timeout_s: float
    max_output: int
    reads_lines: bool


class Orders(msgspec.Struct, frozen=True):
    """One `exchange`: `number` counts them. `wait_s` is how long the host may wait for news; if it hears nothing for `patience_s`, it
    ends its units and itself. `room`: whether lines may be sent. `cancel` and `over` are numbers of units: to be cancelled, and those whose
    last line has come.
    """

    number: int
    wait_s: float
    patience_s: float
    room: bool = True
    tasks: list[PoolTask | ProgramTask] = []
    cancel: list[int] = []
    over: list[int] = []


class Began(msgspec.Struct, frozen=True, tag="began"):
    """A unit runs in this process now."""

    number: int
    pid: int


class ProgramLine(msgspec.Struct, frozen=True, tag="line"):
    """A line that a program printed."""

    number: int
    line: bytes
    left_out: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A unit of the pool has ended; `result` of None: it was cancelled."""

    number: int
    result: WorkResult | None


class ProgramEnded(msgspec.Struct, frozen=True, tag="program_ended"):
    """A program has ended. `end` has the fields of a `ProgramEnd`; it is empty if the program was cancelled or cannot be started, and
    then `error` is the error's number, text and file name.
    """

    number: int
    end: dict[str, Any]
    error: tuple[int, str, str] | None


class Process(msgspec.Struct, frozen=True, tag="process"):
    """A worker process has started (`ended` is None), or has ended; `failed`: it died."""

    pid: int
    name: str
    ended: bool
    failed: bool


Event = Began | ProgramLine | Ended | ProgramEnded | Process


class News(msgspec.Struct, frozen=True):
    """The answer to `Orders` with this number: what has happened, as far as it was not told before. `part` counts the answers."""

    part: int
    events: list[Event]


class HostReady(msgspec.Struct, frozen=True):
    """The answer to the setup. `why`: why no unit can run there, or ""; `is_setup` if that is the fault of the installation there."""

    node: str
    address: str
    pid: int
    why: str = ""
    is_setup: bool = False


decode_setup: Final = msgspec.msgpack.Decoder(HostSetup).decode
decode_orders: Final = msgspec.msgpack.Decoder(Orders).decode
decode_news: Final = msgspec.msgpack.Decoder(News).decode
decode_ready: Final = msgspec.msgpack.Decoder(HostReady).decode
