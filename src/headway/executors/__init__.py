"""Whatever runs work that is not a request to a server: worker processes of our own, and what they leave behind.

processes   the pool: which worker runs what, who waits, what is replaced
workers     one process as its owner sees it: its pipe, its output, its death
worker      the same process from inside: the program that it runs
worker_entry  what a worker does with one unit: calls the function, reports its value or its failure
frames      what crosses between the two
capture     output of any length in bounded memory
kin         what a worker started, wherever that went
guardian    ends every worker when whoever owns them is gone
limit_evidence  whether a unit met a rate limit, from all that it left behind
regular_files  opens what a worker left behind, but no pipes and devices
log_marks   how far log files were written when an attempt began
pydantic_models  Pydantic's models as JSON and back
preflight   what goes ahead of the rest
python      `kind = "python"`: a function as a provider
"""
