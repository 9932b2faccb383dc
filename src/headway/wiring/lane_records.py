"""What is known of lanes before a run: settings, records, keys. Reads the records, writes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from headway.config import Config, ProviderConfig, dotenv_of, key_of, key_to_send
from headway.core.lanes.lane_memory import LaneRecord
from headway.core.model import DAY_S, MINUTE_S, Dimension, LaneLimits
from headway.errors import ConfigError
from headway.forecast.figures import LaneKnowledge
from headway.stores.records import StoredLane
from headway.stores.store import Store
from headway.wiring.run_plan import lane_for

_DIMENSIONS: Final = {
    "rpm": Dimension.REQUESTS,
    "tpm": Dimension.TOKENS,
    "input_tpm": Dimension.INPUT,
    "output_tpm": Dimension.OUTPUT,
}

#: Provider → limit → value, as in headway.toml.
WhatIf = Mapping[str, Mapping[str, float]]


class PlanKeys:
    """The key of each provider, looked up once. An optional key that is not set is None."""

    def __init__(self, config: Config, environ: Mapping[str, str], *, optional: bool) -> None:
        self._config, self._environ, self._optional = config, environ, optional
        self._dotenv = dotenv_of(config)
        self._known: dict[str, str | None] = {}

    def of(self, provider: str) -> str | None:
        if provider not in self._known:
            look_up = key_of if self._optional else key_to_send
            try:
                self._known[provider] = look_up(self._config.providers[provider], self._environ, self._dotenv)
            except ConfigError:
                if not self._optional:
                    raise
                self._known[provider] = None
        return self._known[provider]


class LaneRecords:
    """Finds what is known of every lane that a job needs."""

    def __init__(self, config: Config, store: Store, keys: PlanKeys, what_if: WhatIf) -> None:
        self._config, self._keys, self._what_if = config, keys, what_if
        self._recorded = store.lanes()
        #: Without records there is no salt, and nothing to look up with it.
        self._salt = store.salt() if self._recorded else b""
        self.utc = time.time()
        self._starts = store.starts_since(self.utc - _memory_s(config)) if self._recorded else []

    def known(self, provider: ProviderConfig, model: str) -> LaneKnowledge:
        """What is known of the lane of a provider's model."""
        key = self._keys.of(provider.name)
        spec, name = lane_for(self._config, provider, model, key or "", self._salt)
        lane = self._lane(spec.key if key is not None else None, name)
        record = None
        if lane is not None and lane.record is not None:
            record = without(
                msgspec.json.decode(lane.record, type=LaneRecord), self._what_if.get(provider.name, {})
            )
        number = None if lane is None else lane.id
        starts = [(max(0.0, self.utc - one.at_utc), one.costs) for one in self._starts if one.lane == number]
        spec = msgspec.structs.replace(spec, order=self._config.run.order)
        return LaneKnowledge(spec, name, provider.kind, record, starts)

    def _lane(self, key: str | None, name: str) -> StoredLane | None:
        """The lane by its key; without a key, the latest lane of that name."""
        if key is not None:
            return next((lane for lane in self._recorded if lane.key == key), None)
        named = [lane for lane in self._recorded if lane.name == name]
        return max(named, key=lambda lane: lane.updated_utc or 0.0, default=None)


def _memory_s(config: Config) -> float:
    """How long a recorded start still counts."""
    limits = [limits for one in config.providers.values() for limits in (one.limits, *one.models.values())]
    return DAY_S if any(one.rpd or one.tpd for one in limits) else MINUTE_S


# -- what if -------------------------------------------------------------------------------------------------------------


def changed(config: Config, what_if: WhatIf) -> Config:
    """The settings with other limits for some providers and all their models."""
    providers = dict(config.providers)
    for name, limits in what_if.items():
        provider = providers[name]
        providers[name] = msgspec.structs.replace(
            provider,
            limits=_limits(provider.limits, limits),
            models={model: _limits(own, limits) for model, own in provider.models.items()},
        )
    return msgspec.structs.replace(config, providers=providers)


def _limits(limits: LaneLimits, changes: Mapping[str, float]) -> LaneLimits:
    values = {name: int(value) if name == "max_concurrency" else value for name, value in changes.items()}
    return msgspec.structs.replace(limits, **values)


def without(record: LaneRecord, changes: Mapping[str, float]) -> LaneRecord:
    """A lane's record without the limits that `changes` replaces."""
    gone = {_DIMENSIONS[name] for name in changes if name in _DIMENSIONS}
    meters = tuple(one for one in record.meters if one.dimension not in gone or one.period_s >= DAY_S)
    window = None if "max_concurrency" in changes else record.window
    return msgspec.structs.replace(record, meters=meters, window=window)
