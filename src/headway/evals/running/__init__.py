"""Runs an eval as a job.

planned_units    which units the cells need, and what each waits for; unit_names has their ids
target_requests  requests in the format of each API; cell_requests makes those of answers, and late ones out of the records
cell_values      what units see of each other: variables, stored outputs, earlier turns, outputs
eval_form        what a job keeps of its eval
eval_source      an eval as an input: its digest, its routes, its units; taken_over: answers of its earlier version
view             the results, as a fold of the records; error_units: what is behind its errors
selection        the filters of the command
job_kind         the kind of job
"""
