"""The store in PostgreSQL beside that in SQLite, and beside the bare driver."""
