import unittest

from shop import cart


class VatTest(unittest.TestCase):
    def test_vat_is_added(self):
        assert cart.with_vat(1000, 19) == 1190

    def test_the_result_is_whole_cents(self):
        assert cart.with_vat(99, 19) == 118
