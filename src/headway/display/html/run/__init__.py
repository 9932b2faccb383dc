"""How a job ran, as markup of a page: plots, waits, what would have made it faster, and costs. It needs no script."""
