"""Predicts requests, tokens, cost and time of a job: `headway plan`. Knows no command or key; sends and writes nothing.

survey            the requests of a file for each route, and a sample of its rows
answer_model      tokens, lengths and durations of a model's answers, learned or assumed
assumed_provider  the known limits of a lane → a virtual provider with these limits
trial             one run of the real scheduler in virtual time over a sample of the rows
program_forecasts the forecast of programs and agents, from what earlier units took
figures           the records of a forecast
list_sizes        how many items the lists of a flow have
flow_trial        one run of a flow in virtual time
flow_forecast     three trials of a flow → units, tokens, cost and time of each node, and the critical path
lane_forecasts    three trials (quick, likely, slow) → requests, tokens, cost, time and the binding limit of each lane
"""
