"""How the nodes of a flow are shown: rows of the live view, lines of text, and the graph after a run."""
