"""Sales per region, from a CSV file. The code is in the package `sales`."""

import sys

from sales.report import sales_report

__all__ = ["sales_report"]

if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("usage: sales_report.py FILE [FORMAT [REGION]]", file=sys.stderr)
        sys.exit(2)
    print(sales_report(*sys.argv[1:4]), end="")
