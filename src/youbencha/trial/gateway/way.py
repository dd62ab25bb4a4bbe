"""One trial's way to its model, from the first key to the last line of the ledger."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Self

import orjson

from youbencha.events import EventSink
from youbencha.gateway.access import GatewayAccess
from youbencha.gateway.keys import Grant
from youbencha.gateway.ledger import entry_of
from youbencha.gateway.model import Call
from youbencha.log import GatewayReport
from youbencha.process import Redactor
from youbencha.trial.gateway.deciding import GatewayPlan
from youbencha.trial.gateway.opened import LEDGER_FILE, Around, TrialGateway, open_gateway, write_mismatches
from youbencha.trial.gateway.reporting import report_of
from youbencha.workspace import RunDirectory, write_atomically
from youbencha.workspace.removal import remove_tree


class WayToModel:
    """The gateway, the agent's key, and what was said of both."""

    def __init__(self, plan: GatewayPlan, directory: RunDirectory) -> None:
        self._plan = plan
        self._directory = directory
        self._redactor = Redactor.for_env(os.environ, plan.secrets)
        self._lines: list[bytes] = []
        """What the ledger holds, as far as it is ours: the agent can reach the file."""
        self._grant: Grant | None = None
        self._mismatches: tuple[str, ...] = ()
        self._opened = AsyncExitStack()
        self.gateway: TrialGateway
        self.access: GatewayAccess

    @classmethod
    async def open(
        cls, plan: GatewayPlan, directory: RunDirectory, agent: str, on_event: EventSink, opened: AsyncExitStack
    ) -> Self:
        """Open until `close`, or until `opened` is."""
        way = cls(plan, directory)
        opened.push_async_callback(way._opened.aclose)
        around = Around(agent, directory, way._redactor, on_event, way._called)
        way.gateway = await way._opened.enter_async_context(open_gateway(plan, around))
        way.access = way.gateway.issue_for_agent()
        return way

    @property
    def secrets(self) -> Mapping[str, str]:
        """What must be in nothing that is written."""
        return {**self._plan.secrets, "GATEWAY_VIRTUAL_KEY": self.access.key}

    @property
    def stop(self) -> asyncio.Event:
        """Set when the agent has to end."""
        return self.gateway.stop

    async def end_agent(self) -> None:
        self._grant = await self.gateway.end(self.access)

    def report(self) -> GatewayReport:
        """Once the agent is gone, and the artifacts are ours again."""
        assert self._grant is not None
        self._mismatches = write_mismatches(self._grant, self._directory.artifacts, self._redactor)
        return report_of(self._plan, self._grant, ledger=LEDGER_FILE, mismatches=self._mismatches)

    def findings(self) -> Iterator[tuple[str, str]]:
        """What a person should know: codes and messages."""
        assert self._grant is not None
        if self._mismatches:
            summary = self._redactor.text(self._grant.mismatches[0].summary)
            yield "CASSETTE_MISMATCH", f"{summary} (in full: artifacts/{self._mismatches[0]})"
        if self._grant.not_recorded is not None:
            yield "CASSETTE_INCOMPLETE", f"not every answer could be recorded: {self._grant.not_recorded}"

    async def close(self) -> list[tuple[str, str]]:
        """Nobody asks any more. The ledger is then what we wrote."""
        failure, spent_by_others = self.gateway.ledger_failure, self._is_spent_by_others()
        await self._opened.aclose()
        found = []
        if spent_by_others:
            found.append(("BUDGET_EXCEEDED", "the run's total budget was spent by its evaluators, after the agent"))
        if failure is not None:
            found.append(("LEDGER_INCOMPLETE", f"the gateway's ledger could not be written in full: {failure}"))
        elif self._mend_ledger():
            told = "the gateway's ledger was changed while the agent ran; it was written anew"
            found.append(("WORKSPACE_TAMPERED", told))
        return found

    def _is_spent_by_others(self) -> bool:
        mine = self._grant is not None and self._grant.account.exceeded
        return self.gateway.total.exceeded and not mine

    def _mend_ledger(self) -> bool:
        """Whether what is there was not what we wrote. It may be anything: a directory, a link, a file without end."""
        path = self._directory.artifacts / LEDGER_FILE
        whole = b"".join(self._lines)
        is_file = stat.S_ISREG(path.lstat().st_mode) if os.path.lexists(path) else False
        if is_file and path.stat().st_size == len(whole) and path.read_bytes() == whole:
            return False
        remove_tree(path)
        write_atomically(path, whole)
        return True

    def _called(self, call: Call) -> None:
        self._lines.append(orjson.dumps(entry_of(call)) + b"\n")
