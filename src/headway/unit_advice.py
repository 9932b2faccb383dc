"""What a user can do about a unit that failed, by the code of its error. Only this module says it."""

from __future__ import annotations

from typing import Final

_ADVICE: Final[dict[str, str]] = {
    "rate": "the provider refuses too often: set a lower limit with 'headway lanes --rpm LANE=N', then retry the unit",
    "concurrency": "the provider takes fewer requests at once: 'headway lanes --max-concurrency LANE=N', then retry the unit",
    "overload": "the provider is overloaded: retry the unit later",
    "hold": "the account waits for its limit to reset: 'headway resume' goes on after that",
    "quota": "the account has no credit left, or its spend limit is reached: raise it with the provider, then 'headway resume'",
    "auth": "the provider refuses the key or the model: correct api_key_env or model in headway.toml ('headway doctor' checks them), then 'headway resume'",
    "too_large": "the request is larger than the model or its limit takes: shorten it, or choose a larger model; a retry alone fails again",
    "invalid": "the provider rejects the request as it is: correct the row or the settings that the message names, then retry the unit",
    "transient": "the connection or the provider failed: retry the unit; 'headway doctor' checks the connection",
    "crash": "the worker died: its output is among the attempts; correct the program or give it more memory, then retry the unit",
    "timeout": "it took longer than one attempt may: raise timeout, or --timeout with the retry",
    "interrupted": "the run ended before it: 'headway resume' goes on",
    "deadline": "the run's time was over before it: 'headway resume' goes on",
    "budget": "the budget is used up: raise it with 'headway budget', then 'headway resume'",
    "upstream_failed": "a unit that it needs did not succeed: retry that one, and this one follows",
}


def advice_of(code: str | None) -> str:
    """What to do about an error with this code; "" if nothing is known."""
    return _ADVICE.get(code or "", "")
