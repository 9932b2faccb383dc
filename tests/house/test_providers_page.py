"""docs/how-to/providers.md: every block is a valid configuration, and every vendor has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway.config import load
from headway.config.known_vendors import VENDORS
from headway.providers.limits.profiles import PROFILES, profile_for

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "providers.md"
BLOCKS = [
    block
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "kind" in block
]


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split("]")[0].rpartition(".")[2] for block in BLOCKS])
def test_every_block_is_a_valid_configuration(block: str, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(block, encoding="utf-8")
    [provider] = load(None, tmp_path, {}).providers.values()
    assert profile_for(provider.profile or "", provider.base_url, provider.kind).name in PROFILES
    variables = re.findall(r"# ([A-Z_]+_KEY|AWS_BEARER_TOKEN_BEDROCK)\b", block)
    assert variables in ([], [provider.api_key_env])


def test_every_vendor_is_on_the_page() -> None:
    text = "\n".join(BLOCKS)
    missing = [
        vendor.name
        for vendor in VENDORS
        if f'profile = "{vendor.name}"' not in text
        and f'"{vendor.name}"' not in text
        and f'kind = "{vendor.name}"' not in text
    ]
    assert missing == []
