"""Reports as one HTML file that needs no other: the shell of a page, and the pages of evals and jobs."""
