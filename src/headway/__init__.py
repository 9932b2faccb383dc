"""Headway runs LLM and agent work at the edge of every provider's rate limit, and never loses a unit.

This file owns the public names. It must stay free to import: no third-party package, nothing that
reads a file. The build takes the version from here.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
