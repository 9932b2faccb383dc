"""What a model is asked about a file, and what its answers mean. PURE: no file is read or written here."""
