import unittest
from datetime import date
from itertools import islice

from recur import Agenda, Entry, RuleError, first_on_or_after, occurrences, parse_rule


class Rules(unittest.TestCase):
    def test_all_parts(self) -> None:
        rule = parse_rule("every 2 weeks from 2024-01-05 until 2024-06-30 times 4 except 2024-01-19, 2024-02-02")
        self.assertEqual((rule.unit, rule.interval, rule.times), ("weeks", 2, 4))
        self.assertEqual(rule.excepted, {date(2024, 1, 19), date(2024, 2, 2)})

    def test_nonsense(self) -> None:
        for text in ("", "every", "every 0 days from 2024-01-01", "every day from tomorrow"):
            with self.subTest(text), self.assertRaises(RuleError):
                parse_rule(text)


class Occurrences(unittest.TestCase):
    def test_weeks(self) -> None:
        rule = parse_rule("every 2 weeks from 2024-01-05 times 3")
        self.assertEqual(list(occurrences(rule)), [date(2024, 1, 5), date(2024, 1, 19), date(2024, 2, 2)])

    def test_months(self) -> None:
        rule = parse_rule("every month from 2024-01-15")
        self.assertEqual(list(islice(occurrences(rule), 3)), [date(2024, 1, 15), date(2024, 2, 15), date(2024, 3, 15)])

    def test_the_last_day_of_february(self) -> None:
        rule = parse_rule("every month from 2023-01-31 until 2023-02-28")
        self.assertEqual(list(occurrences(rule)), [date(2023, 1, 31), date(2023, 2, 28)])

    def test_excepted_dates_count(self) -> None:
        rule = parse_rule("every day from 2024-01-01 times 3 except 2024-01-02")
        self.assertEqual(list(occurrences(rule)), [date(2024, 1, 1), date(2024, 1, 3)])

    def test_the_first_on_or_after(self) -> None:
        rule = parse_rule("every 2 months from 2020-01-15 until 2024-12-31")
        self.assertEqual(first_on_or_after(rule, date(2024, 2, 1)), date(2024, 3, 15))
        self.assertIsNone(first_on_or_after(rule, date(2025, 1, 1)))


class Agendas(unittest.TestCase):
    def test_between(self) -> None:
        agenda = Agenda()
        agenda.add("sport", parse_rule("every week from 2024-01-01"))
        agenda.add("rent", parse_rule("every month from 2024-01-01"))
        self.assertEqual(
            agenda.between(date(2024, 2, 1), date(2024, 2, 10)),
            [Entry(date(2024, 2, 1), "rent"), Entry(date(2024, 2, 5), "sport")],
        )

    def test_next_after(self) -> None:
        agenda = Agenda()
        agenda.add("sport", parse_rule("every week from 2024-01-01"))
        self.assertEqual(agenda.next_after(date(2024, 1, 1)), Entry(date(2024, 1, 8), "sport"))


if __name__ == "__main__":
    unittest.main()
