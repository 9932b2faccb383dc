"""The lines of `--log-file`: what they are made of, and those of single units."""
