"""What `headway ui` reads of large jobs, and what watching costs."""
