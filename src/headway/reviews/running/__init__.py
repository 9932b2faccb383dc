"""Runs a review as a job.

unit_names       the ids of its units, and which file and axis a unit belongs to
review_form      what a job keeps of its review: the form, its files, their texts
review_requests  questions as requests of each API, and the question inside a request
review_source    a tree of files as an input: its digest, its routes, its units
answer_check     answers are checked against the file; one that is wrong is sent back once
verification_units   adds the unit that verifies the findings of a file, when all its axes have ended
file_results     the results of a file, as a fold of the records of its units; view: of all files
job_kind         the kind of job
"""
