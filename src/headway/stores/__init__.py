"""Durable records: one store with all rules (`store`) over a small database contract (`database`), and SQLite behind it (`sqlite`)."""
