"""What `headway doctor` says of the Ray cluster, if a provider uses one: the package, and whether the address answers. Ray is not started."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from headway.cli.doctor_checks import Check, ok
from headway.config import Config
from headway.executors.on_ray.address import is_endpoint, known_address, silence
from headway.install_hint import install_command


def cluster_checks(config: Config) -> Iterator[Check]:
    """The checks, if any provider has `executor = "ray"`."""
    users = [
        one.name for one in config.providers.values() if getattr(one.kind_settings, "executor", "") == "ray"
    ]
    if not users:
        return
    try:
        found = version("ray")
    except PackageNotFoundError:
        text = f"{users[0]} runs on Ray, and the package ray is not installed"
        yield Check("ray", "problem", text, install_command("ray"))
        return
    yield ok("ray", f"version {found}")
    yield _address(config.ray.address)


def _address(configured: str) -> Check:
    if configured == "local":
        return ok("ray cluster", "each run starts one on this machine")
    address = known_address(configured)
    if not is_endpoint(address):
        hint = 'ray start --head, or set [ray] address = "local" or "ray://HOST:10001"'
        return Check(
            "ray cluster", "problem", f"no Ray cluster is known on this machine ({configured})", hint
        )
    if why := silence(address):
        return Check(
            "ray cluster",
            "problem",
            f"{address} does not answer: {why}",
            "start it, or correct [ray] address",
        )
    return ok("ray cluster", f"{address} answers")
