"""`headway.map`, `headway.amap` and `headway.stream`: options, items, runs, results."""
