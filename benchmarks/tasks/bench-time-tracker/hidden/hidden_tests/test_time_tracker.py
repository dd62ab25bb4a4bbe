import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from timetracker.cli import main


class Case(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.store = self.directory / "store.json"

    def tt(self, *command: str, now: str = "2024-03-01T10:00", code: int = 0) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                ended = main(["--store", str(self.store), "--now", now, *command])
            except SystemExit as left:
                ended = left.code
        self.assertEqual(ended, code, err.getvalue())
        if code:
            self.assertEqual(out.getvalue(), "")
        if code == 1:
            self.assertTrue(err.getvalue().startswith("error: "), err.getvalue())
        return out.getvalue()

    def refused(self, *command: str, now: str = "2024-03-01T10:00", code: int = 1) -> None:
        before = self.store.read_bytes() if self.store.exists() else None
        self.tt(*command, now=now, code=code)
        self.assertEqual(self.store.read_bytes() if self.store.exists() else None, before)

    def add(self, project: str, start: str, end: str, *more: str) -> None:
        self.tt("add", project, f"2024-03-{start}", f"2024-03-{end}", *more)


class StartAndStop(Case):
    def test_start(self) -> None:
        self.assertEqual(self.tt("start", "web"), "started web at 2024-03-01T10:00\n")

    def test_stop(self) -> None:
        self.tt("start", "web")
        self.assertEqual(self.tt("stop", now="2024-03-02T12:30"), "stopped web after 26:30\n")
        self.refused("stop")

    def test_status(self) -> None:
        self.assertEqual(self.tt("status"), "nothing is running\n")
        self.tt("start", "web")
        self.assertEqual(self.tt("status", now="2024-03-01T10:05"), "web since 2024-03-01T10:00 (0:05)\n")

    def test_only_one_runs(self) -> None:
        self.tt("start", "web")
        self.refused("start", "app", now="2024-03-01T11:00")

    def test_cancel(self) -> None:
        self.refused("cancel")
        self.tt("start", "web")
        self.assertEqual(self.tt("cancel"), "cancelled web\n")
        self.assertEqual((self.tt("status"), self.tt("list")), ("nothing is running\n", ""))

    def test_an_entry_of_no_minutes_is_kept(self) -> None:
        self.tt("start", "web")
        self.assertEqual(self.tt("stop"), "stopped web after 0:00\n")
        self.assertEqual(self.tt("list"), "2024-03-01T10:00 2024-03-01T10:00 0:00 web\n")

    def test_it_cannot_stop_before_it_started(self) -> None:
        self.tt("start", "web")
        self.refused("stop", now="2024-03-01T09:59")

    def test_the_clock(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "timetracker", "--store", str(self.store), "start", "web"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertRegex(done.stdout, r"^started web at \d{4}-\d\d-\d\dT\d\d:\d\d\n$")


class Overlaps(Case):
    def test_added_entries(self) -> None:
        self.add("web", "01T09:00", "01T10:00")
        for start, end in (("09:30", "09:40"), ("08:00", "09:01"), ("09:59", "11:00"), ("08:00", "11:00")):
            self.refused("add", "app", f"2024-03-01T{start}", f"2024-03-01T{end}")

    def test_entries_may_touch(self) -> None:
        self.add("web", "01T09:00", "01T10:00")
        self.add("web", "01T08:00", "01T09:00")
        self.tt("start", "web", now="2024-03-01T10:00")
        self.add("web", "01T07:00", "01T08:00")
        self.assertEqual(len(self.tt("list").splitlines()), 3)

    def test_start_within_an_entry(self) -> None:
        self.add("web", "01T09:00", "01T10:30")
        self.refused("start", "app")
        self.refused("start", "app", now="2024-03-01T09:00")

    def test_stop_after_the_start_of_another(self) -> None:
        self.add("web", "01T12:00", "01T13:00")
        self.tt("start", "app")
        self.refused("stop", now="2024-03-01T12:01")
        self.assertEqual(self.tt("stop", now="2024-03-01T12:00"), "stopped app after 2:00\n")

    def test_an_end_before_the_start(self) -> None:
        self.refused("add", "web", "2024-03-01T10:00", "2024-03-01T09:00")
        self.add("web", "01T09:00", "01T09:00")


class Listing(Case):
    def setUp(self) -> None:
        super().setUp()
        self.add("web", "02T09:00", "02T10:00", "--note", "früh am Tag")
        self.add("app/ios", "01T23:00", "02T01:00")
        self.add("web", "03T09:00", "03T10:00")

    def test_by_start_with_notes(self) -> None:
        self.assertEqual(
            self.tt("list"),
            "2024-03-01T23:00 2024-03-02T01:00 2:00 app/ios\n"
            "2024-03-02T09:00 2024-03-02T10:00 1:00 web früh am Tag\n"
            "2024-03-03T09:00 2024-03-03T10:00 1:00 web\n",
        )

    def test_a_project(self) -> None:
        self.assertEqual(self.tt("list", "--project", "app/ios").count("\n"), 1)
        self.assertEqual(self.tt("list", "--project", "app"), "")

    def test_days_are_inclusive_and_by_start(self) -> None:
        self.assertEqual(self.tt("list", "--since", "2024-03-02", "--until", "2024-03-02").count("\n"), 1)
        self.assertEqual(self.tt("list", "--since", "2024-03-02").count("\n"), 2)
        self.assertEqual(self.tt("list", "--until", "2024-03-01").count("\n"), 1)

    def test_the_running_entry_is_not_listed(self) -> None:
        self.tt("start", "web", now="2024-03-04T10:00")
        self.assertEqual(self.tt("list").count("\n"), 3)


class Reports(Case):
    def setUp(self) -> None:
        super().setUp()
        self.add("web", "01T22:00", "03T01:00")
        self.add("app", "03T09:00", "03T09:45")
        self.add("api", "03T10:00", "03T10:45")

    def test_by_project(self) -> None:
        self.assertEqual(self.tt("report"), "web 27:00\napi 0:45\napp 0:45\ntotal 28:30\n")

    def test_by_day_over_midnight(self) -> None:
        self.assertEqual(
            self.tt("report", "--by", "day"),
            "2024-03-01 2:00\n2024-03-02 24:00\n2024-03-03 2:30\ntotal 28:30\n",
        )

    def test_only_what_falls_into_the_days(self) -> None:
        self.assertEqual(
            self.tt("report", "--since", "2024-03-02", "--until", "2024-03-02"), "web 24:00\ntotal 24:00\n"
        )
        self.assertEqual(self.tt("report", "--by", "day", "--since", "2024-03-03"), "2024-03-03 2:30\ntotal 2:30\n")

    def test_csv(self) -> None:
        found = self.tt("report", "--format", "csv").replace("\r\n", "\n")
        self.assertEqual(found, "project,minutes\nweb,1620\napi,45\napp,45\n")
        self.assertTrue(self.tt("report", "--by", "day", "--format", "csv").startswith("day,minutes"))

    def test_json(self) -> None:
        found = json.loads(self.tt("report", "--by", "day", "--until", "2024-03-01", "--format", "json"))
        self.assertEqual(found, {"by": "day", "rows": [{"name": "2024-03-01", "minutes": 120}], "total_minutes": 120})

    def test_nothing(self) -> None:
        self.assertEqual(self.tt("report", "--since", "2025-01-01"), "total 0:00\n")


class Input(Case):
    def test_names(self) -> None:
        for name in ("two words", "", "a\nb", "naïve!"):
            self.refused("start", name)
        self.tt("start", "a-B_9./x")

    def test_notes(self) -> None:
        self.refused("start", "web", "--note", "two\nlines")
        self.refused("add", "web", "2024-03-01T09:00", "2024-03-01T10:00", "--note", "two\nlines")

    def test_usage(self) -> None:
        self.refused("add", "web", "2024-03-01", "2024-03-01T10:00", code=2)
        self.refused("stop", now="10:00", code=2)
        self.refused("pause", code=2)
        self.refused("report", "--format", "xml", code=2)


class Stores(Case):
    def test_reading_creates_nothing(self) -> None:
        for command in ("status", "list", "report"):
            self.tt(command)
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_it_is_json_in_utf_8_and_nothing_is_left_beside_it(self) -> None:
        self.add("web", "01T09:00", "01T10:00", "--note", "früh")
        json.loads(self.store.read_text(encoding="utf-8"))
        self.assertEqual(list(self.directory.iterdir()), [self.store])

    def test_a_store_of_another_shape_is_left_as_it_is(self) -> None:
        for content in ("{", "[]", '{"a": 1}', '"text"', ""):
            self.store.write_text(content)
            for command in (("start", "web"), ("list",)):
                self.refused(*command, code=2)

    def test_a_crash_while_writing_leaves_the_old_store(self) -> None:
        self.add("web", "01T09:00", "01T10:00")
        before = self.store.read_bytes()
        with (
            mock.patch("os.replace", side_effect=KeyboardInterrupt),
            mock.patch("os.rename", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            self.tt("start", "web")
        self.assertEqual(self.store.read_bytes(), before)
        self.assertEqual(self.tt("list").count("\n"), 1)

    def test_the_default_store_is_in_the_current_directory(self) -> None:
        before = Path.cwd()
        os.chdir(self.directory)
        self.addCleanup(os.chdir, before)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(main(["start", "web"]), 0)
        self.assertTrue((self.directory / "timetracker.json").exists())
