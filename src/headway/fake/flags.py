"""The flags of `headway fake` laid over its file: one plan out of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from headway.errors import ConfigError, UsageError
from headway.fake.config_file import load
from headway.fake.fake_config import AccountConfig, FakeConfig, Fault, accounts_by_key, decode_hook
from headway.fake.service import DEFAULT

#: KIND, KIND=0.05 (chance), KIND/10 (every tenth), KIND@30s (once), KIND@30s-40s (all that while).
_FAULT = re.compile(
    r"(?P<kind>[\w-]+?)(?:=(?P<chance>[\d.]+))?(?:/(?P<every>\d+))?(?:@(?P<from>[\w.]+)(?:-(?P<to>[\w.]+))?)?"
)
_SPREADS = ("latency", "ttft", "output_tokens")


def config_from_flags(
    path: Path | None,
    account: dict[str, Any],
    *,
    faults: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    strict: bool = False,
    seed: int | None = None,
) -> FakeConfig:
    """The plan that a command line means; `account` is what its flags say of the default account."""
    config = load(path) if path is not None else FakeConfig()
    accounts = dict(config.accounts)
    default = accounts.get(DEFAULT, AccountConfig())
    if account:
        default = accounts[DEFAULT] = _overlaid(default, account)
    for said in keys:
        name, found, key = said.partition("=")
        if not (name and found and key):
            raise UsageError(f"--key {said}: NAME=KEY is meant", hint="for example --key ALPHA=sk-alpha")
        accounts[name] = msgspec.structs.replace(accounts.get(name, default), key=key)
    if strict and not accounts:
        raise UsageError("--strict: no key would be good", hint="add --key NAME=KEY or --config FILE.yaml")
    config = msgspec.structs.replace(
        config,
        accounts=accounts,
        strict=strict or config.strict,
        seed=config.seed if seed is None else seed,
        faults=(*map(parse_fault, faults), *config.faults),
    )
    accounts_by_key(config)
    return config


def _overlaid(account: AccountConfig, said: dict[str, Any]) -> AccountConfig:
    """The account as the flags change it."""
    changes = {name: _ranged(value) if name in _SPREADS else value for name, value in said.items()}
    try:
        given = msgspec.convert(changes, AccountConfig, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        flag = place.rstrip("`").replace("_", "-")
        raise UsageError(f"--{flag}: {what}" if flag else what, hint="see 'headway fake --help'") from None
    return msgspec.structs.replace(account, **{name: getattr(given, name) for name in changes})


def _ranged(said: str) -> object:
    """`100ms-300ms` is a range; anything else one value."""
    low, found, high = said.partition("-")
    return {"min": low, "max": high} if found else said


def parse_fault(said: str) -> Fault:
    """What `--fault` means."""
    found = _FAULT.fullmatch(said)
    if found is None:
        raise UsageError(
            f"--fault {said}: KIND, KIND=CHANCE, KIND/N, KIND@TIME or KIND@FROM-TO is meant",
            hint="for example --fault 5xx=0.05",
        )
    facts: dict[str, Any] = {"kind": found["kind"]}
    try:
        if found["chance"]:
            facts["chance"] = float(found["chance"])
        if found["every"]:
            facts["every"] = int(found["every"])
        if found["to"]:
            facts["between"] = [found["from"], found["to"]]
        elif found["from"]:
            facts["at"] = found["from"]
        return msgspec.convert(facts, Fault, dec_hook=decode_hook)
    except (ValueError, ConfigError) as error:
        raise UsageError(f"--fault {said}: {str(error).partition(' - at ')[0]}") from None
