"""Programs as workers: what a unit of `kind = "command"` costs beside the program itself."""
