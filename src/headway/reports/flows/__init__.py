"""What is known of flows: of a job, of its nodes, of its events, and its critical path."""
