"""A batch: a file of requests in, a file of results out. docs/reference/batch.md specifies both files.

job_kind         the kind of job that all of this makes
input_source     an input, its digest and its rows
reader           a file → numbered lines, and the digest of its content
rows             one line → one row, or what is wrong with it
field_checks     the checks of single fields
request_options  the flags that say what to ask
request_bodies   short rows → the bodies that Gemini and Bedrock expect
chat_formats     the turns of a request, in every chat API
conversations    rows that use the answers of earlier rows
input_size       how long an input is, for estimates
prompt_families  which requests are alike, so that their answers are
intake           rows → the store
answer_text      the text of an answer
answer_schema    a JSON Schema: read, checked, answers checked against it
schema_adapter   answers that do not fit are requested once more
result_rows      one finished unit → one line of the output
output_file      the file of these lines
file_types       what kind of file a name stands for
attachments/     images and PDFs that go with a row
tables/          .csv, .tsv and .parquet as input and output
inputs/          several models in one job; sets of files: patterns, and their rows
outputs/         streams, rows of texts, folders of answers; to which job an output belongs

This file imports nothing: a command that only lists jobs needs the kind and nothing else.
"""
