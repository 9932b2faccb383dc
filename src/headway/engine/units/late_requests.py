"""Requests that are made from the answers of other units, when the unit's turn comes.

The answers must be committed before they are read. So a request waits for the batch that was open when the scheduler asked for
it: what the scheduler knew then is in that batch, or in an earlier one. The reader's thread makes the request, and the kind of
job says how (`run_spec.Render`). From then on the unit has its real size, and the scheduler decides when it may start.

The request is recorded ahead of the intent to send it: after a crash the records have what may have been sent. It is kept in
memory until its unit has ended, because what the store has may not be committed yet when the unit is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headway.core.events import Rendered
from headway.core.model import Unit
from headway.engine.recorder import Recorder
from headway.engine.run_spec import Render, RenderedRequest
from headway.engine.units.unit_cursors import StoreSource
from headway.errors import HeadwayError
from headway.providers.adapter import Request
from headway.stores.store import Store


class LateRequests:
    """The late requests of one run. All methods are for the engine's thread."""

    def __init__(
        self,
        render: Render | None,
        recorder: Recorder,
        source: StoreSource,
        tell: Callable[[Rendered], None],
        *,
        with_ids: bool = False,
    ) -> None:
        self._render, self._recorder = render, recorder
        self._source, self._tell, self._with_ids = source, tell, with_ids
        #: By unit, from when they are made until the unit has ended.
        self.requests: dict[int, Request] = {}

    def make(self, unit: Unit) -> None:
        """Make the request of a unit as soon as everything that is decided now is committed."""
        self._recorder.after_commit(self._read, unit)
        self._recorder.hurry()

    def ended(self, index: int) -> None:
        """The unit has ended, and needs its request no more."""
        self.requests.pop(index, None)

    def _read(self, unit: Unit) -> None:
        self._recorder.read(partial(self._rendered, unit), partial(self._made, unit))

    def _rendered(self, unit: Unit, store: Store) -> tuple[RenderedRequest | str, str]:
        """The request, or why there is none, and the unit's id. In the reader's thread."""
        assert self._render is not None
        unit_id = store.custom_id(self._recorder.job, unit.index) if self._with_ids else ""
        try:
            return self._render(store, unit.index), unit_id
        except HeadwayError as error:
            return str(error), unit_id

    def _made(self, unit: Unit, result: tuple[RenderedRequest | str, str]) -> None:
        index = unit.index
        made, unit_id = result
        if isinstance(made, str):
            self._tell(Rendered(index, None, made))
            return
        self.requests[index] = Request(made.path, made.body, unit_id=unit_id)
        self._recorder.batch.rendered.append((index, made.body, made.chars))
        self._tell(Rendered(index, self._source.resized(unit, made)))
