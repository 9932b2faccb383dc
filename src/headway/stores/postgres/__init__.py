"""PostgreSQL behind the database contract (extra `postgres`)."""
