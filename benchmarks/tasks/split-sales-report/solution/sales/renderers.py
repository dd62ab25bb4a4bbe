"""From totals to text, in several formats."""

from __future__ import annotations

import html
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from sales.model import Summary


def rounded(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"), ROUND_HALF_UP)


def as_text(summary: Summary) -> str:
    lines = [
        f"{each.region:<12} {each.quantity:>6} {rounded(each.revenue):>12,} {each.best_product}"
        for each in summary.regions
    ]
    lines += ["-" * 32, f"{'Total':<12} {summary.quantity:>6} {rounded(summary.revenue):>12,}"]
    if summary.skipped:
        lines.append(f"({summary.skipped} lines skipped)")
    return _joined(lines)


def as_csv(summary: Summary) -> str:
    rows = [
        f"{each.region},{each.quantity},{rounded(each.revenue)},{_quoted(each.best_product)}"
        for each in summary.regions
    ]
    return _joined(["region,quantity,revenue,best_product", *rows])


def as_html(summary: Summary) -> str:
    rows = [
        f"<tr><td>{html.escape(each.region)}<td>{each.quantity}<td>{rounded(each.revenue):,}"
        f"<td>{html.escape(each.best_product)}</tr>"
        for each in summary.regions
    ]
    total = f"<tr><th>Total<th>{summary.quantity}<th>{rounded(summary.revenue):,}<th></tr>"
    skipped = [f"<p>{summary.skipped} lines skipped</p>"] if summary.skipped else []
    return _joined(["<table>", *rows, total, "</table>", *skipped])


def _quoted(field: str) -> str:
    """Quoted only for a comma or a quotation mark, as the reports always were."""
    return '"' + field.replace('"', '""') + '"' if "," in field or '"' in field else field


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


RENDERERS: dict[str, Callable[[Summary], str]] = {"text": as_text, "csv": as_csv, "html": as_html}
