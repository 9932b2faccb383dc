"""Why lanes stopped, and what to check: the key, the address, the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.config import Config, dotenv_of, kind_of, variables_of
from headway.config.settings import ProviderConfig
from headway.core.model import Kind
from headway.core.reasons import AccountRefused, EndReason, NeverAnswered
from headway.display.formatting import clock, short
from headway.reason_text import is_plain, unit_error


def stop_lines(
    stops: Mapping[str, EndReason],
    config: Config,
    environ: Mapping[str, str],
    holds: Mapping[str, float] | None = None,
) -> list[str]:
    """A line for each lane that cannot continue, by name. `holds`: until when a lane is held, if that should be said."""
    until = holds or {}
    return [
        f"{name} stopped: {stop_reason_text(reason)}{_dashed(advice_on(config, name, reason, environ))}{_about_hold(name, until.get(name))}"
        for name, reason in sorted(stops.items())
    ]


def _dashed(advice: str) -> str:
    return f" — {advice}" if advice else ""


def _about_hold(lane: str, until_utc: float | None) -> str:
    if until_utc is None:
        return ""
    return (
        f" — held until {clock(until_utc)}; ask again then, or ignore the hold: headway lanes --reopen {lane}"
    )


def stop_reason_text(reason: EndReason) -> str:
    """Why the latest run left units of a lane unfinished, in one line: "auth: Incorrect API key provided"."""
    code, message = unit_error(reason)
    return short(message) if is_plain(reason) else f"{code}: {short(message)}"


def advice_on(config: Config, lane: str, reason: EndReason, environ: Mapping[str, str]) -> str:
    """What to check if a lane stopped for this reason; "" if nothing is known."""
    provider = config.providers.get(lane.partition("/")[0])
    if provider is None:
        return ""
    if isinstance(reason, AccountRefused) and reason.kind is Kind.AUTH and kind_of(provider).is_server:
        return _about_key(config, provider, reason, environ)
    if isinstance(reason, NeverAnswered) and reason.kind is Kind.TRANSIENT:
        return _about_address(config, provider)
    return ""


def _about_key(
    config: Config, provider: ProviderConfig, reason: AccountRefused, environ: Mapping[str, str]
) -> str:
    if reason.wrong_path:
        return f"check base_url ({provider.base_url}): it must end before the endpoint, with or without /v1"
    variables = variables_of(provider, environ, dotenv_of(config))
    if variables:
        return f"check the key in {variables}, and that it may use this model"
    return (
        f"no key was sent: {provider.api_key_env} is not set; export it or put it in .env beside headway.toml"
    )


def _about_address(config: Config, provider: ProviderConfig) -> str:
    where = f"base_url is {provider.base_url}"
    if config.path is not None:
        where += f" in [providers.{provider.name}] of {shown_path(config.path)}"
    return f"{where}; 'headway doctor' checks whether it is reachable"


def shown_path(path: Path) -> str:
    """The path relative to the working directory, if it is inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
