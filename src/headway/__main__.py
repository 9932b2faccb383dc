"""`python -m headway`: the command line, for when the script is not on the PATH."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # Like the `headway` script, import nothing from the working directory.

from headway.entry import main

sys.exit(main())
