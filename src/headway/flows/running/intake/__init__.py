"""A flow file and what the user gives become a job.

flow_source    the job's form: the checked flow, prompts and inputs; dataset_rows: the rows of its data sets
flow_inputs    `--arg` and `--state`
node_choice    the nodes of `--from` and `--until`
"""
