import contextlib
import io
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lending.cli import main


class Commands(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.data = Path(directory.name, "data.json")
        items = [{"name": "saw", "lost": False}, {"name": "drill", "lost": False}, {"name": "axe", "lost": True}]
        self.data.write_text(json.dumps({"items": items, "loans": []}))

    def lending(self, *arguments: str, today: str = "2024-03-01", code: int = 0) -> str:
        out = io.StringIO()
        environment = {"LENDING_DATA": str(self.data), "LENDING_TODAY": today}
        with (
            mock.patch.dict(os.environ, environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            self.assertEqual(main(list(arguments)), code)
        return out.getvalue()

    def test_items(self) -> None:
        self.lending("lend", "saw", "ada")
        self.assertEqual(self.lending("items"), "Item   Lent to\ndrill  -\nsaw    ada\n")

    def test_loans(self) -> None:
        self.assertEqual(self.lending("loans", code=3), "")
        self.assertEqual(self.lending("lend", "saw", "ada"), "saw is due on 2024-03-15\n")
        self.lending("lend", "saw", "bob", code=1)
        self.lending("lend", "drill", "bob", today="2024-02-20")
        self.assertEqual(
            self.lending("loans"), "Item   Member  Due\ndrill  bob     2024-03-05\nsaw    ada     2024-03-15\n"
        )
        self.assertEqual(
            json.loads(self.lending("loans", "--member", "ada", "--json")),
            [{"item": "saw", "member": "ada", "due": "2024-03-15"}],
        )

    def test_returns(self) -> None:
        self.lending("lend", "saw", "ada")
        self.assertEqual(self.lending("return", "saw", today="2024-03-18"), "saw is back, the fine is 0.50\n")
        self.lending("return", "saw", code=1)


if __name__ == "__main__":
    unittest.main()
