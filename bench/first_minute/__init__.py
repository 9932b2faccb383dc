"""The first minute in real time: `headway run` against `headway fake`, beside the oracle (bench/oracle.py)."""
