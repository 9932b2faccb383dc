"""Code of eval files in worker processes: assertions, transforms, and functions that are providers."""
