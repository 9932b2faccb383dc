"""Other outputs than a file of rows or a table: a stream (standard output), and a folder with one file for each answer."""
