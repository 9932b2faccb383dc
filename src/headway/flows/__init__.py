"""Flows: graphs of work. `spec` is a checked flow; `yaml_file`, `checks` and `python_flow` make one; `running/` runs it."""
