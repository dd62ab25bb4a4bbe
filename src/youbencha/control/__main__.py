"""`python -m youbencha.control`: the server that a CLI is driven by, and, with `--stdio`, what drives one itself."""

import sys

from youbencha.control.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
