import unittest

from shop.cart import is_free_of_shipping, total


class CartTest(unittest.TestCase):
    def test_without_a_discount(self):
        assert total([(250, 2), (100, 1)]) == 600

    def test_with_a_discount(self):
        assert total([(1000, 3)], discount_percent=10) == 2700

    def test_shipping(self):
        assert is_free_of_shipping([(5000, 1)])
        assert not is_free_of_shipping([(4999, 1)])


if __name__ == "__main__":
    unittest.main()
