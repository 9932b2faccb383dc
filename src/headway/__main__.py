"""`python -m headway`: the command line, for where the script is not on the PATH."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # The working directory: nothing is imported from there, as by the `headway` script.

from headway.cli import main

sys.exit(main())
