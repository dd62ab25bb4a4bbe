"""What the repository's documents and its other commands say about a new one."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lending.cli import main

ROOT = Path(__file__).parent.parent
ITEMS = [{"name": name, "lost": name == "axe"} for name in ("saw", "drill", "axe", "vice", "lathe", "plane", "file")]
LOANS = [
    {"item": "vice", "member": "cy", "due": "2024-03-08", "returned": None},
    {"item": "saw", "member": "ada", "due": "2024-03-08", "returned": None},
    {"item": "saw", "member": "bob", "due": "2024-01-01", "returned": "2024-02-01"},
    {"item": "axe", "member": "ada", "due": "2024-01-01", "returned": None},
    {"item": "lathe", "member": "ada", "due": "2024-03-09", "returned": None},
    {"item": "drill", "member": "bob", "due": "2024-02-28", "returned": None},
    {"item": "plane", "member": "bob", "due": "2024-03-10", "returned": None},
    {"item": "file", "member": "cy", "due": "2024-03-11", "returned": None},
]


class Case(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.data = Path(directory.name, "data.json")
        self.data.write_text(json.dumps({"items": ITEMS, "loans": LOANS}))

    def overdue(self, *arguments: str, today: str = "2024-03-10", code: int = 0) -> tuple[str, str]:
        out, err = io.StringIO(), io.StringIO()
        environment = {"LENDING_DATA": str(self.data), "LENDING_TODAY": today}
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = main(["overdue", *arguments])
        self.assertEqual(ended, code)
        return out.getvalue(), err.getvalue()

    def items(self, *arguments: str, today: str = "2024-03-10") -> list[str]:
        return [each["item"] for each in json.loads(self.overdue("--json", *arguments, today=today)[0])]


class Lists(Case):
    def test_the_table(self) -> None:
        out, err = self.overdue(today="2024-03-09")
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^Item   Member  Due         \S")
        self.assertEqual([line.split()[:3] for line in lines[1:]], [
            ["drill", "bob", "2024-02-28"], ["saw", "ada", "2024-03-08"], ["vice", "cy", "2024-03-08"],
        ])  # fmt: skip
        self.assertEqual([line.split()[-1] for line in lines[1:]], ["10", "1", "1"])
        self.assertEqual(err, "")

    def test_json(self) -> None:
        found = json.loads(self.overdue("--json", "--member", "bob")[0])
        self.assertEqual(len(found), 1)
        self.assertEqual({name: found[0][name] for name in ("item", "member", "due")}, {
            "item": "drill", "member": "bob", "due": "2024-02-28",
        })  # fmt: skip

    def test_the_days_are_a_number_under_a_key_like_the_column(self) -> None:
        heading = re.split(r"  +", self.overdue()[0].splitlines()[0].strip())
        found = json.loads(self.overdue("--json")[0])[0]
        self.assertEqual(list(found), [name.lower().replace(" ", "_") for name in heading])
        self.assertEqual(list(found.values())[-1], 11)

    def test_the_due_day_itself_is_not_overdue(self) -> None:
        self.assertNotIn("plane", self.items())
        self.assertIn("plane", self.items(today="2024-03-11"))

    def test_within_the_grace_it_is_overdue(self) -> None:
        self.assertIn("lathe", self.items())

    def test_by_due_day_then_item(self) -> None:
        self.assertEqual(self.items(), ["drill", "saw", "vice", "lathe"])

    def test_what_is_lost_is_not_listed(self) -> None:
        self.assertNotIn("axe", self.items())

    def test_what_is_back_is_not_listed(self) -> None:
        self.assertEqual(self.items().count("saw"), 1)

    def test_a_member(self) -> None:
        self.assertEqual(self.items("--member", "ada"), ["saw", "lathe"])

    def test_the_day_can_be_set(self) -> None:
        self.assertEqual(self.items(today="2024-02-29"), ["drill"])
        self.assertEqual(len(self.items(today="2024-12-31")), 6)


class Nothing(Case):
    def test_it_exits_with_3_and_says_so_to_stderr(self) -> None:
        self.assertEqual(self.overdue(today="2024-01-01", code=3), ("", "nothing found\n"))

    def test_json(self) -> None:
        self.assertEqual(self.overdue("--json", "--member", "nobody", code=3), ("[]\n", "nothing found\n"))

    def test_a_library_without_data(self) -> None:
        self.data.unlink()
        self.overdue(code=3)
        self.assertFalse(self.data.exists())


class Repository(Case):
    def test_the_data_is_not_changed(self) -> None:
        before = self.data.read_bytes()
        self.overdue()
        self.assertEqual(self.data.read_bytes(), before)

    def test_it_is_a_module_like_the_others(self) -> None:
        from lending.commands import COMMANDS, overdue

        self.assertIn(overdue, COMMANDS)
        self.assertEqual(overdue.NAME, "overdue")
        self.assertTrue(overdue.HELP)
        self.assertFalse(overdue.CHANGES)

    def test_the_help_lists_it(self) -> None:
        done = subprocess.run([sys.executable, "-m", "lending", "--help"], cwd=ROOT, capture_output=True, text=True)
        self.assertRegex(done.stdout, r"\n +overdue +\w")

    def test_the_readme_has_it(self) -> None:
        self.assertRegex((ROOT / "README.md").read_text(encoding="utf-8"), r"(?m)^\| `overdue[^|]*\| [^|]+ \|$")

    def test_the_changelog_has_it_under_unreleased(self) -> None:
        unreleased = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## 1.2")[0]
        self.assertIn("overdue", unreleased.partition("## Unreleased")[2])
