"""Sales per region, from a CSV file."""

import csv
import html
import sys
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

_skipped = 0


def sales_report(path, fmt="text", region=None):
    global _skipped
    _skipped = 0
    data = {}
    f = open(path, encoding="utf-8", newline="")
    rows = csv.reader(f)
    for i, row in enumerate(rows):
        if i == 0 and row and row[0].strip().lower() == "region":
            continue
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 5:
            _skipped += 1
            continue
        try:
            q = int(row[2])
            p = Decimal(row[3].strip().replace("€", "").strip())
            date.fromisoformat(row[4].strip())
        except (ValueError, InvalidOperation):
            _skipped += 1
            continue
        if q <= 0 or not p.is_finite():
            _skipped += 1
            continue
        r = row[0].strip().title()
        if region is not None and r.lower() != region.strip().lower():
            continue
        if r not in data:
            data[r] = []
        data[r].append((row[1].strip(), q, p))
    f.close()

    if fmt == "text":
        out = ""
        total = Decimal(0)
        total_q = 0
        names = sorted(data, key=lambda r: (-sum(q * p for _, q, p in data[r]), r))
        for r in names:
            rev = Decimal(0)
            n = 0
            products = {}
            for name, q, p in data[r]:
                rev += q * p
                n += q
                products[name] = products.get(name, 0) + q * p
            best = ""
            best_rev = None
            for name in sorted(products):
                if best_rev is None or products[name] > best_rev:
                    best = name
                    best_rev = products[name]
            out += f"{r:<12} {n:>6} {rev.quantize(Decimal('0.01'), ROUND_HALF_UP):>12,} {best}\n"
            total += rev
            total_q += n
        out += "-" * 32 + "\n"
        out += f"{'Total':<12} {total_q:>6} {total.quantize(Decimal('0.01'), ROUND_HALF_UP):>12,}\n"
        if _skipped:
            out += f"({_skipped} lines skipped)\n"
        return out
    elif fmt == "csv":
        out = "region,quantity,revenue,best_product\n"
        names = sorted(data, key=lambda r: (-sum(q * p for _, q, p in data[r]), r))
        for r in names:
            rev = Decimal(0)
            n = 0
            products = {}
            for name, q, p in data[r]:
                rev += q * p
                n += q
                products[name] = products.get(name, 0) + q * p
            best = ""
            best_rev = None
            for name in sorted(products):
                if best_rev is None or products[name] > best_rev:
                    best = name
                    best_rev = products[name]
            if "," in best or '"' in best:
                best = '"' + best.replace('"', '""') + '"'
            out += f"{r},{n},{rev.quantize(Decimal('0.01'), ROUND_HALF_UP)},{best}\n"
        return out
    elif fmt == "html":
        out = "<table>\n"
        total = Decimal(0)
        total_q = 0
        names = sorted(data, key=lambda r: (-sum(q * p for _, q, p in data[r]), r))
        for r in names:
            rev = Decimal(0)
            n = 0
            products = {}
            for name, q, p in data[r]:
                rev += q * p
                n += q
                products[name] = products.get(name, 0) + q * p
            best = ""
            best_rev = None
            for name in sorted(products):
                if best_rev is None or products[name] > best_rev:
                    best = name
                    best_rev = products[name]
            rounded = rev.quantize(Decimal("0.01"), ROUND_HALF_UP)
            out += f"<tr><td>{html.escape(r)}<td>{n}<td>{rounded:,}<td>{html.escape(best)}</tr>\n"
            total += rev
            total_q += n
        out += f"<tr><th>Total<th>{total_q}<th>{total.quantize(Decimal('0.01'), ROUND_HALF_UP):,}<th></tr>\n"
        out += "</table>\n"
        if _skipped:
            out += f"<p>{_skipped} lines skipped</p>\n"
        return out
    else:
        raise ValueError("unknown format: " + fmt)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("usage: sales_report.py FILE [FORMAT [REGION]]", file=sys.stderr)
        sys.exit(2)
    print(sales_report(*sys.argv[1:4]), end="")
