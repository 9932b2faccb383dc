"""Kinds of job, behind one contract. A new kind is one folder and one entry in `kinds`.

base      the contract: what a kind says of its jobs, and what one that is read from files does besides
unit      one unit as the records have it, and the same in words
finding   which job an input is; how a new one is added and filled
python_programs   the jobs that Python programs make (`headway.map`, `headway.WorkerPool`)
kinds     the registry: the kind of a job, and the kind of a file

`base`, `unit` and `finding` are below the kinds in the order of imports, `python_programs` and `kinds` above them:
nothing is imported here.
"""
