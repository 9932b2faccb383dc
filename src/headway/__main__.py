"""`python -m headway`: the command line, for where the script is not on the PATH."""

import sys

from headway.cli import main

sys.exit(main())
