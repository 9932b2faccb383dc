"""The forms of requests: of short rows, and of conversations, for each API."""
