"""Azure OpenAI's dialect: OpenAI's, with a key in a header of its own and a deployment where OpenAI has a model.

Two APIs. The v1 API (`…/openai/v1/chat/completions`) takes the deployment's name as the model. With an `api_version`
the deployment is in the path: `…/openai/deployments/NAME/chat/completions?api-version=…`. A row's path names the
deployment either way (`/deployments/NAME/chat/completions`), so that a job does not depend on which one is configured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from yarl import URL

from headway.providers.dialects.addresses import address_of
from headway.providers.dialects.openai import OpenAIDialect

_DEPLOYMENTS: Final = "/deployments/"
#: Suffixes that portals and examples add to the address of a resource.
_ENDS: Final = ("/openai/v1", "/openai")


def deployment_path(model: str, below: str) -> str:
    """The path of a deployment's endpoint."""
    return f"{_DEPLOYMENTS}{quote(model, safe='')}{below}"


class AzureDialect(OpenAIDialect):
    """The dialect of Azure OpenAI."""

    kind = "azure"
    root = ""
    request_id = "apim-request-id"

    def __init__(self, api_version: str = "") -> None:
        super().__init__()
        self._api_version = api_version

    def address(self, base_url: str) -> str:
        """The resource, for each form of its address."""
        address = address_of(base_url)
        end = next((end for end in _ENDS if address.endswith(end)), "")
        return address.removesuffix(end)

    def url(self, root: str, path: str) -> URL:
        """The URL of a deployment's endpoint."""
        below = path.removeprefix("/v1")
        if self._api_version:
            return URL(f"{root}/openai{below}?api-version={self._api_version}", encoded=True)
        if below.startswith(_DEPLOYMENTS):
            below = "/" + below.removeprefix(_DEPLOYMENTS).partition("/")[2]
        return URL(f"{root}/openai/v1{below}", encoded=True)

    def headers(self, key: str) -> Iterator[tuple[str, str]]:
        """The key."""
        if key:
            yield "api-key", key
