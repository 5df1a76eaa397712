"""Run the command line as ``python -m diffor``."""

import sys

from diffor.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
