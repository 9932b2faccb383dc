"""Reviews of files: beside the worker pool that they replace, large trees, and the estimate against the run."""
