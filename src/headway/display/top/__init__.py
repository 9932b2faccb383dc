"""`headway top`: all running jobs on one screen, their lanes below them, and the keys."""
