"""One judge's vote: run the agent on its own copy, read its answer, and ask once more if that cannot be used."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, Place
from youbencha.evaluators.judge.answer import Answer, find_answer
from youbencha.evaluators.judge.assertions import Assertion
from youbencha.evaluators.judge.definition import install_definition, judge_principles
from youbencha.evaluators.judge.materials import Materials, lay_out, task_of
from youbencha.evaluators.judge.prompt import Brief, judge_prompt
from youbencha.evaluators.judge.seat import Seat, knows_gateway
from youbencha.evaluators.result import counted
from youbencha.evaluators.threads import in_thread
from youbencha.events import Warned
from youbencha.gateway.access import GatewayAccess
from youbencha.log import YouBenchaLog
from youbencha.process import Redactor
from youbencha.sandbox.here import HERE
from youbencha.workspace.removal import remove_tree

PROMPT = "prompt.md"
LOG = "youbencha-log.json"
_NOTHING = "there was no JSON object with these assertions in it"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all votes have in common."""

    seat: Seat
    assertions: Sequence[Assertion]
    guidance: str
    timeout: int
    env: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of the judge."""

    name: str
    log: YouBenchaLog
    artifacts: Path
    """Holds the prompt and the log."""
    log_file: Path | None
    """What the agent printed."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    answer: Answer
    log: YouBenchaLog
    """Of the attempt that it came from."""


async def cast_vote(context: EvaluationContext, bench: Bench, number: int, done: list[Attempt]) -> Vote:
    """`done` gets every attempt as it ends: what it cost is known, whatever comes of it."""
    names = [each.name for each in bench.assertions]
    unusable: str | None = None
    for again in ("", "-again"):
        attempt = await _attempt(context, bench, f"vote-{number}{again}", unusable)
        done.append(attempt)
        _require_success(attempt, bench.seat)
        answer = find_answer(attempt.log, names)
        if answer is not None and not answer.faults:
            return Vote(answer=answer, log=attempt.log)
        unusable = _NOTHING if answer is None else "; ".join(f"{name}: {why}" for name, why in answer.faults.items())
        if not again and context.on_event is not None:
            context.on_event(Warned(code="JUDGE_ASKED_AGAIN", message=f"{context.name} is asked again: {unusable}"))
    raise YouBenchaError(
        "JUDGE_NO_VERDICT",
        f"The judge ({bench.seat.type}) gave no usable verdict, not even when asked again: {unusable}.",
        hint="Read what it said in its youbencha-log.json. A stronger model, fewer assertions or clearer ones help.",
    )


async def _attempt(context: EvaluationContext, bench: Bench, name: str, unusable: str | None) -> Attempt:
    seat, artifacts = bench.seat, context.artifacts_dir / name
    artifacts.mkdir(parents=True, exist_ok=True)
    directory = context.scratch_dir / name  # the same in every run: what a judge sees of it can then be replayed
    remove_tree(directory)  # nothing that somebody put there is shown to a judge
    directory.mkdir()
    try:
        materials = await in_thread(lambda still_wanted: lay_out(context, directory, still_wanted))
        definition = install_definition(seat.type, seat.agent_name, config_dir=context.config_dir, tree=materials.tree)
        brief = Brief(
            assertions=bench.assertions,
            materials=materials,
            principles="" if definition else judge_principles(),
            guidance=bench.guidance,
            task=task_of(context),
            size=_size(context),
        )
        async with _place(context, bench, materials) as place:
            prompt = judge_prompt(brief, unusable)
            # Where an agent is asked to use a key, the prompt may name one.
            (artifacts / PROMPT).write_text(Redactor.for_env(os.environ, bench.env).text(prompt), encoding="utf-8")
            judging = AgentExecutionContext(
                workspace_dir=materials.tree,
                repo_dir=materials.tree,
                artifacts_dir=artifacts,
                config={**seat.config, "prompt": prompt},
                timeout=bench.timeout,
                # Without a `.git` in the copy, git would find the repository that our workspace lies in.
                env={"GIT_CEILING_DIRECTORIES": str(directory.resolve()), **bench.env},
                model=seat.model,
                config_dir=context.config_dir,
                gateway=place.gateway,
                sandbox=place.sandbox,
                scratch_dir=context.agent_scratch_dir,
            )
            result = await _execute(seat, judging)
        log = seat.adapter.normalize_log(result, judging)
        (artifacts / LOG).write_text(log.model_dump_json(indent=2), encoding="utf-8")
        return Attempt(name=name, log=log, artifacts=artifacts, log_file=result.log_file)
    finally:
        with suppress(YouBenchaError):
            await in_thread(lambda _: remove_tree(directory))


@asynccontextmanager
async def _place(context: EvaluationContext, bench: Bench, materials: Materials) -> AsyncIterator[Place]:
    """A judge has tools, and reads what an untrusted agent wrote: it is kept where that agent was kept.

    One that cannot go through the gateway would reach no model in there, and stays here.
    """
    access = _access(context, bench)
    if context.open_sandbox is None or access is None:
        yield Place(HERE, access)
        return
    async with context.open_sandbox(materials.tree, access) as place:
        for path in materials.beside(history=context.directory / ".git" / "objects"):
            place.sandbox.share(path)
        yield place


def _access(context: EvaluationContext, bench: Bench) -> GatewayAccess | None:
    kind = context.agent.type if context.agent else None
    return context.gateway if knows_gateway(bench.seat, kind, bench.env) else None


async def _execute(seat: Seat, judging: AgentExecutionContext) -> AgentExecutionResult:
    try:
        return await seat.adapter.execute(judging)
    except YouBenchaError as error:
        raise YouBenchaError(
            "JUDGE_FAILED",
            f"The judge ({seat.type}) could not be started: {error.message}",
            hint=error.hint,
            context={"code": error.code},
        ) from error


def _require_success(attempt: Attempt, seat: Seat) -> None:
    status, errors = attempt.log.execution.status, attempt.log.errors
    if status == "success":
        return
    first = errors[0] if errors else None
    raise YouBenchaError(
        "JUDGE_FAILED",
        f"The judge ({seat.type}) ended with {status}: {first.message if first else 'it did not say why'}",
        hint=(first.hint if first else None) or "Read its youbencha-log.json.",
        context={"code": first.code if first else None, "status": status},
    )


def _size(context: EvaluationContext) -> str | None:
    if context.changes is None:
        return None
    files = context.changes.files
    added, removed = sum(each.additions or 0 for each in files), sum(each.deletions or 0 for each in files)
    return f"{counted(len(files), 'file')}, {counted(added, 'line')} added, {removed:,} removed"
