"""`python -m youbencha.control`: serve the control protocol to a CLI or, with `--stdio`, start a CLI and drive it."""

import sys

from youbencha.control.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
