"""An agent of forty lines, its adapter, and adapters that break the contract in one way each."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.errors import YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.log.model import AgentInfo, ErrorRecord, Message, ModelInfo, Status, YouBenchaLog
from youbencha.process import OUTPUT_LIMIT_BYTES, Command, Limits, ProcessResult, Redactor, run
from youbencha.testing import Agent, NotApplicable, Prepared, Situation
from youbencha.testing.agent import MARKER
from youbencha.text import iso_time

FAILURE = 7
OWN = frozenset({"TINY_URL", "TINY_KEY"})

PROGRAM = f"""
import os, sys, time
situation, prompt, seen = sys.argv[1:]
with open(seen, "w", newline="") as file:
    file.write(prompt)
if situation == "answers":
    print("The answer is {MARKER}.")
elif situation == "writes-file":
    with open("kit.txt", "w") as file:
        file.write(os.environ["KIT_PROBE"])
elif situation == "says-much":
    for _ in range(1000):
        sys.stdout.write("0123456789abcde\\n" * 1000)
elif situation == "fails":
    print("something went wrong", file=sys.stderr)
    sys.exit({FAILURE})
elif situation == "hangs":
    from urllib.request import Request, urlopen
    urlopen(Request(os.environ["TINY_URL"], headers={{"x-api-key": os.environ["TINY_KEY"]}}))
    print("Wait for {MARKER}.", flush=True)
    time.sleep(600)
"""


class TinyAdapter:
    """Keeps the contract."""

    name = "tiny-agent"
    version = "1.0.0"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def check_availability(self) -> bool:
        return True

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        env = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8", **self.env(context)}
        done = await run(
            Command(argv=self.argv(context.config), cwd=self.cwd(context), env=env),
            limits=self.limits(context),
            redactor=self.redactor(env),
            log_file=self.log_file(context),
            stop=self.stop(context),
        )
        return self.result(done, context)

    def env(self, context: AgentExecutionContext) -> Mapping[str, str]:
        """Of a model, it knows only its own two variables; all that sounds of one is kept from it nevertheless."""
        if context.gateway is None:
            return context.env
        kept = {name: value for name, value in context.env.items() if not is_model_credential(name, OWN)}
        return {**kept, **self.gateway_env(context.gateway, context.model, context.env)}

    def stop(self, context: AgentExecutionContext) -> asyncio.Event | None:
        return context.stop

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> None:
        return None

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return {"TINY_URL": access.url, "TINY_KEY": access.key}

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        return [name for name in env if name in OWN]

    def argv(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        return (sys.executable, "-S", "-c", PROGRAM, config["situation"], config["prompt"], config["seen"])

    def cwd(self, context: AgentExecutionContext) -> Path:
        return context.workspace_dir

    def limits(self, context: AgentExecutionContext) -> Limits:
        return Limits(timeout_s=context.timeout_s)

    def redactor(self, env: Mapping[str, str]) -> Redactor | None:
        return Redactor.for_env(env)

    def log_file(self, context: AgentExecutionContext) -> Path | None:
        return context.artifacts_dir / "tiny-logs" / f"terminal-output-{uuid.uuid4()}.log"

    def result(self, done: ProcessResult, context: AgentExecutionContext) -> AgentExecutionResult:
        at = iso_time(done.ended_at)
        status: Status = "timeout" if done.timed_out else "success" if done.exit.code == 0 else "failed"
        errors = []
        if done.stopped:
            errors.append(ErrorRecord(message="it was stopped", timestamp=at, code="TINY_STOPPED"))
        elif done.timed_out:
            errors.append(ErrorRecord(message=f"timeout after {context.timeout} ms", timestamp=at, code="TIMEOUT"))
        elif status == "failed":
            errors.append(ErrorRecord(message=f"exit code {done.exit.code}", timestamp=at, code="EXIT_CODE"))
        if done.truncated:
            errors.append(ErrorRecord(message="output truncated at 10MB", timestamp=at, code="TRUNCATED"))
        return AgentExecutionResult(
            exit_code=-1 if done.timed_out else done.exit.shell_code,
            status=status,
            output=done.output,
            started_at=iso_time(done.started_at),
            completed_at=at,
            duration_ms=round((done.ended_at - done.started_at) * 1000),
            errors=tuple(errors),
        )

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        return YouBenchaLog(
            agent_info=AgentInfo(name=self.name, version="unknown", adapter_version=self.version),
            model_info=ModelInfo(name="none", provider="none"),
            execution=result.execution(),
            messages=(Message(role="assistant", content=result.output),),
            errors=result.errors,
        )


class TinyAgent(Agent):
    time_to_speak_ms = 1_000

    def __init__(self, directory: Path, kind: type[TinyAdapter] = TinyAdapter) -> None:
        self._directory = directory
        self._kind = kind

    def adapter(self) -> AgentAdapter:
        return self._kind(self._directory)

    def adapter_without_credentials(self) -> AgentAdapter:
        raise NotApplicable("the tiny agent has no model")

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        seen = workspace.parent / "seen"
        async with TinyModel() as model:
            yield Prepared(
                config={"situation": situation.value, "seen": str(seen)},
                env={"TINY_URL": model.url, "TINY_KEY": "a real key of the tiny model's"},
                exit_code=FAILURE if situation is Situation.FAILS else 0,
                prompts=lambda: [seen.read_bytes().decode()],
                model_url=model.url,
                keys=lambda: list(model.keys),
            )


class TinyModel:
    """Says nothing, and remembers with which keys it was asked."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.url = ""

    async def __aenter__(self) -> TinyModel:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        self.keys += [line.split(": ", 1)[1] for line in head.splitlines() if line.startswith("x-api-key")]
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()


