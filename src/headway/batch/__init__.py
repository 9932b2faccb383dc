"""A batch: a file of requests in, a file of results out. docs/reference/batch.md is the contract.

reader      a file → numbered lines, and the digest of all of it
rows        one line → one row, or what is wrong with it
recipe      what the flags say about the requests
template    a prompt with columns in it
table       one record of a .csv → one row
parquet     one record of a .parquet → one row
arrow       its columns → JSON values and back
cells       a value as text
schema      what answers must fit, read and checked
judge       whether they do, and what to ask next
answer      what an answer says
fields      the cheap checks of single fields
chars       how long an input is, for estimates
jobs        which job an input is, and how it is taken in
result      one unit's end → one output line
output      the file of these lines
sheet       the same as a table, as .csv or
parquet_sheet  as .parquet
spread      an answer's fields as columns
"""

from headway.batch.reader import Reader, digest_of
from headway.batch.result import Result, owner_of, result_line
from headway.batch.rows import BadRow, Row, parse, read, rows_of

__all__ = [
    "BadRow",
    "Reader",
    "Result",
    "Row",
    "digest_of",
    "owner_of",
    "parse",
    "read",
    "result_line",
    "rows_of",
]
