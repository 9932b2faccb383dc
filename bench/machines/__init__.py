"""Engines on several machines that share one account through PostgreSQL."""
