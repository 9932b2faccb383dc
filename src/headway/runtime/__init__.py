"""How code waits: event loops in threads of their own, and blocking waits that let signal handlers run.

loops    event loops for callers without one, and a loop in a background thread
signals  whether a signal handler raised an exception; blocking waits that stay interruptible

Imports nothing of Headway.
"""
