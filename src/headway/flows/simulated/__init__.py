"""Flows in virtual time: the real run of a flow over the real scheduler, with modelled durations. For `headway simulate` and `headway plan`."""
