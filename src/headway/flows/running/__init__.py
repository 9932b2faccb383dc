"""Running flows: which units come next, what each of them sees, and the state that their answers make.

state_fold  the state of a run, as a fold of what nodes wrote
node_run    one execution of a node: its iterations and their ends
flow_run    a whole run: which nodes start now
"""
