import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from timetracker.cli import main


class Commands(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.store = Path(directory.name, "store.json")

    def run_command(self, *command: str, now: str = "2024-03-01T10:00", code: int = 0) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(main(["--store", str(self.store), "--now", now, *command]), code)
        return out.getvalue()

    def test_start_and_stop(self) -> None:
        self.assertEqual(self.run_command("start", "web", "--note", "a"), "started web at 2024-03-01T10:00\n")
        self.run_command("start", "app", code=1)
        self.assertEqual(self.run_command("status", now="2024-03-01T10:20"), "web since 2024-03-01T10:00 (0:20)\n")
        self.assertEqual(self.run_command("stop", now="2024-03-01T11:30"), "stopped web after 1:30\n")
        self.assertEqual(self.run_command("list"), "2024-03-01T10:00 2024-03-01T11:30 1:30 web a\n")
        self.assertEqual(self.run_command("status"), "nothing is running\n")

    def test_cancel(self) -> None:
        self.run_command("cancel", code=1)
        self.run_command("start", "web")
        self.assertEqual(self.run_command("cancel"), "cancelled web\n")

    def test_overlaps(self) -> None:
        self.run_command("add", "web", "2024-03-01T09:00", "2024-03-01T10:30")
        self.run_command("add", "web", "2024-03-01T10:00", "2024-03-01T11:00", code=1)
        self.run_command("start", "web", code=1)
        self.run_command("add", "web", "2024-03-01T12:00", "2024-03-01T11:00", code=1)
        self.run_command("start", "web", now="2024-03-01T10:30")
        self.run_command("add", "web", "2024-03-01T11:00", "2024-03-01T12:00", code=1)

    def test_names_and_notes(self) -> None:
        self.run_command("start", "two words", code=1)
        self.run_command("start", "web", "--note", "two\nlines", code=1)
        self.run_command("start", "web", now="today", code=2)

    def test_reports(self) -> None:
        self.run_command("add", "web", "2024-03-01T23:00", "2024-03-02T01:30")
        self.assertEqual(self.run_command("report", "--by", "day"), "2024-03-01 1:00\n2024-03-02 1:30\ntotal 2:30\n")
        self.assertEqual(self.run_command("report", "--format", "csv"), "project,minutes\nweb,150\n")
        self.assertIn('"total_minutes": 90', self.run_command("report", "--since", "2024-03-02", "--format", "json"))

    def test_a_broken_store(self) -> None:
        self.store.write_text("[]")
        self.run_command("start", "web", code=2)
        self.assertEqual(self.store.read_text(), "[]")


if __name__ == "__main__":
    unittest.main()
