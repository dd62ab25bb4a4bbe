"""One question to an agent, one chance to mend its answer, and a sound suggestion without it."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from youbencha.adapters import AgentAdapter, AgentExecutionContext, get_adapter
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.evaluators.judge.copying import copy_tree
from youbencha.events import EventSink, Noted
from youbencha.spec import load_test_case
from youbencha.suggest.answer import NoAnswer, read_answer
from youbencha.suggest.draft import Wanted, draft, merged
from youbencha.suggest.facts import Facts
from youbencha.suggest.prompt import first_prompt, repair_prompt
from youbencha.suggest.writing import as_yaml
from youbencha.trial.checks import check_parts

NO_AGENT = "none"
_TIMEOUT_MS = 600_000
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Suggestion:
    text: str
    """A test case that our own loader takes."""
    by_agent: bool
    why_not: str | None = None
    """Why an agent that was asked did not make it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    facts: Facts
    wanted: Wanted
    instructions: str | None
    model: str | None
    on_event: EventSink | None

    async def ask(self, adapter: AgentAdapter) -> Suggestion:
        basis = as_yaml(draft(self.facts, self.wanted), self.wanted.save_to.name)
        first = prompt = first_prompt(self.facts, basis, self.wanted.prompt, self.instructions)
        problems: list[str] = []
        with tempfile.TemporaryDirectory(prefix="youbencha-suggest-", ignore_cleanup_errors=True) as scratch:
            # As for a judge: the folder was in another agent's hands, and nothing in it may instruct this one.
            tree = Path(scratch) / "work"
            await asyncio.to_thread(copy_tree, self.facts.top, tree)
            for number in range(_ROUNDS):
                answer = await self._run(adapter, tree, prompt, Path(scratch) / f"artifacts-{number}")
                text, problems = self._checked(answer)
                if not problems:
                    return Suggestion(text, by_agent=True)
                self._note(f"its suggestion cannot be used yet: {problems[0]}")
                prompt = repair_prompt(first, answer, problems)
        raise YouBenchaError("SUGGESTION_INVALID", f"its test case cannot be used: {problems[0]}")

    async def _run(self, adapter: AgentAdapter, tree: Path, prompt: str, artifacts: Path) -> str:
        context = AgentExecutionContext(
            workspace_dir=tree,
            repo_dir=tree,
            artifacts_dir=artifacts,
            config={"prompt": prompt},
            timeout=_TIMEOUT_MS,
            model=self.model,
            on_event=self.on_event,
        )
        result = await adapter.execute(context)
        if result.status != "success":
            reason = result.errors[0].message if result.errors else f"it ended as {result.status}"
            raise YouBenchaError("SUGGESTION_FAILED", reason)
        log = adapter.normalize_log(result, context)
        said = [each.content for each in log.messages if each.role == "assistant" and each.parent is None]
        return "\n\n".join(said)

    def _note(self, text: str) -> None:
        if self.on_event:
            self.on_event(Noted(text=text))

    def _checked(self, answer: str) -> tuple[str, list[str]]:
        try:
            case = merged(self.facts, self.wanted, read_answer(answer))
        except NoAnswer as nothing:
            return "", [str(nothing)]
        text = as_yaml(case, self.wanted.save_to.name)
        return text, problems_in(text)


async def suggest(session: Session, agent: str) -> Suggestion:
    """A test case: the agent's, if one is asked for and can be used; else one from the facts alone."""
    alone = as_yaml(draft(session.facts, session.wanted), session.wanted.save_to.name)
    if agent == NO_AGENT:
        return Suggestion(alone, by_agent=False)
    adapter = get_adapter(agent)
    try:
        if not await adapter.check_availability():
            raise YouBenchaError("AGENT_NOT_INSTALLED", "it is not installed")
        return await session.ask(adapter)
    except YouBenchaError as error:
        return Suggestion(alone, by_agent=False, why_not=error.message)


def problems_in(text: str) -> list[str]:
    """All that our loader, the agents and the evaluators find wrong with it."""
    with tempfile.TemporaryDirectory(prefix="youbencha-suggest-") as directory:
        file = Path(directory) / "testcase.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            load_test_case(file, check=check_parts)
        except ConfigError as error:
            return [str(replace(problem, file=None, line=None, column=None)) for problem in error.problems]
    return []
