"""A small key-value store in one file."""

from kvstore.errors import CorruptStore, StoreError, UnknownFormat
from kvstore.store import Store

__all__ = ["CorruptStore", "Store", "StoreError", "UnknownFormat"]
