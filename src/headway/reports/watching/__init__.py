"""The jobs of a store as another process watches them."""
