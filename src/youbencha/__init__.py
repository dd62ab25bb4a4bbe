"""youBencha: run coding agents on real repositories, and tell which is better."""

__version__ = "0.1.0"
