"""What the report says, through the new package: it must not change."""

import subprocess
import sys
import tempfile
import unittest
from datetime import date
from decimal import Decimal
from pathlib import Path

from sales.model import Sale
from sales.reading import read_sales
from sales.renderers import RENDERERS
from sales.report import sales_report
from sales.summary import summarise

SALES = ''' Region ,product,quantity,unit price,day
# a comment,pen,1,1,2024-01-01

north,"pen, blue",10,1.005,2024-01-02
 NORTH ,ink,1, € 10.05,2024-01-03
south & co,"a ""b""",3,1000,2024-01-03,and more
west,ink,1,5,2024-01-04
east,ink,1,5,2024-01-04
east,pen,-1,5,2024-01-04
east,pen,0,5,2024-01-04
east,pen,1.5,5,2024-01-04
east,pen,1,NaN,2024-01-04
east,pen,1,Infinity,2024-01-04
east,pen,1,5,4 January
east,pen,1
'''


class Case(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name, "sales.csv")
        self.write(SALES)

    def write(self, text: str) -> None:
        self.path.write_bytes(text.encode())


class Reports(Case):
    def test_text(self) -> None:
        self.assertEqual(
            sales_report(self.path),
            'South & Co        3     3,000.00 a "b"\n'
            "North            11        20.10 ink\n"
            "East              1         5.00 ink\n"
            "West              1         5.00 ink\n"
            "--------------------------------\n"
            "Total            16     3,030.10\n"
            "(7 lines skipped)\n",
        )

    def test_csv(self) -> None:
        self.assertEqual(
            sales_report(self.path, "csv"),
            "region,quantity,revenue,best_product\n"
            'South & Co,3,3000.00,"a ""b"""\n'
            "North,11,20.10,ink\nEast,1,5.00,ink\nWest,1,5.00,ink\n",
        )

    def test_html(self) -> None:
        self.assertEqual(
            sales_report(self.path, "html"),
            "<table>\n"
            "<tr><td>South &amp; Co<td>3<td>3,000.00<td>a &quot;b&quot;</tr>\n"
            "<tr><td>North<td>11<td>20.10<td>ink</tr>\n"
            "<tr><td>East<td>1<td>5.00<td>ink</tr>\n"
            "<tr><td>West<td>1<td>5.00<td>ink</tr>\n"
            "<tr><th>Total<th>16<th>3,030.10<th></tr>\n"
            "</table>\n"
            "<p>7 lines skipped</p>\n",
        )

    def test_a_region(self) -> None:
        self.assertEqual(sales_report(self.path, "csv", " nORTH ").count("\n"), 2)
        self.assertIn("(7 lines skipped)", sales_report(self.path, "text", "nowhere"))

    def test_an_empty_file(self) -> None:
        self.write("")
        self.assertEqual(sales_report(self.path), "-" * 32 + "\nTotal             0         0.00\n")
        self.assertEqual(sales_report(self.path, "csv"), "region,quantity,revenue,best_product\n")

    def test_a_header_only_counts_in_the_first_line(self) -> None:
        self.write("north,pen,1,1,2024-01-01\nregion,product,quantity,unit price,day\n")
        self.assertIn("(1 lines skipped)", sales_report(self.path))

    def test_totals_are_rounded_once_and_up(self) -> None:
        self.write("a,x,1,0.005,2024-01-01\nb,x,1,0.005,2024-01-01\n")
        self.assertTrue(sales_report(self.path, "csv").endswith("A,1,0.01,x\nB,1,0.01,x\n"))
        self.assertIn("Total             2         0.01", sales_report(self.path))

    def test_equal_products_by_name(self) -> None:
        self.write("a,zinc,1,5,2024-01-01\na,azure,1,5,2024-01-01\n")
        self.assertIn(",azure", sales_report(self.path, "csv"))

    def test_csv_is_quoted_only_for_commas_and_quotation_marks(self) -> None:
        self.write('a,"x,y",1,5,2024-01-01\nb,"x\ny",1,4,2024-01-01\n')
        self.assertTrue(sales_report(self.path, "csv").endswith('A,1,5.00,"x,y"\nB,1,4.00,x\ny\n'))

    def test_an_unknown_format(self) -> None:
        with self.assertRaisesRegex(ValueError, "unknown format: xml"):
            sales_report(self.path, "xml")
        with self.assertRaises(FileNotFoundError):
            sales_report(self.path.with_name("none.csv"))

    def test_nothing_is_kept_between_reports(self) -> None:
        first = sales_report(self.path)
        self.write("a,x,1,1,2024-01-01\n")
        self.assertNotIn("skipped", sales_report(self.path))
        self.write(SALES)
        self.assertEqual(sales_report(self.path), first)


class Parts(Case):
    def test_reading(self) -> None:
        sales, skipped = read_sales(["north,pen,2, € 1.50,2024-01-02\n", "north,pen\n"])
        self.assertEqual((sales, skipped), ([Sale("North", "pen", 2, Decimal("1.50"), date(2024, 1, 2))], 1))
        self.assertEqual(sales[0].revenue, Decimal("3.00"))

    def test_the_summary(self) -> None:
        sale = Sale("North", "pen", 2, Decimal("1.5"), date(2024, 1, 2))
        summary = summarise(iter([sale, sale]), skipped=3)
        self.assertEqual((summary.quantity, summary.revenue, summary.skipped), (4, Decimal(6), 3))
        total = summary.regions[0]
        self.assertEqual((total.region, total.quantity, total.revenue, total.best_product), ("North", 4, 6, "pen"))
        self.assertEqual(summarise([]).skipped, 0)

    def test_renderers(self) -> None:
        self.assertEqual(set(RENDERERS), {"text", "csv", "html"})
        empty = summarise([])
        self.assertEqual(RENDERERS["csv"](empty), "region,quantity,revenue,best_product\n")

    def test_a_new_format_is_one_entry(self) -> None:
        RENDERERS["count"] = lambda summary: str(len(summary.regions))
        self.addCleanup(RENDERERS.pop, "count")
        self.assertEqual(sales_report(self.path, "count"), "4")

    def test_the_command_line(self) -> None:
        root = Path(__file__).parent.parent

        def command(*arguments: str) -> subprocess.CompletedProcess[str]:
            program = [sys.executable, "sales_report.py", *arguments]
            return subprocess.run(program, cwd=root, capture_output=True, text=True, encoding="utf-8", check=False)

        self.assertEqual(command(str(self.path), "csv", "west").stdout, sales_report(self.path, "csv", "west"))
        self.assertEqual(command().returncode, 2)
