"""A hundred engines that share fifty lanes through one database, in virtual time."""
