"""The gateway's control routes, and the plan that a node gets."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from test_trial_budgets import BODY, EACH
from trial_bench import TrialBench

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.events import Event, WarningRaised
from youbencha.gateway import lending, remote
from youbencha.gateway.ledger import read_ledger
from youbencha.gateway.remote import RemoteKeys
from youbencha.process import Redactor
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.store.layout import LEDGER_FILE
from youbencha.trial.context import Host
from youbencha.trial.gateway_session import Ticket
from youbencha.trial.gateways import Budgets
from youbencha.trial.plan import Plan
from youbencha.trial.remote_gateways import lend, portable, sent_secrets

API_KEY = "sk-ant-dummy-0123456789abcdef"
ANSWER = {"text": "yes", "usage": {"input_tokens": EACH - 40, "output_tokens": 40}, "times": "forever"}
PATIENCE_S = 30


class Lender:
    """A driver whose gateway asks a scripted model."""

    def __init__(self, trials: TrialBench, host: Host, plan: Plan, model: ScriptedModel, budgets: Budgets) -> None:
        self.trials = trials
        self.host = host
        self.plan = plan
        self.model = model
        self.budgets = budgets

    @asynccontextmanager
    async def lending(self, name: str = "attempt") -> AsyncIterator[Ticket]:
        artifacts = self.trials.root / name / "artifacts"
        lending = lend(self.plan, self.host, agent="one", attempt=name, artifacts=artifacts, on_event=lambda _: None)
        async with lending as ticket:
            assert ticket is not None
            yield ticket

    def ledger(self, name: str = "attempt") -> list[dict[str, Any]]:
        return list(read_ledger(self.trials.root / name / "artifacts" / LEDGER_FILE))


@asynccontextmanager
async def lender(trials: TrialBench, *answers: Mapping[str, Any], **gateway: Any) -> AsyncIterator[Lender]:
    script = Script.model_validate({"tools_optional": True, "turns": list(answers) or [ANSWER]})
    async with ScriptedModel(script) as model:
        host = trials.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY})
        plan = trials.plan(host, trials.case("", gateway={"type": "builtin", **gateway}))
        async with host.sharing([("one", plan)], log_dir=trials.root) as budgets:
            yield Lender(trials, host, plan, model, budgets)
    trials.assert_nothing_is_left()


async def ask(url: str, key: str, *, source: str = "127.0.0.1", **changes: Any) -> int:
    """The status of a request to a model, from an address of this computer."""
    connector = aiohttp.TCPConnector(local_addr=(source, 0))
    async with aiohttp.ClientSession(connector=connector) as client:
        asked = client.post(f"{url}/v1/messages", json={**BODY, **changes}, headers={"x-api-key": key})
        async with asked as answer:
            await answer.read()
            return answer.status


async def control_status(url: str, token: str, action: str = "issue", body: bytes = b"{}", method: str = "POST") -> int:
    async with aiohttp.ClientSession() as client:
        headers = {"Authorization": f"Bearer {token}"}
        called = client.request(method, f"{url}{lending.CONTROL_PREFIX}{action}", data=body, headers=headers)
        async with asked_within(called) as answer:
            return answer.status


@asynccontextmanager
async def asked_within(called: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    async with asyncio.timeout(PATIENCE_S), called as answer:
        yield answer


async def test_the_driver_decides_what_keys_are_for(trials: TrialBench) -> None:
    async with (
        lender(trials, tokens_per_trial=200, models=["claude-opus-4-5"], tokens_total=500) as driver,
        driver.lending() as ticket,
        RemoteKeys(*ticket) as keys,
    ):
        agent = await keys.issue("agent", "command")
        assert agent.url == ticket.url
        assert [await ask(*agent[:2]) for _ in range(3)] == [200, 200, 402]
        assert await ask(*agent[:2], model="claude-haiku-4-5") == 403
        of_agent = await keys.end(agent.key)
        judge = await keys.issue("evaluator", "judge")
        assert [await ask(*judge[:2], model="claude-haiku-4-5") for _ in range(4)] == [200, 200, 200, 402]
        of_judge = await keys.end(judge.key)
        assert (await keys.end(agent.key)).report == of_agent.report
        assert (await ask(*agent[:2]), await ask(*judge[:2])) == (401, 401)
        assert await keys.close() == []
        with pytest.raises(YouBenchaError, match="no further keys"):
            await keys.issue("evaluator", "late")
        assert (driver.budgets.total.spent_tokens, driver.budgets.agent("one").spent_tokens) == (500, 200)
    assert of_agent.report.budget is not None
    assert (of_agent.report.budget.cap_tokens, of_agent.report.budget.refused_by) == (200, "command")
    assert (of_agent.report.requests, of_agent.report.refused, of_agent.total_exceeded) == (4, 1, False)
    assert of_judge.report.usage is not None
    assert (of_judge.report.usage.total_tokens, of_judge.total_exceeded) == (300, True)
    lines = driver.ledger()
    assert [line["run"] for line in lines] == ["attempt"] * 8 + [None] * 2  # of keys that had ended
    assert [line["key"] for line in lines] == ["command"] * 4 + ["judge"] * 4 + ["command", "judge"]
    assert [request.headers["x-api-key"] for request in driver.model.requests] == [API_KEY] * 5


async def test_a_ticket_is_for_its_own_keys(trials: TrialBench) -> None:
    async with (
        lender(trials) as driver,
        driver.lending("first") as first,
        driver.lending("second") as second,
        RemoteKeys(*first) as mine,
        RemoteKeys(*second) as others,
    ):
        own, foreign = await mine.issue("agent", "command"), await others.issue("agent", "command")
        with pytest.raises(YouBenchaError, match="not issued for this trial"):
            await mine.end(foreign.key)
        assert await ask(*foreign[:2]) == 200
        for token in (own.key, first.token[:-1], f"{first.token}0", "", "\u00e9"):
            assert await control_status(first.url, token) == 401, token
        assert await mine.close() == []
        assert await ask(*foreign[:2]) == 200
        assert (await others.end(foreign.key)).report.requests == 2
    assert [line["error"] for line in driver.ledger("first")] == []


async def test_a_key_is_valid_only_for_the_machine_of_its_node(trials: TrialBench) -> None:
    async with lender(trials) as driver, driver.lending() as ticket, RemoteKeys(*ticket) as keys:
        agent = await keys.issue("agent", "command")
        assert await ask(*agent[:2], source="127.0.0.3") == 401
        assert await ask(*agent[:2]) == 200
        await keys.end(agent.key)
    assert [line["error"] for line in driver.ledger()] == ["key_foreign", None]


async def test_a_ticket_ends_with_its_block(trials: TrialBench) -> None:
    """Its keys, too; and a node that still works is stopped."""
    async with lender(trials, {"text": "x", "hang": True}) as driver:
        async with driver.lending() as ticket:
            keys = RemoteKeys(*ticket)
            await keys.__aenter__()
            agent = await keys.issue("agent", "command")
            asking = asyncio.create_task(ask(*agent[:2]))
            async with asyncio.timeout(PATIENCE_S):
                while not agent.is_busy():
                    await asyncio.sleep(0.01)
        assert driver.budgets.total.reserved_tokens == 0
        assert [line["error"] for line in driver.ledger()] == ["key_ended"]
        with pytest.raises(aiohttp.ClientError):
            await asking
        await asyncio.wait_for(keys.stop.wait(), PATIENCE_S)
        with pytest.raises(YouBenchaError, match="this attempt") as raised:
            await keys.end(agent.key)
        assert raised.value.code == "TICKET_ENDED"
        assert await ask(*agent[:2]) == 401
        await keys.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("action", "body", "status"),
    [
        ("issue", b"{", 400),
        ("issue", b"[]", 400),
        ("issue", b'{"role": "agent"}', 400),
        ("issue", b'{"role": "owner", "name": "x"}', 400),
        ("issue", b'{"role": "agent", "name": "%s"}' % (b"x" * 300), 400),
        ("issue", b'{"role": "agent", "name": "x"}', 200),
        ("issue", b'{"role": "agent", "name": "x"}%s' % (b" " * 20_000), 400),
        ("end", b'{"key": 1}', 400),
        ("end", b'{"key": "sk-yb-unknown"}', 409),
        ("start", b"{}", 404),
    ],
)
async def test_good_and_bad_requests(trials: TrialBench, action: str, body: bytes, status: int) -> None:
    async with lender(trials) as driver, driver.lending() as ticket:
        assert await control_status(ticket.url, ticket.token, action, body) == status
        assert await control_status(ticket.url, ticket.token, action, method="PUT") == 404


async def test_a_lost_connection_is_tried_again(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY_AFTER_S", 0.01)
    async with lender(trials) as driver, driver.lending() as ticket:
        lost = 3

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal lost
            await reader.readuntil(b"\r\n\r\n")
            lost -= 1
            writer.transport.abort()
            if lost == 0:
                server.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with RemoteKeys(f"http://127.0.0.1:{port}", ticket.token) as keys:
            issuing = asyncio.create_task(keys.issue("agent", "command"))
            await server.wait_closed()
            assert not keys.stop.is_set() or lost == 0
            with pytest.raises(YouBenchaError, match="nothing listens there") as raised:
                await issuing
            assert raised.value.code == "DRIVER_GONE"
            assert keys.stop.is_set()


async def test_a_driver_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine that was switched off: nothing refuses the connection."""
    for name, value in (("_SILENCE_S", 0.1), ("_GONE_AFTER_S", 0.5), ("_RETRY_AFTER_S", 0.01)):
        monkeypatch.setattr(remote, name, value)

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, RemoteKeys(url, "x") as keys:
        await asyncio.wait_for(keys.stop.wait(), PATIENCE_S)
        with pytest.raises(YouBenchaError, match="cannot be reached") as raised:
            await keys.issue("agent", "command")
    assert raised.value.code == "DRIVER_GONE"
    assert raised.value.hint is not None


