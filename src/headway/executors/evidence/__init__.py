"""What work leaves behind: what it printed, its log files, and the dump of a worker that died."""
