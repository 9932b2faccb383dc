"""Worker pools: `headway.WorkerPool` and `headway.run_pool`."""
