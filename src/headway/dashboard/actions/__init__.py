"""What the page can do: each action is a command of the CLI, carried out as the command does it."""
