"""Runs work that is not a request to a server: worker processes, and what they leave behind.

process_pool     the pool: which worker runs which unit, who waits, which workers are replaced
pool_health      when a pool is broken: its workers cannot start, or keep dying
entry_point      what the workers of a pool run
worker_process   one worker as the pool sees it: its pipe, its output, its death
worker_main      the same worker from inside: the program that it runs
worker_entry     what a worker does with one unit: calls the function, reports its value or its failure
worker_protocol  what crosses between pool and worker
work_result      how a unit ended in a worker
process_state    state of a worker that a unit may have spoiled
process_tree     finds and kills what a worker started
guardian         kills every worker when their owner is gone
capture          output of any length in bounded memory
crash_dumps      where in the user's code a worker died
limit_evidence   whether a unit met a rate limit, from all that it left behind
log_files        log files: only regular ones, and only what was written since an attempt began
json_values      values as JSON: NaN and infinities, Pydantic's models
attempt_details  what an attempt leaves behind, for the records
preflight        the unit or the command that goes first
python_adapter   `kind = "python"`: a function as a provider
"""
