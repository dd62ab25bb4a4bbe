"""Tools and loans, and the file that they are kept in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path

LOAN_DAYS = 14
GRACE_DAYS = 2
FINE_CENTS = 50


class LendingError(Exception):
    """What cannot be done."""


@dataclass
class Item:
    name: str
    lost: bool = False


@dataclass
class Loan:
    item: str
    member: str
    due: date
    returned: date | None = None

    @property
    def open(self) -> bool:
        return self.returned is None

    def fine_cents(self, back: date) -> int:
        """For a return on this day."""
        return max(0, (back - self.due).days - GRACE_DAYS) * FINE_CENTS


@dataclass
class Library:
    items: list[Item] = field(default_factory=list)
    loans: list[Loan] = field(default_factory=list)

    def item(self, name: str) -> Item:
        for item in self.items:
            if item.name == name and not item.lost:
                return item
        raise LendingError(f"there is no {name}")

    def open_loans(self, member: str | None = None) -> Iterator[Loan]:
        """The open loans of tools that are not lost, of one member or of all, by due day and item."""
        lost = {item.name for item in self.items if item.lost}
        for loan in sorted(self.loans, key=lambda each: (each.due, each.item)):
            if loan.open and loan.item not in lost and member in (None, loan.member):
                yield loan

    def lend(self, name: str, member: str, day: date) -> Loan:
        item = self.item(name)
        if any(loan.item == name for loan in self.open_loans()):
            raise LendingError(f"{name} is lent already")
        loan = Loan(item.name, member, day + timedelta(days=LOAN_DAYS))
        self.loans.append(loan)
        return loan

    def take_back(self, name: str, day: date) -> Loan:
        for loan in self.open_loans():
            if loan.item == name:
                loan.returned = day
                return loan
        raise LendingError(f"{name} is not lent")


def load(path: Path) -> Library:
    if not path.exists():
        return Library()
    data = json.loads(path.read_text(encoding="utf-8"))
    return Library([Item(**each) for each in data["items"]], [_loan(each) for each in data["loans"]])


def save(path: Path, library: Library) -> None:
    text = json.dumps(asdict(library), default=date.isoformat, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _loan(data: dict[str, str | None]) -> Loan:
    returned = data["returned"]
    return Loan(
        item=str(data["item"]),
        member=str(data["member"]),
        due=date.fromisoformat(str(data["due"])),
        returned=date.fromisoformat(returned) if returned else None,
    )
