"""Cassettes: recorded requests are still found, and are written to the same files.

The golden cassette was recorded on another day and in another directory. Its requests contain everything that differs
from run to run, in the form of each API. If one fingerprint changes, the cassettes of users have no answers any more.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from golden_files import DATA, KEYS, Golden, GoldenBench, Reply, Request, Sending, tidy
from golden_upstream import APIS, Answer, Asked, Upstream, as_json, as_stream

ANTHROPIC, CHAT, RESPONSES, GEMINI = APIS
RECORDED_ON = "2026-01-15"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""Not by `%B`, which depends on the locale."""
RULES = "\n".join(f"Rule {number}: write well." for number in range(60))
"""Long enough to be stored once."""


class Moment:
    """The values that differ from run to run."""

    def __init__(self) -> None:
        now, number = datetime.now(), uuid.uuid4().int
        past = now - timedelta(days=40 + number % 300, seconds=number % 80000)
        month = MONTHS[past.month - 1][:3]
        self.uuid, self.hex = str(uuid.uuid4()), f"a1{uuid.uuid4().hex}"
        self.port, self.number, self.seconds = 40000 + number % 20000, 10000 + number % 80000, number % 1000 / 1000
        self.epoch = f"{now.timestamp():.3f}"
        self.today = f"{now:%Y-%m-%d}, {now.month}/{now.day}/{now.year}, "
        self.today += f"{DAYS[now.weekday()]}, {MONTHS[now.month - 1]} {now.day}, {now.year}"
        self.this_month = f"{MONTHS[now.month - 1]} {now.year}"
        self.past, self.clock = f"{past:%Y-%m-%d %H:%M:%S}", f"{past:%H:%M:%S}"
        self.logged = f"{DAYS[past.weekday()][:3]} {month} {past.day} {self.clock} {past.year} +0000"
        self.listed = f"{month} {past.day:2} {past:%H:%M}"

    @property
    def instructions(self) -> str:
        """A prompt: the last line has no volatile part, although it looks so."""
        return (
            f"x-anthropic-billing-header: cc_version=2.1; cch={self.hex[:5]};\n"
            f"Work in @workspace@ (home: @home@), file://@workspace@/a, -I@workspace@/b, /tmp/tmp.{self.hex[:10]}/x.\n"
            f" - OS Version: Linux 6.{self.number}\nToday's date: {self.today}.\n"
            f"The current month is {self.this_month}. Now: {self.epoch}. Session {self.uuid}, commit {self.hex}.\n"
            f"Take 30 seconds at most, from 2019-05-17 on, at 10:30, on localhost:8080."
        )

    @property
    def output(self) -> str:
        """Of a tool."""
        line = "=" * (20 + self.number % 30)
        return (
            f"commit {self.hex}\nDate:   {self.logged}\n{self.hex[:7]} A shop\n"
            f"-rw-r--r-- 1 me us {self.number} {self.listed} cart.py\ntotal {self.number}\n"
            f"{line} 3 passed in {self.seconds:.2f}s {line}\n"
            f"at {self.past}, {self.clock}, {self.epoch}; took {self.number} ms, wall time 1m{self.number % 60}s\n"
            f"http://127.0.0.1:{self.port}/x pid {self.number}, PGID: {self.number}, /tmp/cc-socks/{self.number}.sock\n"
            f"running in background with ID: {self.hex[:6]}\nagentId: {self.hex[:9]} in @workspace@/cart.py\n"
            f"Linux 6.18.{self.number} and /tmp/out-{self.hex[:8]}/log; exit code 2, 1 file, TAX = 0.19"
        )


