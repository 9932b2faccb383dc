"""A `dataset` node ends at once. Its field is a list of rows that are read when they are needed. PURE."""

from __future__ import annotations

from headway.flows.running.state.field_parts import Given, Part
from headway.flows.running.state.run_values import RowList
from headway.flows.running.state.state_fold import VisibleState
from headway.flows.running.steps.node_run import NodeRun


class DataSetRun(NodeRun):
    """It has no iterations, so it is over when it has started."""

    __slots__ = ()

    def _find_items(self, view: VisibleState) -> str:
        return ""

    def _part(self, field: str) -> Part:
        return Given(RowList(self.flow.scope.values, self.tally.path))
