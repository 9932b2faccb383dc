"""Code of users in worker processes: assertions, transforms and functions of eval files; files with functions."""
