"""The loop that performs what the scheduler decides: events in, record, act. No policy of its own."""
