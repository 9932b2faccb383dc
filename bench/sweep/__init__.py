"""The sweep: jobs of many sizes on accounts of many kinds, in virtual time against an oracle."""
