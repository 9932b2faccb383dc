"""`kind = "bedrock"`: the address contains a region, and the key may be AWS credentials. No message holds a part of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from headway.config import checks
from headway.config.kinds.provider_kind import KEY_CHARACTERS, TableError
from headway.config.kinds.servers import ServerKind
from headway.config.known_vendors import Vendor
from headway.config.settings import ProviderConfig
from headway.errors import ConfigError
from headway.install_hint import install_command

#: Access key, secret, and the optional session token.
AWS_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: A key that begins with this names an AWS profile: AWS's own library finds its credentials. No real key begins so.
AWS_CHAIN: Final = "aws-chain:"


class BedrockKind(ServerKind):
    """Amazon Bedrock."""

    other_variables = AWS_VARIABLES

    def other_key(
        self, provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]
    ) -> str:
        """AWS credentials as one key, `ACCESS:SECRET` or `ACCESS:SECRET:TOKEN`; or the profile for AWS's library.

        From the environment, then from `.env`; parts of one credential are never taken from both.
        """
        for source in (environ, dotenv):
            parts = [source.get(name, "") for name in AWS_VARIABLES]
            if parts[0] and parts[1]:
                if not all(KEY_CHARACTERS.fullmatch(part) for part in parts if part):
                    raise ConfigError(
                        f"provider '{provider.name}': one of {', '.join(AWS_VARIABLES)} holds a character that is not allowed in a key",
                        hint="set it again, without quotes or anything around it",
                    )
                return ":".join(part for part in parts if part)
        if find_spec("botocore") is not None:
            return AWS_CHAIN + environ.get("AWS_PROFILE", "default")
        raise ConfigError(
            f"provider '{provider.name}': neither {provider.api_key_env} nor {AWS_VARIABLES[0]} and {AWS_VARIABLES[1]} are set",
            hint="export them, or put them in .env beside headway.toml; profiles, SSO and roles need: "
            + install_command("bedrock"),
        )

    def other_source(self, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
        """Both variables, or AWS's own library."""
        names = AWS_VARIABLES[:2]
        both = all(environ.get(name) or dotenv.get(name) for name in names)
        return " and ".join(names) if both else "AWS's own profile or role"

    def account(self, key: str) -> str:
        """Without the token, which changes every hour while the account stays the same."""
        return ":".join(key.split(":")[:2])

    def _address(self, vendor: Vendor, values: dict[str, Any]) -> str:
        if "region" not in values:
            raise TableError("region", 'missing; the one where your models are, such as "us-east-1"')
        return super()._address(vendor, values)


BEDROCK: Final = BedrockKind("bedrock", region=checks.region)
