"""Running flows.

steps/         PURE: which units come next, and how each step ended
state/         the state that their answers make
intake/        a flow file and what the user gives become a job
requests/      what a unit sends, and which answers it accepts
reuse/         answers of earlier runs that are kept
outputs/       results and events

job_kind       flows as a kind of job; flow_form: what a job keeps of its flow
recorded_run   a run that is rebuilt from the records and follows them; growth: the units that ends add
approvals      what people are asked, and their answers
unit_retry     which units may run again
unit_ids       PURE: the ids of units; outcomes: how steps end
"""
