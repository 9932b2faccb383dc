"""Durable records: one contract (`base`), a SQLite store and one in memory that pass the same suite of tests."""
