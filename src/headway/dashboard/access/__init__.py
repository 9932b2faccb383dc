"""Who may use the dashboard: its address, its token, and what every request is checked for."""
