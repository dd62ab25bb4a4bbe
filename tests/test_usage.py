"""What a session used, from its calls and from the totals that its agent reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.usage import SessionTotal, SessionUsage, Tokens, UsageCounter, add_all


def counted(*calls: Tokens, total: SessionUsage | None = None, ended: bool = False) -> SessionUsage | None:
    counter = UsageCounter()
    for number, tokens in enumerate(calls):
        counter.add_call(tokens, message_id=str(number))
    if total is not None:
        counter.set_total(SessionTotal(total.tokens, total.cost_usd))
    return counter.usage(ended=ended)


def test_without_reports_usage_is_unknown() -> None:
    assert counted() is None
    assert counted(ended=True) is None
    assert counted(Tokens()) is None
    assert counted(total=SessionUsage()) is None


def test_calls_add_up_and_are_a_lower_bound_until_the_end() -> None:
    calls = Tokens(10, 1, 7, None), Tokens(5, 2, None, None)
    assert counted(*calls) == (Tokens(15, 3, 7, None), None, True)
    assert counted(*calls, ended=True) == (Tokens(15, 3, 7, None), None, False)


def test_updates_of_one_call_are_not_counted_twice() -> None:
    counter = UsageCounter()
    counter.add_call(Tokens(10, 1), message_id="a", final=False)
    assert counter.calls == Tokens(10, None)  # what a call begins with is not its output
    counter.add_call(Tokens(10, 25), message_id="a")
    counter.add_call(Tokens(10, 3), message_id="a", final=False)
    assert counter.calls == Tokens(10, 25)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.none() | st.integers(0, 9), min_size=4, max_size=4))))
def test_the_sum_is_that_of_the_largest_update_of_each_call(news: list[tuple[str, list[int | None]]]) -> None:
    counter, largest = UsageCounter(), {}
    for message_id, numbers in news:
        counter.add_call(Tokens(*numbers), message_id=message_id)
        for column, number in enumerate(numbers):
            if number is not None:
                largest[message_id, column] = max(number, largest.get((message_id, column), 0))
    columns = [[number for (_, at), number in largest.items() if at == column] for column in range(4)]
    assert counter.calls == tuple(sum(column) if column else None for column in columns)


def test_calls_without_an_id_are_counted_separately() -> None:
    counter = UsageCounter()
    counter.add_call(Tokens(10, 1), 0.5)
    counter.add_call(Tokens(10, 1), 0.25)
    assert counter.usage(ended=True) == (Tokens(20, 2), 0.75, False)


@pytest.mark.parametrize("ended", [True, False])
def test_the_last_total_counts(ended: bool) -> None:
    total = SessionUsage(Tokens(100, 20, 0, 0), 0.5)
    assert counted(Tokens(10, 2), total=total, ended=ended) == total


def test_a_total_below_its_calls_is_a_lower_bound_and_so_is_its_cost() -> None:
    short = SessionUsage(Tokens(10, 1), 0.5)
    assert counted(Tokens(10, 25), total=short) == (Tokens(10, 25), 0.5, True)
    assert counted(Tokens(10, 25, 7), total=SessionUsage(Tokens(0, 30, 0), 0.1)) == (Tokens(10, 30, 7), 0.1, True)
    # A cost of nothing is none.
    zeros = SessionUsage(Tokens(0, 0, 0, 0), 0.0)
    assert counted(Tokens(10, 25), total=zeros) == (Tokens(10, 25, 0, 0), None, True)
    assert counted(total=zeros) == zeros


MAIN, SIDE = "claude-main", "claude-side"


def compared(calls: dict[str, Tokens], total: dict[str, Tokens]) -> SessionUsage | None:
    counter = UsageCounter()
    for model, tokens in calls.items():
        counter.add_call(tokens, message_id=model, model=model)
    counter.set_total(SessionTotal(add_all(list(total.values())), 0.5, total))
    return counter.usage(ended=True)


@pytest.mark.parametrize(
    ("calls", "total", "tokens", "partial"),
    [
        ({MAIN: Tokens(10, 2)}, {MAIN: Tokens(10, 2), SIDE: Tokens(90, 9)}, Tokens(100, 11), False),
        ({MAIN: Tokens(10, 2)}, {MAIN: Tokens(0, 0), SIDE: Tokens(90, 9)}, Tokens(100, 11), True),
        ({MAIN: Tokens(10, 2), SIDE: Tokens(7, 1)}, {SIDE: Tokens(90, 9)}, Tokens(100, 11), True),
        ({MAIN: Tokens(10, 2)}, {f"{MAIN}[1m]": Tokens(10, 2)}, Tokens(10, 2), False),
        # A gateway answers by another name than the one that was asked for.
        ({"renamed": Tokens(10, 2)}, {MAIN: Tokens(10, 2), SIDE: Tokens(90, 9)}, Tokens(100, 11), False),
        ({"renamed": Tokens(10, 2)}, {MAIN: Tokens(9, 2)}, Tokens(10, 2), True),
    ],
)
def test_each_model_is_compared_by_itself(
    calls: dict[str, Tokens], total: dict[str, Tokens], tokens: Tokens, partial: bool
) -> None:
    assert compared(calls, total) == (tokens, 0.5, partial)


@pytest.mark.parametrize("less", [SessionTotal(), SessionTotal(Tokens(20, 2), 0.9), SessionTotal(Tokens(90, 9), 0.1)])
def test_a_total_never_shrinks(less: SessionTotal) -> None:
    counter = UsageCounter()
    counter.set_total(SessionTotal(Tokens(30, 9), 0.5))
    counter.set_total(less)
    usage = counter.usage(ended=True)
    assert usage is not None
    assert usage.partial
    assert usage.tokens == Tokens(max(30, less.tokens.input or 0), max(9, less.tokens.output or 0))
    assert usage.cost_usd == max(0.5, less.cost_usd or 0)


def test_a_total_of_the_cost_alone() -> None:
    assert counted(Tokens(3, 4), total=SessionUsage(cost_usd=0.2), ended=True) == (Tokens(3, 4), 0.2, True)


def test_the_cost_of_a_call_is_counted_once() -> None:
    counter = UsageCounter()
    counter.add_call(Tokens(10, 1), 0.5, message_id="a")
    counter.add_call(Tokens(10, 1), 0.5, message_id="a")
    counter.add_call(Tokens(10, 2), 0.75, message_id="a")
    counter.add_call(Tokens(1, 1), 0.25, message_id="b")
    assert counter.usage(ended=True) == (Tokens(11, 3), 1.0, False)
