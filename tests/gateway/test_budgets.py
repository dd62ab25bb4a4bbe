"""Caps are kept, with any number of concurrent calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any

import pytest

from youbencha.errors import YouBenchaError
from youbencha.gateway.budget import (
    NO_CAPS,
    Account,
    BudgetRefusal,
    BudgetSpent,
    CallOverCap,
    Caps,
    PriceUnknown,
    Reservation,
    Spend,
    WorstCase,
)


def usd(amount: str) -> Caps:
    return Caps(usd=Decimal(amount))


def worst(dollars: str | None, tokens: int = 0) -> WorstCase:
    return WorstCase(None if dollars is None else Decimal(dollars), tokens)


def spend(dollars: str | None, tokens: int = 0) -> Spend:
    return Spend(None if dollars is None else Decimal(dollars), tokens)


async def everybody_has_run() -> None:
    """Run each task as far as it gets on its own."""
    for _ in range(10):
        await asyncio.sleep(0)


async def started(*asking: Coroutine[Any, Any, Reservation]) -> list[asyncio.Task[Reservation]]:
    tasks = [asyncio.create_task(each) for each in asking]
    await everybody_has_run()
    return tasks


async def soon(task: asyncio.Future[Any]) -> Any:
    """Who would wait forever fails instead."""
    return await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("caps", [Caps(usd=Decimal(1)), Caps(tokens=100)], ids=["usd", "tokens"])
@pytest.mark.parametrize("which", ["own", "per_call", "total", "total_per_call"])
@pytest.mark.parametrize("cut_off", [False, True], ids=["seen", "cut off"])
async def test_going_over_any_cap_is_flagged_without_a_refusal(caps: Caps, which: str, cut_off: bool) -> None:
    total = Account(
        "run", caps if which == "total" else NO_CAPS, per_call=caps if which == "total_per_call" else NO_CAPS
    )
    own = {"caps": caps if which == "own" else NO_CAPS, "per_call": caps if which == "per_call" else NO_CAPS}
    trial, other = Account("trial", **own, parent=total), Account("other", parent=total)
    at_the_cap, over = Spend(Decimal(1), 100), Spend(Decimal("0.01"), 1)
    (await trial.reserve(WorstCase(Decimal("0.5"), 50))).settle(at_the_cap if "per_call" in which else over)
    assert not trial.exceeded
    call = await trial.reserve(WorstCase(Decimal("0.5"), 50))
    seen, unseen = (over, at_the_cap) if cut_off else (Spend(Decimal("1.01"), 101), Spend(Decimal(0), 0))
    call.settle(seen, unseen=unseen)
    assert (trial.exceeded, total.exceeded, other.exceeded) == (True, which.startswith("total"), False)


async def test_a_call_from_reservation_to_settlement() -> None:
    account = Account("trial", usd("1"))
    reservation = await account.reserve(worst("0.4", 900))
    assert (account.reserved_usd, account.reserved_tokens, account.spent_usd) == (Decimal("0.4"), 900, 0)
    reservation.settle(spend("0.1", 200), unseen=spend("0.05", 30))
    assert (account.reserved_usd, account.reserved_tokens) == (0, 0)
    assert (account.spent_usd, account.spent_tokens) == (Decimal("0.1"), 200)
    assert (account.unseen_usd, account.unseen_tokens) == (Decimal("0.05"), 30)
    assert not account.exceeded


async def test_without_caps_no_call_waits_and_everything_is_counted() -> None:
    account = Account("free")
    for reservation in [await account.reserve(worst(None, 10**9)) for _ in range(3)]:
        reservation.settle(spend(None, 7))
    assert (account.spent_tokens, account.spent_usd, account.unseen_usd) == (21, 0, 0)


async def test_dollars_are_added_exactly() -> None:
    account = Account("trial", usd("1"))
    for _ in range(10):
        (await account.reserve(worst("0.1"))).settle(spend("0.1"))
    assert account.spent_usd == 1  # 0.9999999999999999 in binary fractions
    with pytest.raises(BudgetSpent):
        await account.reserve(worst("0.1"))


async def test_a_spent_cap_refuses() -> None:
    account = Account("trial-7", usd("0.50"))
    (await account.reserve(worst("0.6"))).settle(spend("0.5125"))
    with pytest.raises(BudgetSpent, match=r"the budget is spent: \$0\.5125 of \$0\.5 for trial-7\.") as refused:
        await account.reserve(worst("0.000001"))
    error = refused.value
    assert isinstance(error, YouBenchaError)
    assert (error.reason, error.code) == ("budget_exceeded", "BUDGET_EXCEEDED")
    assert (error.account, error.kind, error.cap, error.spent) == (
        "trial-7", "usd", Decimal("0.50"), Decimal("0.5125"),
    )  # fmt: skip
    assert account.exceeded


async def test_a_spent_cap_of_tokens_refuses() -> None:
    account = Account("trial", Caps(tokens=10_000))
    (await account.reserve(worst(None, 50_000))).settle(spend(None, 10_000))
    with pytest.raises(BudgetSpent, match=r"10,000 tokens of 10,000 tokens"):
        await account.reserve(worst(None, 1))


async def test_possibly_spent_amounts_count_as_spent() -> None:
    account = Account("trial", usd("1"))
    (await account.reserve(worst("2"))).settle(spend("0.1"), unseen=spend("0.9"))
    with pytest.raises(BudgetSpent):
        await account.reserve(worst("0.1"))


@pytest.mark.parametrize("caps", [usd("0"), Caps(tokens=0)])
async def test_a_cap_of_zero_refuses_every_call(caps: Caps) -> None:
    with pytest.raises(BudgetSpent):
        await Account("none", caps).reserve(worst("0", 0))
    with pytest.raises(CallOverCap):
        await Account("none", per_call=caps).reserve(worst("0", 0))


async def test_a_call_over_its_cap() -> None:
    account = Account("trial", per_call=Caps(Decimal("0.2"), 1000))
    (await account.reserve(worst("0.2", 1000))).release()
    assert not account.exceeded
    with pytest.raises(CallOverCap, match=r"up to \$0\.21, .* trial may take \$0\.2\..* gateway\.budget_per_call_usd"):
        await account.reserve(worst("0.21", 1000))
    with pytest.raises(
        CallOverCap, match=r"up to 1,001 tokens, .* 1,000 tokens\..* gateway\.tokens_per_call"
    ) as refused:
        await account.reserve(worst("0.2", 1001))
    assert (refused.value.reason, refused.value.worst, refused.value.cap) == ("call_over_cap", 1001, 1000)
    assert account.exceeded
    assert account.reserved_usd == account.reserved_tokens == 0


@pytest.mark.parametrize("capped", [Account("a", usd("5")), Account("a", per_call=usd("5"))])
async def test_a_dollar_cap_needs_a_known_price(capped: Account) -> None:
    trial = Account("trial", Caps(tokens=10**6), parent=capped)
    with pytest.raises(
        PriceUnknown, match=r"^a has .* the model my-model is not known.*gateway\.prices.*tokens"
    ) as refused:
        await trial.reserve(worst(None, 10), model="my-model")
    assert (refused.value.reason, refused.value.model) == ("price_unknown", "my-model")
    assert not trial.exceeded, "no money was spent"


async def test_an_unknown_cost_under_a_cap_counts_as_its_worst_case() -> None:
    """The request's model had a price, and the answer's has none."""
    account = Account("trial", usd("1"))
    (await account.reserve(worst("0.7", 50))).settle(spend(None, 20))
    assert (account.spent_usd, account.unseen_usd) == (0, Decimal("0.7"))
    (await account.reserve(worst("0.7", 50))).settle(spend("0.2", 20), unseen=spend(None, 30))
    assert (account.spent_usd, account.unseen_usd) == (Decimal("0.2"), Decimal("1.2"))


async def test_a_stated_bound_is_better_than_the_worst_case() -> None:
    """Cut off before anything was seen: then the prompt at most."""
    account = Account("trial", usd("1"))
    (await account.reserve(worst("0.7", 50))).settle(spend(None, 0), unseen=spend("0.02", 20))
    assert (account.unseen_usd, account.unseen_tokens) == (Decimal("0.02"), 20)


async def test_negative_amounts_are_ignored() -> None:
    account = Account("trial", usd("1"))
    (await account.reserve(worst("0.1", 5))).settle(spend("-100", -100), unseen=spend("-100", -100))
    assert (account.spent_usd, account.spent_tokens, account.unseen_usd, account.unseen_tokens) == (0, 0, 0, 0)


async def test_a_call_is_settled_once() -> None:
    account = Account("trial-3", usd("1"))
    reservation = await account.reserve(worst("0.1"))
    reservation.settle(spend("0.1"))
    with pytest.raises(RuntimeError, match="trial-3 is already settled"):
        reservation.settle(spend("0.1"))
    reservation.release()
    assert (account.spent_usd, account.reserved_usd) == (Decimal("0.1"), 0)


async def test_a_released_call_costs_nothing() -> None:
    account = Account("trial", usd("1"))
    reservation = await account.reserve(worst("5", 5))
    reservation.release()
    reservation.release()
    assert (account.spent_usd, account.reserved_usd, account.reserved_tokens) == (0, 0, 0)
    with pytest.raises(RuntimeError):
        reservation.settle(spend("0.1"))


async def test_calls_are_admitted_in_order_when_the_budget_allows() -> None:
    account = Account("trial", usd("1"))
    first = await account.reserve(worst("1"))
    second, third, fourth = await started(*(account.reserve(worst(each)) for each in ("0.5", "0.5", "0.5")))
    assert not any(task.done() for task in (second, third, fourth))
    first.settle(spend("0.1"))
    await everybody_has_run()
    assert (second.done(), third.done(), fourth.done()) == (True, True, False)  # 0.1 + 0.5 < 1, 0.1 + 1 is not
    (await soon(third)).release()
    await everybody_has_run()
    assert fourth.done()
    assert account.reserved_usd == 1


async def test_when_a_cap_is_spent_all_waiting_calls_are_refused() -> None:
    account = Account("trial", usd("1"))
    first = await account.reserve(worst("1"))
    waiting = await started(*(account.reserve(worst("0.1")) for _ in range(5)))
    first.settle(spend("1"))
    results = await soon(asyncio.gather(*waiting, return_exceptions=True))
    assert [type(result) for result in results] == [BudgetSpent] * 5
    assert account.reserved_usd == 0
    assert account.exceeded


async def test_waiting_in_one_trial_does_not_delay_another() -> None:
    run = Account("run", usd("100"))
    one, two = Account("one", usd("1"), parent=run), Account("two", usd("1"), parent=run)
    await one.reserve(worst("1"))
    (waiting,) = await started(one.reserve(worst("1")))
    (other,) = await started(two.reserve(worst("1")))
    assert (waiting.done(), other.done()) == (False, True)
    waiting.cancel()


async def test_a_parents_cap_makes_its_children_wait_for_each_other() -> None:
    run = Account("run", usd("1"))
    one, two = Account("one", parent=run), Account("two", usd("9"), parent=run)
    first = await one.reserve(worst("1"))
    waiting, also = await started(two.reserve(worst("1")), one.reserve(worst("1")))
    assert not waiting.done()
    first.settle(spend("0.5"))
    (await soon(waiting)).settle(spend("0.5"))
    with pytest.raises(BudgetSpent, match=r"the budget is spent: .* for run"):
        await soon(also)
    assert (one.spent_usd, two.spent_usd, run.spent_usd) == (Decimal("0.5"), Decimal("0.5"), 1)
    assert (one.exceeded, two.exceeded, run.exceeded) == (True, False, True)


async def test_a_childs_cap_does_not_limit_its_parent() -> None:
    run = Account("run", usd("10"))
    trial = Account("trial", usd("1"), parent=run)
    (await trial.reserve(worst("1"))).settle(spend("1"))
    with pytest.raises(BudgetSpent, match=r"the budget is spent: .* for trial"):
        await trial.reserve(worst("1"))
    assert (trial.exceeded, run.exceeded) == (True, False)


async def test_a_cancelled_call_leaves_the_queue() -> None:
    account = Account("trial", usd("1"))
    first = await account.reserve(worst("1"))
    gone, stays = await started(account.reserve(worst("1")), account.reserve(worst("1")))
    gone.cancel()
    await everybody_has_run()
    first.release()
    (await soon(stays)).release()
    assert gone.cancelled()
    assert account.reserved_usd == 0


async def test_a_call_cancelled_after_admission_admits_the_next() -> None:
    account = Account("trial", usd("1"))
    first = await account.reserve(worst("1"))
    gone, stays = await started(account.reserve(worst("1")), account.reserve(worst("1")))
    first.release()  # it is the turn of `gone`, who has not run since
    gone.cancel()
    (await soon(stays)).settle(spend("0.25"))
    assert gone.cancelled()
    assert (account.reserved_usd, account.spent_usd) == (0, Decimal("0.25"))


async def test_a_call_cancelled_before_admission_admits_the_next() -> None:
    account = Account("trial", usd("1"))
    first = await account.reserve(worst("1"))
    gone, stays = await started(account.reserve(worst("1")), account.reserve(worst("1")))
    gone.cancel()  # it has not run since
    first.release()
    (await soon(stays)).settle(spend("0.25"))
    assert (account.reserved_usd, account.spent_usd) == (0, Decimal("0.25"))


async def test_a_call_refused_and_cancelled_leaves_no_reservation() -> None:
    account = Account("trial", usd("1"))
    first = await account.reserve(worst("1"))
    (gone,) = await started(account.reserve(worst("1")))
    first.settle(spend("1"))
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(gone)
    assert account.reserved_usd == 0


async def test_fifty_concurrent_calls_exceed_the_cap_by_at_most_one_worst_case() -> None:
    """Each call takes its time, and costs something between nothing and its worst case."""
    account = Account("trial", Caps(usd=Decimal("2")))
    under_way = most_under_way = 0
    settled: list[Decimal] = []
    refused: list[BudgetRefusal] = []
    dearest = Decimal("0.50")

    async def call(number: int) -> None:
        nonlocal under_way, most_under_way
        bound = dearest * (number % 5 + 1) / 5
        try:
            reservation = await account.reserve(WorstCase(bound, 1000))
        except BudgetSpent as error:
            refused.append(error)
            return
        under_way += 1
        most_under_way = max(most_under_way, under_way)
        assert account.spent_usd + account.reserved_usd < 2 + dearest
        for _ in range(number % 7 + 1):
            await asyncio.sleep(0)
        cost = bound * (number % 4) / 3
        reservation.settle(Spend(cost, 10))
        settled.append(cost)
        under_way -= 1

    await soon(asyncio.gather(*(call(number) for number in range(50))))
    assert len(settled) + len(refused) == 50
    assert account.spent_usd == sum(settled)
    assert account.spent_tokens == 10 * len(settled)
    assert 2 <= account.spent_usd < 2 + dearest
    assert refused
    assert most_under_way > 2, "they did run at once"
    assert len(settled) > most_under_way, "those who waited were served"
    assert (account.reserved_usd, account.reserved_tokens) == (0, 0)


async def test_fifty_cheap_calls_are_served_though_their_worst_cases_exceed_the_cap() -> None:
    account = Account("trial", Caps(tokens=1000))

    async def call() -> None:
        reservation = await account.reserve(WorstCase(None, 400))
        await asyncio.sleep(0)
        reservation.settle(Spend(None, 19))

    await soon(asyncio.gather(*(call() for _ in range(50))))
    assert (account.spent_tokens, account.reserved_tokens) == (950, 0)
    assert not account.exceeded
