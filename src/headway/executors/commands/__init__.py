"""Programs as workers: any command, and the CLIs of coding agents."""
