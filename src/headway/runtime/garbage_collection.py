"""How often Python looks for cycles of dead objects.

A command makes few cycles, and many objects that stay: modules at its start, rows while it reads them. A pass after every 700
new objects, which is Python's default, takes a tenth of the start and 6 % of a run. Larger and fewer passes over modules take as long:
the start has none.
"""

import gc

#: New objects between two passes: while a command starts, which makes 120,000 that stay, and from then on.
AT_START = 250_000
OBJECTS = 50_000


def collect_after_start() -> None:
    """Do not look for cycles among what a command imports."""
    gc.set_threshold(AT_START, 20, 100)


def collect_rarely() -> None:
    """What exists at the first call stays. Look for cycles among other objects, less often than Python does."""
    if not gc.get_freeze_count():  # A second freeze would keep the garbage of the first run.
        gc.freeze()
    gc.set_threshold(OBJECTS, 20, 100)
