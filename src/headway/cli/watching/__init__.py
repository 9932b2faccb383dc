"""Commands that follow a job from any terminal: `attach` and `logs`."""
