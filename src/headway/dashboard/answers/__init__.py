"""What each address of the API answers: plain values, made from `reports`."""
