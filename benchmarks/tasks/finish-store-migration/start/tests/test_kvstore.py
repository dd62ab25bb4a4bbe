import tempfile
import unittest
from pathlib import Path

from kvstore import Store


class Stores(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name, "store")

    def test_set_and_get(self) -> None:
        store = Store(self.path)
        store.set("a", {"b": [1, 2]})
        self.assertEqual(store["a"], {"b": [1, 2]})
        self.assertEqual(Store(self.path).get("a"), {"b": [1, 2]})
        self.assertIn("a", store)

    def test_delete(self) -> None:
        store = Store(self.path)
        store.update({"a": 1, "b": 2})
        store.delete("a")
        self.assertEqual(list(Store(self.path)), ["b"])

    def test_format_2(self) -> None:
        Store(self.path).set("a", 1)
        self.assertEqual(self.path.read_text(), 'kvstore 2\n5defdce1 ["set","a",1]\n')


if __name__ == "__main__":
    unittest.main()
