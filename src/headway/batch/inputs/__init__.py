"""Inputs with more than one unit a row (several models), and inputs that are a set of files."""
