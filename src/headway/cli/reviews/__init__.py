"""`headway review`: its flags, its run, what it prints."""
