import json
import os
import tempfile
import unittest
import zlib
from pathlib import Path
from unittest import mock

from kvstore import CorruptStore, Store, StoreError, UnknownFormat


def line(record: object) -> bytes:
    data = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
    return b"%08x %b\n" % (zlib.crc32(data), data)


def log(*records: object) -> bytes:
    return b"kvstore 2\n" + b"".join(map(line, records))


class Case(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name, "store")

    def written(self) -> bytes:
        return self.path.read_bytes()


class Changes(Case):
    def test_records_are_appended(self) -> None:
        store = Store(self.path)
        store.set("a", [1, None])
        store.delete("a")
        store.update({"b": 1, "c": {"d": 2}})
        records = (["set", "a", [1, None]], ["del", "a"], ["set", "b", 1], ["set", "c", {"d": 2}])
        self.assertEqual(self.written(), log(*records))

    def test_opening_creates_nothing(self) -> None:
        self.assertEqual(len(Store(self.path)), 0)
        self.assertFalse(self.path.exists())

    def test_an_empty_file_is_an_empty_store(self) -> None:
        self.path.touch()
        store = Store(self.path)
        store.set("a", 1)
        self.assertEqual(self.written(), log(["set", "a", 1]))

    def test_text_that_is_not_ascii(self) -> None:
        Store(self.path).update({"größe": "10 €", "lines": "a\u2028b\x85c\r\nd"})
        self.assertEqual(self.written(), log(["set", "größe", "10 €"], ["set", "lines", "a\u2028b\x85c\r\nd"]))
        store = Store(self.path)
        self.assertEqual((store["größe"], store["lines"]), ("10 €", "a\u2028b\x85c\r\nd"))

    def test_the_same_value_is_not_written_again(self) -> None:
        store = Store(self.path)
        store.set("a", {"x": [1]})
        before = self.written()
        store.set("a", {"x": [1]})
        Store(self.path).update({"a": {"x": [1]}})
        self.assertEqual(self.written(), before)

    def test_a_value_that_only_compares_equal_is_written(self) -> None:
        store = Store(self.path)
        store.set("a", 1)
        store.set("a", True)
        self.assertIs(Store(self.path)["a"], True)

    def test_a_changed_list_that_is_set_again_is_written(self) -> None:
        store = Store(self.path)
        values = [1]
        store.set("a", values)
        values.append(2)
        store.set("a", values)
        self.assertEqual(Store(self.path)["a"], [1, 2])

    def test_deleting_what_is_not_there(self) -> None:
        store = Store(self.path)
        store.set("a", 1)
        before = self.written()
        with self.assertRaises(KeyError):
            store.delete("b")
        self.assertEqual(self.written(), before)

    def test_what_cannot_be_stored_changes_nothing(self) -> None:
        store = Store(self.path)
        store.set("a", 1)
        before = self.written()
        for values in ({"b": 2, "c": object()}, {"b": 2, 3: 4}):
            with self.assertRaises(TypeError):
                store.update(values)
        with self.assertRaises(TypeError):
            store.set(5, 1)
        self.assertEqual((self.written(), list(store), "b" in store), (before, ["a"], False))

    def test_changes_are_synced(self) -> None:
        store = Store(self.path)
        store.set("a", 1)
        with mock.patch("os.fsync", side_effect=os.fsync) as synced:
            store.set("a", 2)
            store.delete("a")
        self.assertGreaterEqual(synced.call_count, 2)


