import sys

from timetracker.cli import main

sys.exit(main())
