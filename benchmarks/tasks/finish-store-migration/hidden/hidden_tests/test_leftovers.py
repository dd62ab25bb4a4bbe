"""Nothing of the old state is left. Each test needs a package that can be imported."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kvstore

ROOT = Path(__file__).parent.parent


class Leftovers(unittest.TestCase):
    def test_no_merge_markers(self) -> None:
        for path in ROOT.rglob("*.py"):
            if path.parent.name != "hidden_tests":
                text = path.read_text(encoding="utf-8")
                self.assertFalse([mark for mark in ("<<<<<<<", ">>>>>>>", "\n=======\n") if mark in text], path)

    def test_the_notes_and_the_old_module_are_gone(self) -> None:
        self.assertFalse((ROOT / "NOTES.md").exists())
        self.assertFalse((ROOT / "kvstore" / "legacy.py").exists())
        self.assertFalse(hasattr(kvstore.Store, "dump"))

    def test_public_names(self) -> None:
        self.assertEqual(sorted(kvstore.__all__), ["CorruptStore", "Store", "StoreError", "UnknownFormat"])
        for name in ("get", "set", "update", "delete", "compact", "__contains__", "__iter__", "__len__"):
            self.assertTrue(hasattr(kvstore.Store, name), name)

    def test_the_command_line(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory, "store"))

            def command(*arguments: str) -> tuple[int, str]:
                program = [sys.executable, "-m", "kvstore.cli", path, *arguments]
                done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
                return done.returncode, done.stdout

            self.assertEqual(command("set", "a", "[1]"), (0, ""))
            self.assertEqual(command("set", "a", "[2]"), (0, ""))
            self.assertEqual(command("get", "a"), (0, "[2]\n"))
            self.assertEqual(command("compact"), (0, ""))
            self.assertEqual(Path(path).read_bytes().count(b"\n"), 2)
            self.assertEqual(command("get", "b")[0], 1)
            self.assertEqual(command("keys"), (0, "a\n"))
