"""The limits of an account, and the headers that report them."""
