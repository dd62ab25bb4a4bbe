import tempfile
import unittest
from pathlib import Path

from sales_report import sales_report

SALES = """region,product,quantity,unit price,day
north,pen,10,1.50,2024-01-02
South,ink,2,€ 12.00,2024-01-03
north,ink,1,12.00,2024-01-03
north,pen,many,1.50,2024-01-04
"""


class Reports(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name, "sales.csv")
        self.path.write_text(SALES, encoding="utf-8")

    def test_text(self) -> None:
        self.assertEqual(
            sales_report(self.path),
            "North            11        27.00 pen\n"
            "South             2        24.00 ink\n"
            "--------------------------------\n"
            "Total            13        51.00\n"
            "(1 lines skipped)\n",
        )

    def test_csv(self) -> None:
        self.assertEqual(
            sales_report(self.path, "csv"),
            "region,quantity,revenue,best_product\nNorth,11,27.00,pen\nSouth,2,24.00,ink\n",
        )

    def test_a_region(self) -> None:
        self.assertIn("<td>South<td>2<td>24.00<td>ink", sales_report(self.path, "html", "south"))


if __name__ == "__main__":
    unittest.main()
