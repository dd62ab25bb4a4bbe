"""From totals to text, in several formats."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from sales.model import Summary


def as_text(summary: Summary) -> str:
    lines = [
        f"{each.region:<12} {each.quantity:>6} {each.revenue.quantize(Decimal('0.01'), ROUND_HALF_UP):>12,} {each.best_product}"
        for each in summary.regions
    ]
    lines += [
        "-" * 32,
        f"{'Total':<12} {summary.quantity:>6} {summary.revenue.quantize(Decimal('0.01'), ROUND_HALF_UP):>12,}",
    ]
    if summary.skipped:
        lines.append(f"({summary.skipped} lines skipped)")
    return _joined(lines)


def as_csv(summary: Summary) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["region", "quantity", "revenue", "best_product"])
    for each in summary.regions:
        revenue = each.revenue.quantize(Decimal("0.01"), ROUND_HALF_UP)
        writer.writerow([each.region, each.quantity, revenue, each.best_product])
    return out.getvalue()


def as_html(summary: Summary) -> str:
    rows = [
        f"<tr><td>{html.escape(each.region)}<td>{each.quantity}<td>{each.revenue.quantize(Decimal('0.01'), ROUND_HALF_UP):,}"
        f"<td>{html.escape(each.best_product)}</tr>"
        for each in summary.regions
    ]
    total = (
        f"<tr><th>Total<th>{summary.quantity}<th>{summary.revenue.quantize(Decimal('0.01'), ROUND_HALF_UP):,}<th></tr>"
    )
    skipped = [f"<p>{summary.skipped} lines skipped</p>"] if summary.skipped else []
    return _joined(["<table>", *rows, total, "</table>", *skipped])


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


RENDERERS: dict[str, Callable[[Summary], str]] = {"text": as_text, "csv": as_csv, "html": as_html}
