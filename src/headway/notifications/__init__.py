"""Tells people and programs what needs them: the end of a run, a long hold, a stopped lane, a budget that is almost spent.

message   one notification: the JSON that a web address or a program gets
targets   where it goes: a web address, or a program
delivery  sends it from a thread of its own, within a bounded time
watcher   an observer that decides what is told, and when
"""
