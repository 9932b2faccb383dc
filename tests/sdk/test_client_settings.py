"""The settings of a client that paces an SDK."""

from __future__ import annotations

import warnings

import pytest

from headway import Limits
from headway.providers.limits.profiles import GENERIC
from headway.sdk.client_settings import ClientSettings
from headway.sdk.request_info import RequestInfo


def _info(model: str) -> RequestInfo:
    return RequestInfo(f"api.host/{model}", "api.host", model, GENERIC, None, b"", {})


def test_limits_with_a_misspelt_model_warn_once() -> None:
    settings = ClientSettings(limits={"gpt-4.1-mni": Limits(rpm=5)})
    with pytest.warns(
        UserWarning, match="'gpt-4.1-mini' has no limits; did you mean 'gpt-4.1-mni', which has?"
    ):
        settings.terms(_info("gpt-4.1-mini"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings.terms(_info("gpt-4.1-mini"))
        settings.terms(_info("gpt-4.1-mni"))
        settings.terms(_info("another-model"))
