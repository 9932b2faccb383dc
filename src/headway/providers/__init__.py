"""Providers: how each one is called, and what its responses mean for the lanes.

limits/         headers, bodies, error texts and exceptions → facts about limits; pure, with the profiles as its data
dialects/       one API each: requests, responses, streams; pure
http/           one attempt over a connection
adapter         the contract of everything that carries one attempt to a provider and back
call_reports    what a callable reports while it runs: a rate limit, its usage
usage_check     usage that cannot be true
scrubber        keys: kept from being shown, and removed from whatever is recorded
json_escapes    secrets that are written in JSON escapes
error_messages  an error's message as people see it

This file imports nothing, so that a command loads only what it uses.
"""
