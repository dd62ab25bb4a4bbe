import unittest

from pricing import total


class TotalTest(unittest.TestCase):
    def test_sums_every_price(self) -> None:
        self.assertEqual(total([100, 250, 50]), 400)

    def test_takes_the_discount_off(self) -> None:
        self.assertEqual(total([200, 200], discount_percent=10), 360)
