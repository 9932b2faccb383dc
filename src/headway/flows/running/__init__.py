"""Running flows: which units come next, what each of them sees, and the state that their answers make.

PURE:

flow_run       a whole run: ends in, units out
flow_steps     the steps of one flow: which of them begins now; flow_plan has what does not change
steps          a node by itself; groups, pipeline_step, loop_step and turns: pipelines and loops
node_run       one execution of a node: its iterations and their ends; flow_node and data_set: the kinds without units
state_fold     the state, as a fold of what steps wrote; field_parts and turn_writes: where that is
tally          counts by node; node_reports: the reports made of them

Over the records of a job:

recorded_run   a run that is rebuilt from the records and follows them
growth         the units and events that ends add
results        the results file
"""
