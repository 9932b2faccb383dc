"""Flows: a slow branch in virtual time, graphs of 10,000 nodes, a million items, durable steps, a fan-out under a rate limit."""
