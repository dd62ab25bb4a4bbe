"""youBencha: run coding agents on real repositories, meter and judge them."""

__version__ = "0.1.0"
