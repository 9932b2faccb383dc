"""The flags of `headway fake`: they override its configuration file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from headway.errors import ConfigError, UsageError
from headway.fake.config_file import load
from headway.fake.fake_config import AccountConfig, FakeConfig, Fault, accounts_by_key, decode_hook
from headway.fake.service import DEFAULT

#: KIND, KIND=0.05 (chance), KIND/10 (every tenth), KIND@30s (once), KIND@30s-40s (all that while), KIND+20s (reset in 20 seconds).
_FAULT = re.compile(
    r"(?P<kind>[\w-]+?)(?:\+(?P<resets>[\w.]+?))?(?:=(?P<chance>[\d.]+))?(?:/(?P<every>\d+))?(?:@(?P<from>[\w.]+)(?:-(?P<to>[\w.]+))?)?"
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
    """The configuration of a command line. `account` has the flags about the account `default`."""
    config = load(path) if path is not None else FakeConfig()
    accounts = dict(config.accounts)
    default = accounts.get(DEFAULT, AccountConfig())
    if account:
        default = accounts[DEFAULT] = _with_flags(default, account)
    for flag in keys:
        name, _, key = flag.partition("=")
        if not (name and key):
            raise UsageError(f"--key {flag}: expected NAME=KEY", hint="for example --key ALPHA=sk-alpha")
        accounts[name] = msgspec.structs.replace(accounts.get(name, default), key=key)
    if strict and not accounts:
        raise UsageError(
            "--strict: every key would be refused", hint="add --key NAME=KEY or --config FILE.yaml"
        )
    config = msgspec.structs.replace(
        config,
        accounts=accounts,
        strict=strict or config.strict,
        seed=config.seed if seed is None else seed,
        faults=(*map(parse_fault, faults), *config.faults),
    )
    accounts_by_key(config)
    return config


def _with_flags(account: AccountConfig, flags: dict[str, Any]) -> AccountConfig:
    """The account with the flags applied."""
    changes = {name: _range(value) if name in _SPREADS else value for name, value in flags.items()}
    try:
        given = msgspec.convert(changes, AccountConfig, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        flag = place.rstrip("`").replace("_", "-")
        raise UsageError(f"--{flag}: {what}" if flag else what, hint="see 'headway fake --help'") from None
    return msgspec.structs.replace(account, **{name: getattr(given, name) for name in changes})


def _range(value: str) -> object:
    """`100ms-300ms` is a range, anything else one value."""
    low, dash, high = value.partition("-")
    return {"min": low, "max": high} if dash else value


def parse_fault(text: str) -> Fault:
    """Parse the value of `--fault`."""
    match = _FAULT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--fault {text}: expected KIND, KIND=CHANCE, KIND/N, KIND@TIME, KIND@FROM-TO or KIND+RESET",
            hint="for example --fault 5xx=0.05",
        )
    fields: dict[str, Any] = {"kind": match["kind"]}
    try:
        if match["resets"]:
            fields["resets"] = match["resets"]
        if match["chance"]:
            fields["chance"] = float(match["chance"])
        if match["every"]:
            fields["every"] = int(match["every"])
        if match["to"]:
            fields["between"] = [match["from"], match["to"]]
        elif match["from"]:
            fields["at"] = match["from"]
        return msgspec.convert(fields, Fault, dec_hook=decode_hook)
    except (ValueError, ConfigError) as error:
        raise UsageError(f"--fault {text}: {str(error).partition(' - at ')[0]}") from None
