"""The parts of the scheduler: queues, starts, ends, budgets and the moves of units. PURE."""
