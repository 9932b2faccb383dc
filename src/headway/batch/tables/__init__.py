"""Tables as the input and the output of a batch: .csv, .tsv and .parquet."""
