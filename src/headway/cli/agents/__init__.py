"""Commands for agents' work: worktrees."""
