"""Random operations on nested accounts: the caps hold, and the sums are correct."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from youbencha.gateway.budget import Account, BudgetSpent, Caps, Reservation, Spend, WorstCase

Asking = tuple[int, WorstCase, asyncio.Task[Reservation]]
CENT = Decimal("0.01")
RUN = Caps(Decimal("1.00"), 3000)
TRIALS = (Caps(Decimal("0.50"), None), Caps(None, 1000), Caps())


class Family(RuleBasedStateMachine):
    """Three trials of one run. Who asks is a real task; `asked` holds those that may wait still."""

    asked: Bundle[Asking] = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.run = Account("run", RUN)
        self.trials = [Account(f"trial-{number}", caps, parent=self.run) for number, caps in enumerate(TRIALS)]
        self.every: list[Asking] = []
        self.settled: list[tuple[int, Spend]] = []
        self.worst = [WorstCase(Decimal(0), 0)] * 4
        """Of the trials and the run: the dearest call so far."""

    def teardown(self) -> None:
        for _, _, task in self.every:
            task.cancel()
        self._go()
        for _, _, task in self.every:
            assert task.done()
            _ = task.cancelled() or task.exception()
        self.loop.close()

    def _go(self) -> None:
        """Each task goes as far as it gets."""

        async def turns() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @rule(target=asked, trial=st.integers(0, 2), cents=st.integers(0, 60), tokens=st.integers(0, 1500))
    def ask(self, trial: int, cents: int, tokens: int) -> Asking:
        worst = WorstCase(cents * CENT, tokens)
        for which in (trial, 3):
            dearest = self.worst[which]
            self.worst[which] = WorstCase(max(dearest.usd or 0 * CENT, cents * CENT), max(dearest.tokens, tokens))
        asking = (trial, worst, self.loop.create_task(self.trials[trial].reserve(worst)))
        self.every.append(asking)
        self._go()
        return asking

    @rule(target=asked, asking=consumes(asked), share=st.integers(0, 4), unseen=st.integers(0, 4))
    def settle(self, asking: Asking, share: int, unseen: int) -> Any:
        trial, worst, task = asking
        if not task.done():
            return asking
        if task.cancelled() or task.exception():
            return multiple()
        unseen = min(unseen, 4 - share)
        assert worst.usd is not None
        parts = [Spend(worst.usd * part / 4, worst.tokens * part // 4) for part in (share, unseen)]
        task.result().settle(parts[0], unseen=parts[1])
        self.settled.append((trial, Spend(worst.usd * (share + unseen) / 4, sum(part.tokens for part in parts))))
        self._go()
        return multiple()

    @rule(target=asked, asking=consumes(asked))
    def release(self, asking: Asking) -> Any:
        task = asking[2]
        if not task.done():
            return asking
        if not task.cancelled() and not task.exception():
            task.result().release()
        self._go()
        return multiple()

    @rule(asking=consumes(asked))
    def give_up(self, asking: Asking) -> None:
        """While waiting, or afterwards: then what was set aside goes back."""
        task = asking[2]
        if task.done() and not task.cancelled() and not task.exception():
            task.result().release()
        task.cancel()
        self._go()

    @rule(first=consumes(asked), second=consumes(asked))
    def release_and_give_up_in_one_moment(self, first: Asking, second: Asking) -> None:
        for _, _, task in (first, second):
            if task.done() and not task.cancelled() and not task.exception():
                task.result().release()
            task.cancel()
        self._go()

    def _sums(self, account: Account) -> tuple[Decimal, int]:
        return account.spent_usd + account.unseen_usd, account.spent_tokens + account.unseen_tokens

    @invariant()
    def what_is_spent_is_what_was_settled(self) -> None:
        for number, account in enumerate(self.trials):
            mine = [each for trial, each in self.settled if trial == number]
            dollars = sum((each.usd or Decimal(0) for each in mine), start=Decimal(0))
            assert self._sums(account) == (dollars, sum(each.tokens for each in mine))

    @invariant()
    def the_run_has_what_its_trials_have(self) -> None:
        for name in ("spent_usd", "spent_tokens", "unseen_usd", "unseen_tokens", "reserved_usd", "reserved_tokens"):
            assert getattr(self.run, name) == sum(getattr(trial, name) for trial in self.trials), name

    @invariant()
    def no_cap_is_passed_by_more_than_one_worst_case(self) -> None:
        for account, dearest in zip((*self.trials, self.run), self.worst, strict=True):
            dollars, tokens = self._sums(account)
            if account.caps.usd is not None and dearest.usd is not None:
                assert dollars + account.reserved_usd < account.caps.usd + dearest.usd
            if account.caps.tokens is not None:
                assert tokens + account.reserved_tokens < account.caps.tokens + dearest.tokens

    @invariant()
    def nobody_waits_without_need(self) -> None:
        waiting = [trial for trial, _, task in self.every if not task.done()]
        for number in waiting:
            assert any(self._full(account) for account in (self.trials[number], self.run))

    @invariant()
    def only_a_spent_cap_refuses(self) -> None:
        for number, _, task in self.every:
            if task.done() and not task.cancelled() and (error := task.exception()):
                assert isinstance(error, BudgetSpent)
                assert self.trials[number].exceeded

    def _full(self, account: Account) -> bool:
        dollars, tokens = self._sums(account)
        usd, limit = account.caps
        return (usd is not None and dollars + account.reserved_usd >= usd) or (
            limit is not None and tokens + account.reserved_tokens >= limit
        )


TestFamily = Family.TestCase
# Steps that end a call are left out while there is none: in an unlucky run, that is most of them.
TestFamily.settings = settings(
    max_examples=settings().max_examples // 2,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_after_all_calls_nothing_is_reserved() -> None:
    """Several families with more to do, all of it under way at once."""

    async def life(seed: int) -> None:
        chance = random.Random(seed)
        run = Account("run", Caps(Decimal(20), None))
        trials = [Account(str(number), Caps(Decimal(8), None), parent=run) for number in range(4)]
        spent: list[Decimal] = []

        async def call(account: Account) -> None:
            bound = Decimal(chance.randint(1, 300)) / 100
            reservation = await account.reserve(WorstCase(bound, 1))
            try:
                for _ in range(chance.randint(0, 5)):
                    await asyncio.sleep(0)
                if chance.random() < 0.7:
                    cost = bound * chance.randint(0, 10) / 10
                    reservation.settle(Spend(cost, 1))
                    spent.append(cost)
            finally:
                reservation.release()

        tasks = [asyncio.create_task(call(chance.choice(trials))) for _ in range(120)]
        for _ in range(30):
            await asyncio.sleep(0)
            chance.choice(tasks).cancel()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert all(result is None or isinstance(result, BudgetSpent | asyncio.CancelledError) for result in results)
        assert [(each.reserved_usd, each.reserved_tokens) for each in (run, *trials)] == [(0, 0)] * 5
        assert run.spent_usd == sum(spent) == sum(trial.spent_usd for trial in trials)
        assert run.spent_usd < 23

    for seed in range(8):
        asyncio.run(life(seed))
