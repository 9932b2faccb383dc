"""Agent CLIs and programs for Python: `headway.AgentWorker`."""
