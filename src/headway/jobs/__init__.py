"""Kinds of job, behind one contract. A new kind is one folder and one entry in `kinds`.

base             the contract of a kind, and of a kind that is read from files
unit_report      one unit as recorded, and its description for people
find_or_add      which job an input belongs to; how a new job is added and filled
python_programs  the jobs of Python programs (`headway.map`, `headway.WorkerPool`)
kinds            the registry: the kind of a job, and the kind of a file

In the order of imports, `base`, `unit_report` and `find_or_add` are below the kinds, `python_programs` and `kinds` above
them. So this file imports nothing.
"""
