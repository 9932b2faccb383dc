"""What agents do and say: rows of the live view, and conversations as text."""
