"""What a report says of a run beyond totals: its course over time, what it waited for, and what would have made it faster."""
