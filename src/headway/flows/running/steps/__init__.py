"""The steps of a flow while it runs: which units come next, and how each step ended. PURE.

flow_run       a whole run: ends in, units out
flow_steps     the steps of one flow: which of them begins now; flow_plan has what does not change
step           a node by itself; groups, pipeline_step, loop_step and turns: pipelines and loops
node_run       one execution of a node: its iterations and their ends; flow_node and data_set: the kinds without units
places         how many steps, items and iterations run at a time
final_failures which failures stay in their job
run_scope      what all parts of a run share; flow_events: what happened
tally          counts by node; node_reports: the reports made of them
"""