class TornTails(Case):
    def test_an_incomplete_line_is_ignored_and_cut_off(self) -> None:
        whole = log(["set", "a", 1])
        for torn in (b"5defdce1 [", b"5", line(["set", "b", 1])[:-1]):
            self.path.write_bytes(whole + torn)
            store = Store(self.path)
            self.assertEqual(list(store), ["a"])
            store.set("c", 3)
            self.assertEqual(self.written(), whole + line(["set", "c", 3]))

    def test_a_wrong_checksum_in_the_last_line(self) -> None:
        self.path.write_bytes(log(["set", "a", 1]) + b'00000000 ["set","b",1]\n')
        store = Store(self.path)
        self.assertEqual(list(store), ["a"])
        store.delete("a")
        self.assertEqual(self.written(), log(["set", "a", 1], ["del", "a"]))

    def test_reading_leaves_the_file_alone(self) -> None:
        content = log(["set", "a", 1]) + b"torn"
        self.path.write_bytes(content)
        Store(self.path).get("a")
        self.assertEqual(self.written(), content)

    def test_corruption_has_a_line(self) -> None:
        self.path.write_bytes(log(["set", "a", 1]) + b"garbage\n" + line(["set", "b", 1]))
        with self.assertRaises(CorruptStore) as caught:
            Store(self.path)
        self.assertEqual(caught.exception.line, 3)


class Compaction(Case):
    def test_the_living_keys_in_order(self) -> None:
        store = Store(self.path)
        store.update({"a": 1, "b": 2, "c": 3})
        store.delete("a")
        store.update({"b": 20, "a": 10})
        store.compact()
        self.assertEqual(self.written(), log(["set", "b", 20], ["set", "c", 3], ["set", "a", 10]))
        store.set("d", 4)
        self.assertEqual(list(Store(self.path)), ["b", "c", "a", "d"])

    def test_a_crash_leaves_the_old_file(self) -> None:
        store = Store(self.path)
        store.set("a", 1)
        store.set("a", 2)
        before = self.written()
        with mock.patch("os.replace", side_effect=OSError), self.assertRaises(OSError):
            store.compact()
        self.assertEqual(self.written(), before)
        store.compact()
        self.assertEqual(self.written(), log(["set", "a", 2]))

    def test_it_is_replaced_at_once_and_synced(self) -> None:
        store = Store(self.path)
        store.set("a", 1)
        with (
            mock.patch("os.replace", side_effect=os.replace) as replaced,
            mock.patch("os.fsync", side_effect=os.fsync) as synced,
        ):
            store.compact()
        self.assertEqual(replaced.call_count, 1)
        self.assertGreaterEqual(synced.call_count, 1)
        temporary = Path(os.fspath(replaced.call_args.args[0]))
        self.assertEqual(temporary.parent.resolve(), self.path.parent.resolve())

    def test_by_itself_after_100_records(self) -> None:
        store = Store(self.path)
        for number in range(100):
            store.set("a", number)
        self.assertEqual(self.written().count(b"\n"), 101)
        store.set("a", 100)
        self.assertEqual(self.written(), log(["set", "a", 100]))

    def test_not_while_half_of_them_are_alive(self) -> None:
        store = Store(self.path)
        store.update({str(number): 0 for number in range(60)})
        store.update({str(number): 1 for number in range(60)})
        self.assertEqual(self.written().count(b"\n"), 121)
        store.delete("0")
        self.assertEqual(self.written().count(b"\n"), 60)

    def test_the_records_of_an_opened_store_count(self) -> None:
        self.path.write_bytes(log(*(["set", "a", number] for number in range(100))))
        Store(self.path).set("a", "new")
        self.assertEqual(self.written(), log(["set", "a", "new"]))


class FormatOne(Case):
    def test_reading_leaves_it_as_it_is(self) -> None:
        self.path.write_text('{"b": 1, "a": {"c": "\\u20ac"}}')
        store = Store(self.path)
        self.assertEqual((list(store), store["a"]), (["b", "a"], {"c": "€"}))
        store.set("b", 1)
        self.assertEqual(self.written()[:1], b"{")

    def test_the_first_change_converts_it(self) -> None:
        self.path.write_text('{"b": 1, "a": 2}')
        Store(self.path).delete("b")
        self.assertEqual(self.written(), log(["set", "b", 1], ["set", "a", 2], ["del", "b"]))

    def test_anything_else_is_unknown(self) -> None:
        for content in (b"[1]", b"kvstore 3\n", b"hello\n", b"\xff\xfe", b"1"):
            self.path.write_bytes(content)
            with self.assertRaises(UnknownFormat):
                Store(self.path)
            self.assertEqual(self.written(), content)
        self.assertTrue(issubclass(UnknownFormat, StoreError))
