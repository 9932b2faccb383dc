"""Whatever a lawful engine does, in whatever order: every property of books.py holds, and the run ends."""

from __future__ import annotations

from .budgets import thorough
from .machine import SchedulerMachine

TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = thorough(300)
