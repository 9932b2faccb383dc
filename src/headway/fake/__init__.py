"""`headway fake`: a provider on loopback, for trying clients and for judging them.

It has accounts with limits, answers, streams, failures, and exact statistics of what was admitted. It shares no code with
the pacing that it judges: nothing here imports `headway.core`, `sim`, `engine`, `providers` or `stores`, and import-linter
checks that. Inside the package, imports point from left to right:

    server → service → routes → apis → limits → fake_config → quantities

`flags` and `config_file` make a `fake_config`; `process` runs the command; `faults`, `stats` and `http_answers` serve `service`.
"""
