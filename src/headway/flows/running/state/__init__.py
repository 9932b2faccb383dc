"""The state of a run: a fold of what steps wrote, read where it was recorded.

state_fold     PURE: the fields as a step sees them; field_parts and turn_writes: what each step and each turn wrote
run_values     PURE: where values come from; stored_values: the answers, rows and approvals of a job
"""
