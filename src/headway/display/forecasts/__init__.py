"""What `headway plan` prints: a table for batches, and one for flows."""