# -- one fault each ----------------------------------------------------------------------------------------------


class IgnoresTheTimeout(TinyAdapter):
    def limits(self, context: AgentExecutionContext) -> Limits:
        return Limits()


class IsLate(TinyAdapter):
    def limits(self, context: AgentExecutionContext) -> Limits:
        return Limits(timeout_s=context.timeout / 1000 + 3.5)


class KeepsAllOutput(TinyAdapter):
    def limits(self, context: AgentExecutionContext) -> Limits:
        return Limits(timeout_s=context.timeout_s, output_bytes=3 * OUTPUT_LIMIT_BYTES)


class LeaksSecrets(TinyAdapter):
    def redactor(self, env: Mapping[str, str]) -> Redactor | None:
        return None


class LeaksSecretsIntoAFile(TinyAdapter):
    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        result = await super().execute(context)
        (context.artifacts_dir / "env.txt").write_text(str(dict(context.env)))
        return result


class LiesAboutTheExitCode(TinyAdapter):
    def result(self, done: ProcessResult, context: AgentExecutionContext) -> AgentExecutionResult:
        result = super().result(done, context)
        return replace(result, exit_code=1) if result.status == "failed" else result


class CallsEverythingASuccess(TinyAdapter):
    def result(self, done: ProcessResult, context: AgentExecutionContext) -> AgentExecutionResult:
        return replace(super().result(done, context), status="success", exit_code=0, errors=())


class RaisesWhenTheAgentFails(TinyAdapter):
    def result(self, done: ProcessResult, context: AgentExecutionContext) -> AgentExecutionResult:
        if done.exit.code:
            raise YouBenchaError("FAILED", "it failed")
        return super().result(done, context)


class SharesState(TinyAdapter):
    """The last context of all counts."""

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        self._context = context
        await asyncio.sleep(0.2)
        return await super().execute(self._context)


class RemembersForTheLog(TinyAdapter):
    """What `execute` saw is no longer there for an adapter that was made anew."""

    output = ""

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        result = await super().execute(context)
        self.output = result.output
        return result

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        return super().normalize_log(replace(result, output=self.output), context)


class UsesAShell(TinyAdapter):
    def argv(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        program = self._directory / "program.py"
        program.write_text(PROGRAM)
        line = f'"{sys.executable}" -S "{program}" {config["situation"]} "{config["prompt"]}" "{config["seen"]}"'
        return ("/bin/sh", "-c", line)


class RunsElsewhere(TinyAdapter):
    def cwd(self, context: AgentExecutionContext) -> Path:
        return context.workspace_dir.parent


class DropsTheEnvironment(TinyAdapter):
    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        return await super().execute(replace(context, env={"KIT_PROBE": ""}))


class KeepsNoLog(TinyAdapter):
    def log_file(self, context: AgentExecutionContext) -> Path | None:
        return None


class HasNoTime(TinyAdapter):
    def result(self, done: ProcessResult, context: AgentExecutionContext) -> AgentExecutionResult:
        return replace(super().result(done, context), started_at="yesterday")


class HidesErrors(TinyAdapter):
    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        return super().normalize_log(replace(result, errors=()), context)


class KeepsCredentials(TinyAdapter):
    """Goes through the gateway, but could go elsewhere."""

    def env(self, context: AgentExecutionContext) -> Mapping[str, str]:
        return {**context.env, **super().env(context)}


class KeepsItsOwnKey(TinyAdapter):
    def env(self, context: AgentExecutionContext) -> Mapping[str, str]:
        return {**super().env(context), "TINY_OLD_KEY": context.env["TINY_KEY"]}


class GoesItsOwnWay(TinyAdapter):
    def env(self, context: AgentExecutionContext) -> Mapping[str, str]:
        return {**super().env(context), "TINY_KEY": "another"}


class IgnoresTheStop(TinyAdapter):
    def stop(self, context: AgentExecutionContext) -> asyncio.Event | None:
        return None


class TellsOfNoStop(TinyAdapter):
    def result(self, done: ProcessResult, context: AgentExecutionContext) -> AgentExecutionResult:
        return super().result(done._replace(stopped=False), context)


class IsNeverThere(TinyAdapter):
    async def check_availability(self) -> bool:
        return False


class HasAnOddName(TinyAdapter):
    name = "Tiny Agent!"


FAULTS: dict[type[TinyAdapter], str] = {
    IgnoresTheTimeout: "cr_2_3",
    IsLate: "cr_2_3",
    KeepsAllOutput: "cr_2_9",
    LeaksSecrets: "secrets",
    LeaksSecretsIntoAFile: "secrets",
    LiesAboutTheExitCode: "cr_2_2",
    CallsEverythingASuccess: "cr_2_2",
    RaisesWhenTheAgentFails: "cr_2_2",
    SharesState: "at_once",
    RemembersForTheLog: "cr_3_6",
    UsesAShell: "cr_2_13",
    RunsElsewhere: "cr_2_10",
    DropsTheEnvironment: "and_2_11",
    KeepsNoLog: "cr_2_12",
    HasNoTime: "cr_2_1_",
    HidesErrors: "cr_3_the_log",
    KeepsCredentials: "behind_a_gateway",
    KeepsItsOwnKey: "behind_a_gateway",
    GoesItsOwnWay: "behind_a_gateway",
    IgnoresTheStop: "behind_a_gateway",
    TellsOfNoStop: "behind_a_gateway",
    IsNeverThere: "cr_1_1",
    HasAnOddName: "shape",
}
"""Each fault, and the tests of the kit that must find it."""
