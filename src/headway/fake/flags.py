"""The flags of `headway fake` laid over its file: one plan out of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from headway.errors import ConfigError, UsageError
from headway.fake.config_file import load
from headway.fake.fake_config import AccountPlan, Fault, Plan, convert, owners
from headway.fake.service import DEFAULT

#: KIND, KIND=0.05 (chance), KIND/10 (every tenth), KIND@30s (once), KIND@30s-40s (all that while).
_FAULT = re.compile(
    r"(?P<kind>[\w-]+?)(?:=(?P<chance>[\d.]+))?(?:/(?P<every>\d+))?(?:@(?P<from>[\w.]+)(?:-(?P<to>[\w.]+))?)?"
)
_SPREADS = ("latency", "ttft", "output_tokens")


def plan_from(
    config: Path | None,
    account: dict[str, Any],
    *,
    faults: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    strict: bool = False,
    seed: int | None = None,
) -> Plan:
    """The plan that a command line means; `account` is what its flags say of the default account."""
    plan = load(config) if config is not None else Plan()
    accounts = dict(plan.accounts)
    default = accounts.get(DEFAULT, AccountPlan())
    if account:
        default = accounts[DEFAULT] = _overlaid(default, account)
    for said in keys:
        name, found, key = said.partition("=")
        if not (name and found and key):
            raise UsageError(f"--key {said}: NAME=KEY is meant", hint="for example --key ALPHA=sk-alpha")
        accounts[name] = msgspec.structs.replace(accounts.get(name, default), key=key)
    if strict and not accounts:
        raise UsageError("--strict: no key would be good", hint="add --key NAME=KEY or --config FILE.yaml")
    plan = msgspec.structs.replace(
        plan,
        accounts=accounts,
        strict=strict or plan.strict,
        seed=plan.seed if seed is None else seed,
        faults=(*map(fault_of, faults), *plan.faults),
    )
    owners(plan)
    return plan


def _overlaid(account: AccountPlan, said: dict[str, Any]) -> AccountPlan:
    """The account as the flags change it."""
    changes = {name: _ranged(value) if name in _SPREADS else value for name, value in said.items()}
    try:
        asked = msgspec.convert(changes, AccountPlan, dec_hook=convert)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        flag = place.rstrip("`").replace("_", "-")
        raise UsageError(f"--{flag}: {what}" if flag else what, hint="see 'headway fake --help'") from None
    return msgspec.structs.replace(account, **{name: getattr(asked, name) for name in changes})


def _ranged(said: str) -> object:
    """`100ms-300ms` is a range; anything else one value."""
    low, found, high = said.partition("-")
    return {"min": low, "max": high} if found else said


def fault_of(said: str) -> Fault:
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
        return msgspec.convert(facts, Fault, dec_hook=convert)
    except (ValueError, ConfigError) as error:
        raise UsageError(f"--fault {said}: {str(error).partition(' - at ')[0]}") from None
