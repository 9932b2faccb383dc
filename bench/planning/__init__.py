"""`headway plan` against what then happened."""
