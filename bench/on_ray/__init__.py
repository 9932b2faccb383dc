"""The section `ray`: short tasks on a Ray cluster, beside bare Ray."""
