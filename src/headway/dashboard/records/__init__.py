"""How the dashboard reads the records: in threads, over connections that cannot write."""
