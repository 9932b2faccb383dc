"""SQLite behind the store's database contract: in a file, or in memory. Everything that only SQLite has is in here."""