@posix_only("containers need Unix sockets")
async def test_the_socket_of_a_sandbox(trials: TrialBench, tmp_path: Path) -> None:
    async with lender(trials) as driver, driver.lending() as ticket, RemoteKeys(*ticket) as keys:
        agent = await keys.issue("agent", "command")
        await keys.listen_on(tmp_path / "gateway.sock")
        connector = aiohttp.UnixConnector(str(tmp_path / "gateway.sock"))
        async with aiohttp.ClientSession(connector=connector, headers={"x-api-key": agent.key}) as client:
            for _ in range(2):
                async with client.post("http://gateway/v1/messages", json=BODY) as answer:
                    assert (answer.status, (await answer.json())["content"][0]["text"]) == (200, "yes")
            async with client.post(f"http://gateway{lending.CONTROL_PREFIX}close", json={}) as answer:
                assert answer.status == 401
        ended = await keys.end(agent.key)
    assert ended.report.requests == 2


async def test_a_cassette_stays_here(trials: TrialBench) -> None:
    async with lender(trials, cassette={"dir": "tape", "mode": "record"}) as driver:
        with pytest.raises(YouBenchaError, match="cassette") as raised:
            async with driver.lending():
                pass
    assert raised.value.code == "CASSETTE_REMOTE_IMPOSSIBLE"


