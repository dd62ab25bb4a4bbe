"""Each test needs a date that some month does not have; what worked before is checked along with it."""

import unittest
from datetime import date, timedelta
from itertools import islice

from recur import Agenda, Entry, Rule, first_on_or_after, occurrences, parse_rule


def first(text: str, number: int) -> list[str]:
    return [day.isoformat() for day in islice(occurrences(parse_rule(text)), number)]


class Occurrences(unittest.TestCase):
    def test_the_31st(self) -> None:
        self.assertEqual(
            first("every month from 2023-01-31", 6),
            ["2023-01-31", "2023-02-28", "2023-03-31", "2023-04-30", "2023-05-31", "2023-06-30"],
        )

    def test_the_30th_in_a_leap_year(self) -> None:
        self.assertEqual(
            first("every month from 2023-12-30", 4), ["2023-12-30", "2024-01-30", "2024-02-29", "2024-03-30"]
        )

    def test_the_29th_in_a_common_year(self) -> None:
        self.assertEqual(first("every month from 2023-01-29", 3), ["2023-01-29", "2023-02-28", "2023-03-29"])

    def test_a_quarterly_report(self) -> None:
        self.assertEqual(
            first("every 3 months from 2022-11-30", 5),
            ["2022-11-30", "2023-02-28", "2023-05-30", "2023-08-30", "2023-11-30"],
        )

    def test_a_birthday_on_29_february(self) -> None:
        self.assertEqual(
            first("every year from 2024-02-29", 6),
            ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29", "2029-02-28"],
        )

    def test_every_fourth_year_over_a_century_that_is_no_leap_year(self) -> None:
        self.assertEqual(
            first("every 4 years from 2096-02-29", 4), ["2096-02-29", "2100-02-28", "2104-02-29", "2108-02-29"]
        )

    def test_thirteen_months(self) -> None:
        self.assertEqual(first("every 13 months from 2022-01-31", 3), ["2022-01-31", "2023-02-28", "2024-03-31"])

    def test_until_is_inclusive(self) -> None:
        self.assertEqual(first("every month from 2023-01-31 until 2023-03-31", 9)[-1], "2023-03-31")
        self.assertEqual(first("every month from 2023-01-31 until 2023-03-30", 9)[-1], "2023-02-28")

    def test_times(self) -> None:
        self.assertEqual(first("every month from 2023-01-31 times 3", 9), ["2023-01-31", "2023-02-28", "2023-03-31"])

    def test_an_excepted_clipped_date_counts(self) -> None:
        self.assertEqual(
            first("every month from 2023-01-31 times 3 except 2023-02-28", 9), ["2023-01-31", "2023-03-31"]
        )

    def test_an_excepted_last_day(self) -> None:
        self.assertEqual(
            first("every month from 2023-01-31 times 3 except 2023-03-31", 9), ["2023-01-31", "2023-02-28"]
        )

    def test_a_rule_made_in_code_goes_on_for_years(self) -> None:
        days = list(islice(occurrences(Rule(date(2020, 1, 31), "months")), 120))
        for day in days:
            self.assertNotEqual((day + timedelta(days=1)).month, day.month, day)

    def test_days_and_weeks_are_as_before(self) -> None:
        self.assertEqual(first("every 10 days from 2023-01-31", 3), ["2023-01-31", "2023-02-10", "2023-02-20"])
        self.assertEqual(first("every 4 weeks from 2023-01-31", 3), ["2023-01-31", "2023-02-28", "2023-03-28"])
        self.assertEqual(first("every 4 months from 2022-10-31", 3), ["2022-10-31", "2023-02-28", "2023-06-30"])
        self.assertEqual(first("every 4 months from 2022-10-31", 4)[-1], "2023-10-31")


class FirstOnOrAfter(unittest.TestCase):
    def check(self, text: str, day: str, expected: str | None) -> None:
        found = first_on_or_after(parse_rule(text), date.fromisoformat(day))
        self.assertEqual(found and found.isoformat(), expected)

    def test_in_the_month_after_a_short_one(self) -> None:
        self.check("every month from 2020-01-31", "2023-03-01", "2023-03-31")
        self.check("every month from 2020-01-31", "2023-07-31", "2023-07-31")

    def test_a_clipped_day_is_no_longer_one_in_the_next_month(self) -> None:
        self.check("every month from 2023-01-31", "2023-03-29", "2023-03-31")
        self.check("every 3 months from 2022-11-30", "2023-05-29", "2023-05-30")

    def test_a_birthday(self) -> None:
        self.check("every year from 2000-02-29", "2028-01-01", "2028-02-29")
        self.check("every year from 2000-02-29", "2027-01-01", "2027-02-28")

    def test_the_end_of_the_rule(self) -> None:
        self.check("every month from 2023-01-31 until 2023-03-30", "2023-03-01", None)
        self.check("every month from 2023-01-31 times 3", "2023-03-29", "2023-03-31")

    def test_it_agrees_with_the_occurrences(self) -> None:
        rule = parse_rule("every 5 months from 2019-10-31 except 2021-11-30")
        days = list(islice(occurrences(rule), 12))
        for offset in range((days[-1] - rule.start).days):
            day = rule.start + timedelta(days=offset)
            self.assertEqual(first_on_or_after(rule, day), next(each for each in days if each >= day), day)


class Agendas(unittest.TestCase):
    def setUp(self) -> None:
        self.agenda = Agenda()
        self.agenda.add("rent", parse_rule("every month from 2023-01-31"))
        self.agenda.add("birthday", parse_rule("every year from 2004-02-29"))

    def test_between(self) -> None:
        found = self.agenda.between(date(2023, 2, 1), date(2023, 4, 30))
        self.assertEqual(
            found,
            [
                Entry(date(2023, 2, 28), "birthday"),
                Entry(date(2023, 2, 28), "rent"),
                Entry(date(2023, 3, 31), "rent"),
                Entry(date(2023, 4, 30), "rent"),
            ],
        )

    def test_next_after(self) -> None:
        self.assertEqual(self.agenda.next_after(date(2023, 2, 28)), Entry(date(2023, 3, 31), "rent"))

    def test_busy_days(self) -> None:
        days = self.agenda.busy_days(date(2023, 2, 28), date(2023, 3, 31))
        self.assertEqual(days, {date(2023, 2, 28): ["birthday", "rent"], date(2023, 3, 31): ["rent"]})

    def test_a_removed_event_is_gone(self) -> None:
        self.agenda.remove("birthday")
        days = [entry.day.isoformat() for entry in self.agenda.between(date(2024, 2, 1), date(2024, 7, 31))]
        self.assertEqual(days, ["2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31", "2024-06-30", "2024-07-31"])
