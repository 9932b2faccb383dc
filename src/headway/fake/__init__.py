"""`headway fake`: a provider on loopback, to try clients out against and to judge them by.

It owns what a provider does: accounts with limits, answers, streams, failures, and an exact record of what was
admitted. It shares no code with the pacing it judges: nothing here imports `headway.core`, `sim`, `engine`,
`providers` or `stores`, and import order in this package is

    durations, chance → plan → bucket → account → asked, reply → complaints → the APIs, vendors → faults, stats → server → process
"""