def test_a_token_is_masked(trials: TrialBench) -> None:
    token = f"sk-yb-ticket-{'0123456789abcdef' * 4}"
    assert token not in repr(Ticket("http://127.0.0.1:1", token))
    assert Redactor().text(f"Bearer {token}") == "Bearer [REDACTED]"


def plan_with(trials: TrialBench, env: Mapping[str, str], **gateway: Any) -> Plan:
    secrets = trials.root / "secrets.env"
    secrets.write_text("OPENAI_API_KEY=sk-of-the-file-123456\n")
    secrets.chmod(0o600)
    host = trials.host(
        {"OUR_KEY": "the-key-of-the-company", "ANTHROPIC_BASE_URL": "http://user:pass-word@models.example"}
    )
    case = trials.case(
        "",
        agent={"type": "command", "config": {"command": ["true"], "prompt_by": "none"}, "env": dict(env)},
        gateway={
            "type": "builtin",
            "secrets_file": str(secrets),
            "upstreams": {"anthropic": {"key_env": "OUR_KEY"}},
            **gateway,
        },
    )
    return trials.plan(host, case)


def test_a_portable_plan_has_no_secret_of_the_gateway(trials: TrialBench) -> None:
    env = {
        "COPY": "${OUR_KEY}",
        "HEADER": "Bearer ${OUR_KEY}",
        "GEMINI_API_KEY": "a-literal-key-of-gemini",
        "GEMINI_MODEL": "flash",
        "GITHUB_TOKEN": "for-the-agent-itself",
    }
    plan = plan_with(trials, env, budget_per_trial_usd=2)
    sent = portable(plan)
    pickled = pickle.dumps(sent)
    for secret in ("the-key-of-the-company", "sk-of-the-file-123456", "a-literal-key-of-gemini", "pass-word"):
        assert secret.encode() in pickle.dumps(plan), secret
        assert secret.encode() not in pickled, secret
    assert sent.gateway is not None
    assert (sent.gateway.upstreams, sent.gateway.secrets, sent.gateway.spec.secrets_file) == ({}, {}, None)
    assert sent.gateway.spec.budget_per_trial_usd == 2
    assert dict(sent.env) == {
        "COPY": "kept-by-the-driver",
        "HEADER": "kept-by-the-driver",
        "GEMINI_API_KEY": "kept-by-the-driver",
        "GEMINI_MODEL": "flash",
        "GITHUB_TOKEN": "for-the-agent-itself",
    }
    assert sent_secrets(sent) == ("GITHUB_TOKEN",)
    assert pickle.loads(pickled) == sent
    assert (sent.config_hash, sent.name, sent.evaluators) == (plan.config_hash, plan.name, plan.evaluators)


async def test_without_a_gateway_the_agents_own_secrets_are_sent(trials: TrialBench) -> None:
    """With a warning on the driver."""
    host = trials.host({"ANTHROPIC_API_KEY": "of-the-drivers-environment", "MINE": "a-key-for-the-agent"})
    agent = {
        "type": "command",
        "config": {"command": ["true"], "prompt_by": "none"},
        "env": {"ANTHROPIC_API_KEY": "${MINE}", "PLAIN": "1"},
    }
    plan = trials.plan(host, trials.case("", agent=agent, gateway="none"))
    sent = portable(plan)
    assert sent.env["ANTHROPIC_API_KEY"] == "a-key-for-the-agent"
    assert sent_secrets(sent) == ("ANTHROPIC_API_KEY",)
    assert b"of-the-drivers-environment" not in pickle.dumps(sent)
    events: list[Event] = []
    async with lend(plan, host, agent="one", attempt="x", artifacts=trials.root, on_event=events.append) as ticket:
        assert ticket is None
    assert [event.message for event in events if isinstance(event, WarningRaised)] == [
        "Secrets sent to the node, because the agent itself needs them: ANTHROPIC_API_KEY"
    ]
