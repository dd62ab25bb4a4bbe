import contextlib
import io
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lending.cli import main


class Overdue(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.data = Path(directory.name, "data.json")
        loan = {"item": "saw", "member": "ada", "due": "2024-03-15", "returned": None}
        self.data.write_text(json.dumps({"items": [{"name": "saw", "lost": False}], "loans": [loan]}))

    def overdue(self, *arguments: str, today: str, code: int) -> str:
        out = io.StringIO()
        environment = {"LENDING_DATA": str(self.data), "LENDING_TODAY": today}
        with (
            mock.patch.dict(os.environ, environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            self.assertEqual(main(["overdue", *arguments]), code)
        return out.getvalue()

    def test_on_the_due_day(self) -> None:
        self.assertEqual(self.overdue(today="2024-03-15", code=3), "")

    def test_a_day_later(self) -> None:
        self.assertEqual(
            json.loads(self.overdue("--json", today="2024-03-16", code=0)),
            [{"item": "saw", "member": "ada", "due": "2024-03-15", "days_overdue": 1}],
        )


if __name__ == "__main__":
    unittest.main()
