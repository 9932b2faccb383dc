"""What a job will take, before it is sent: `headway plan`. Knows no command or key; sends and writes nothing.

survey      what a file would ask of each route, and a sample of its rows
habits      what answers of a model were like: tokens, lengths, times; or what is assumed where nobody knows
account     what a lane knows of its limits → a virtual provider that has just these
trial       one run of the real scheduler in virtual time over a sample of the rows
figures     the records of a forecast
forecast    three trials (fast, likely, slow) → requests, tokens, cost, time and the limit that binds, for each lane
"""