def bodies(now: Moment) -> dict[str, tuple[str, str, Any]]:
    """By name: method, path, body."""
    anthropic = {
        "model": "claude-golden",
        "max_tokens": 100,
        "metadata": {"user_id": now.uuid},
        "system": [
            {"type": "text", "text": now.instructions, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": RULES},
        ],
        "tools": [{"name": "Bash", "description": "Runs in @workspace@.", "input_schema": {"type": "object"}}],
    }
    talk = anthropic_talk(now)
    odd = {"role": "user", "content": "\ud83d is half a character, sk-ant-api03-" + "a1B2" * 20 + " is a key"}
    chat = {"model": "gpt-golden", "user": now.uuid, "stream": True, "messages": chat_talk(now)}
    responses = {
        "model": "gpt-golden",
        "prompt_cache_key": now.uuid,
        "client_metadata": {"at": now.epoch},
        "stream": True,
        "instructions": now.instructions,
        "input": responses_talk(now),
    }
    gemini = {"systemInstruction": {"parts": [{"text": now.instructions}]}, "contents": gemini_talk(now)}
    return {
        "anthropic: first turn": ("POST", ANTHROPIC.path, {**anthropic, "stream": True, "messages": talk[:1]}),
        "anthropic: tool result": ("POST", ANTHROPIC.path, {**anthropic, "messages": talk}),
        "anthropic: the same again": ("POST", ANTHROPIC.path, {**anthropic, "messages": talk}),
        "anthropic: tokens counted": ("POST", "/v1/messages/count_tokens", {**anthropic, "messages": talk[:1]}),
        "anthropic: odd values": ("POST", ANTHROPIC.path, {"model": "claude-golden", "messages": [odd], "n": 2**70}),
        "chat": ("POST", CHAT.path, chat),
        "responses": ("POST", RESPONSES.path, responses),
        "gemini": ("POST", GEMINI.path, gemini),
        "gemini: stream": ("POST", GEMINI.stream_path, {"contents": gemini_talk(now)[:1]}),
        "models": ("GET", "/v1/models", None),
    }


def anthropic_talk(now: Moment) -> list[Any]:
    call = f"toolu_01{now.hex[:20]}"
    status = f"<system-reminder>\ngitStatus: on main since {now.past}\n</system-reminder>\n"
    prompt = {"type": "text", "text": f"{status}Fix the tax as of 1999-12-31."}
    thought = {"type": "thinking", "thinking": "Hm, 30 seconds.", "signature": f"Er8B{now.hex}"}
    command = {"command": f"cd @workspace@ && sleep 5 # {now.uuid}"}
    return [
        {"role": "user", "content": [prompt]},
        {"role": "assistant", "content": [thought, {"type": "tool_use", "id": call, "name": "Bash", "input": command}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": now.output}]},
    ]


def chat_talk(now: Moment) -> list[Any]:
    call = f"call_{now.hex}"
    function = {"name": "shell", "arguments": json.dumps({"command": "cat @workspace@/x"})}
    return [
        {"role": "system", "content": now.instructions},
        {"role": "user", "content": "Fix the tax."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": call, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call, "content": now.output},
    ]


def responses_talk(now: Moment) -> list[Any]:
    call = f"call_{now.hex}"
    output = f"Wall time: {now.seconds} seconds\n{now.output}"
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the tax."}]},
        {"type": "reasoning", "id": f"rs_{now.hex}", "summary": [], "encrypted_content": f"gAAA{now.hex}"},
        {"type": "function_call", "call_id": call, "name": "exec_command", "arguments": '{"cmd": "make"}'},
        {"type": "function_call_output", "call_id": call, "output": output},
    ]


def gemini_talk(now: Moment) -> list[Any]:
    call = {"functionCall": {"name": "shell", "args": {"command": "make"}}, "thoughtSignature": f"CrYB{now.hex}"}
    response = {"functionResponse": {"name": "shell", "response": {"output": now.output}}}
    return [
        {"role": "user", "parts": [{"text": "Fix the tax."}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
    ]


def requests(now: Moment) -> list[Request]:
    made: list[Request] = []
    for name, (method, path, body) in bodies(now).items():
        headers = {"x-case": name, "x-workspace": "@quoted-workspace@", "x-id": now.uuid, "x-api-key": "@key@"}
        headers |= {"anthropic-version": "2023-06-01"} if name.startswith("anthropic") else {}
        made.append((method, path, headers, "" if body is None else json.dumps(body)))
    made.append(("POST", ANTHROPIC.path, {"x-api-key": "@key@", "x-case": "not JSON"}, "This is not JSON."))
    return made


class Provider:
    """Each answer differs, and names the workspace and an id of the request."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, asked: Asked) -> Answer:
        self._count += 1
        where, known = unquote(asked.headers.get("x-workspace", "")), asked.headers.get("x-id", "")
        pieces = [f"Look at {where[:-5]}", where[-5:], "/cart.py", f" once more ({self._count})"]
        pieces += [f" for {known}"] if known.encode() in asked.body else []
        api = next((each for each in APIS if each.path == asked.path), GEMINI)
        match asked.case:
            case "not JSON":
                return Answer([b'{"type":"error","error":{"type":"invalid_request_error"}}'], status=400)
            case "models" | "anthropic: tokens counted":
                # Long enough to be written in several lines, however many milliseconds it took.
                return as_json({"data": [{"id": "claude-golden", "type": "model"}], "input_tokens": 12})
            case "anthropic: first turn" | "chat" | "responses" | "gemini: stream":
                return as_stream(api.events(api.model, pieces))
        return as_json(api.whole(api.model, "".join(pieces)))


def test_cassette(golden: Golden, bench: GoldenBench) -> None:
    bench.make_repository({"README.md": "# Shop\n"})
    cassette = bench.root / "cassette"
    addresses = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
    with Upstream(Provider()) as upstream:
        bench.setenv(**KEYS, **dict.fromkeys(addresses, upstream.url))
        recorded = run(bench, "--record", cassette)
    golden.check_tree("cassette", files_of(cassette))
    for name in ("cassette", "cassette-3"):  # as written by this version, and by the one before
        replayed = run(bench, "--replay", DATA / name)
        assert [reply.status for reply in replayed] == [reply.status for reply in recorded]
        names = [*bodies(Moment()), "not JSON"]
        sections = [f"## {name}\n{reply.text().rstrip()}\n" for name, reply in zip(names, replayed, strict=True)]
        golden.check("replayed.txt", "\n".join(sections))


def run(bench: GoldenBench, option: str, cassette: Path) -> list[Reply]:
    """Send the requests in a new run. The replies, with names for its workspace and id."""
    now, sending = Moment(), Sending(bench.root)
    bench.run(option, str(cassette), agent=sending.agent(requests(now)), gateway="builtin")
    names = {str(bench.root): "root", now.uuid: "id"}
    return [reply._replace(body=tidy(reply.body.decode(), names).encode()) for reply in sending.replies()]


def files_of(cassette: Path) -> Mapping[str, str]:
    """As they were written, but with a fixed day and without times."""
    files = {str(file.relative_to(cassette)): file.read_text(encoding="utf-8") for file in cassette.rglob("*.json")}
    return {name: re.sub(r'("ms": ?)\d+', r"\g<1>0", on_fixed_day(text)) for name, text in files.items()}


def on_fixed_day(text: str) -> str:
    return re.sub(r'(?<="day": ")[\d-]+', RECORDED_ON, text)
