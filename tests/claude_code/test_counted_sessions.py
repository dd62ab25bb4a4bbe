"""The tokens of one session on many versions of the real CLI, compared with what the model sent."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from agent_clis import COUNTED, NEWEST, OLD, OLDEST
from claude_bench import ClaudeBench, Session, bash, says, script, uses, versions
from youbencha.adapters.base import parse_version
from youbencha.adapters.claude_code.versions import Feature, supports
from youbencha.scripted_model import RecordedRequest
from youbencha.usage import Tokens, add_all

Counted = Literal["all", "main", "some", "no output", "nothing"]
"""`all`: the side models, too. `main`: the main conversation. `some`: that, and not all of the rest. `no output`:
without output tokens. Whatever is not all is marked as partial."""

BY_STREAM: dict[str, Counted] = {
    "1.0.24": "main",  # its own totals have the input twice, until 1.0.77
    "1.0.44": "main",
    "1.0.60": "main",
    "1.0.90": "main",  # its own total is that of the last call
    OLDEST: "all",
    "2.0.0": "all",
    "2.0.30": "some",  # its own totals have no input
    OLD: "all",
    "2.1.0": "all",
    "2.1.30": "all",
    "2.1.104": "all",
    "2.0.24": "some",  # its own totals lack a call on the side
    "2.0.55": "all",
    "2.1.61": "all",
    "2.1.150": "all",
    "2.1.250": "all",
    "2.1.326": "all",
    NEWEST: "all",
}

BY_SESSION_FILE: dict[str, Counted] = {
    **dict.fromkeys(BY_STREAM, "main"),
    "1.0.24": "nothing",  # there is no way to tell which file is the session's
    "1.0.44": "nothing",
    "2.0.24": "some",  # subagents are in the same file
    "2.1.30": "no output",  # its session file has only what each call begins with
}


def usage(given: int, made: int, read: int, created: int) -> dict[str, int]:
    return {
        "input_tokens": given,
        "output_tokens": made,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": created,
    }


TURNS: list[dict[str, Any]] = [
    {**bash("echo one"), "thinking": "Hm.", "text": "First.", "usage": usage(1_001, 11, 0, 5_000)},
    {
        "text": "Second.",
        "tools": bash("echo a")["tools"] + bash("echo b")["tools"],
        "usage": usage(1_020, 22, 5_000, 30),
    },
    says("Third: é 漢", usage=usage(1_300, 33, 5_300, 70)),
]
AT_ONCE = {"chunk_bytes": 100_000}
"""1.0.128 and 2.0.62 write a line of the session file 0.1 s after a block of an answer, with the output tokens known by
then. They are final only if the answer has ended, so each answer is sent in one piece."""

SIDE = {"text": "ok", "usage": usage(7, 3, 2, 1)}
WARMUP = {"when": {"prompt_contains": "Warmup"}, "turns": [{**SIDE, "times": "forever"}]}
"""2.1.0 calls its subagents once before they are needed."""


def sent(request: RecordedRequest) -> Tokens:
    is_main = request.kind == "turn" and request.conversation is None
    return read_tokens(TURNS[request.turn] if is_main and request.turn is not None else SIDE)


def read_tokens(turn: dict[str, Any]) -> Tokens:
    keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Tokens(*(turn["usage"][key] for key in keys))


def counted(session: Session) -> Tokens | None:
    found = session.log.usage
    if found is None:
        return None
    return Tokens(found.input_tokens, found.output_tokens, found.cache_read_tokens, found.cache_creation_tokens)


def options(version: str) -> dict[str, Any]:
    """Many flags, each of which this version must know."""
    parsed = parse_version(version)
    assert parsed is not None
    chosen = {
        "allowed_tools": ["Bash"],
        "append_system_prompt": "Be brief.",
        "disallowed_tools": ["WebSearch"],
        "max_turns": 20,
        "permission_mode": "acceptEdits",
    }
    if supports(parsed, Feature.STRICT_MCP_CONFIG):
        chosen["mcp_config"] = '{"mcpServers": {}}'
    if supports(parsed, Feature.SETTING_SOURCES):
        chosen["setting_sources"] = ["user"]
    return chosen


def table() -> list[Any]:
    rows = [(version, "stream-json", by) for version, by in BY_STREAM.items()]
    rows += [(version, "text", by) for version, by in BY_SESSION_FILE.items()]
    assert {version for version, *_ in rows} == {NEWEST, OLD, OLDEST, *COUNTED}
    often = {(NEWEST, "stream-json"), (NEWEST, "text"), (OLD, "text")}  # only the files of 2.0.62 differ
    return [
        pytest.param(*row, marks=() if row[:2] in often else pytest.mark.full, id="-".join(row[:2])) for row in rows
    ]


@pytest.mark.full
@versions("1.0.60", "1.0.90")
async def test_a_cost_that_has_each_call_twice_is_not_one(claude: ClaudeBench) -> None:
    """The tokens of a subagent, which are in no total but the cost, must not hide it."""
    turns = [{**bash("echo one"), "usage": usage(40_000, 11, 0, 0)}, {**SIDE, "text": "Looked."}]
    subagent = {"when": {"prompt_contains": "Look around."}, "turns": turns}
    ask = uses("Task", description="look", prompt="Look around.", subagent_type="general-purpose")
    done = says("Done.", usage=usage(1_001, 11, 0, 5_000))
    session = await claude.run(
        script({**ask, "usage": usage(1_000, 10, 0, 0)}, done, side=SIDE, conversations=[subagent])
    )
    assert session.result.status == "success"
    found = session.log.usage
    assert found is not None
    assert (found.input_tokens, found.partial) == (42_008, True)
    assert (found.cost_usd is None) is (claude.cli.version == "1.0.60")


@pytest.mark.full
@versions("2.0.24", "2.0.55")
async def test_in_text_mode_a_warm_up_does_not_name_the_model(claude: ClaudeBench) -> None:
    """2.0.24 records the warm-up of a subagent, by another model, after the answer and in the same file."""
    session = await claude.run(script(says("Done."), side=SIDE), config={"output_format": "text"})
    (request,) = session.main_requests
    assert (session.log.model_info.name, session.log.turns) == (request.body["model"], 1)


LARGE_SIDE = {"text": "ok", "usage": usage(40_000, 300, 9_000, 2_000)}
LOST = ("2.0.24", "2.0.55", "2.1.61")
"""Their totals lack calls that were repeated without streaming; the next ones have them."""
COUNTED_AGAIN = ("2.1.150", "2.1.250", "2.1.326", NEWEST)


@pytest.mark.full
@pytest.mark.parametrize("claude_cli", [*LOST, *COUNTED_AGAIN], indirect=True)
@pytest.mark.parametrize("turns_before", [0, 1], ids=["only", "second"])
async def test_a_call_that_the_total_lacks_is_noticed(claude: ClaudeBench, turns_before: int) -> None:
    """Those of side models, of which some are the main one's own, are larger."""
    side = {**LARGE_SIDE, "times": "forever"}
    warmup = {"when": {"prompt_contains": "Warmup"}, "turns": [side]}
    broken = {**TURNS[2], "error_mid_stream": {"status": 529}}
    answers = script(*TURNS[:turns_before], broken, TURNS[2], side=LARGE_SIDE, conversations=[warmup])
    session = await claude.run(answers)
    assert (session.result.status, session.codes()) == ("success", [])
    found = session.log.usage
    assert found is not None
    assert found.partial is (claude.cli.version in LOST)
    assert not turns_before or found.cost_usd  # of what was counted: a lower bound
    answered, tokens = add_all([read_tokens(turn) for turn in (*TURNS[:turns_before], TURNS[2])]), counted(session)
    assert tokens is not None
    assert all((found or 0) >= (least or 0) for found, least in zip(tokens, answered, strict=True))


@pytest.mark.parametrize(("claude_cli", "output_format", "expected"), table(), indirect=["claude_cli"])
async def test_tokens_match_what_the_model_sent(claude: ClaudeBench, output_format: str, expected: Counted) -> None:
    answers = script(*({**turn, **AT_ONCE} for turn in TURNS), side=SIDE, conversations=[WARMUP])
    session = await claude.run(answers, config={"output_format": output_format, **options(claude.cli.version)})
    assert (session.result.status, session.codes(), session.warning_codes()) == ("success", [], [])
    calls = [request for request in session.requests if request.kind in ("turn", "side")]
    main = add_all([sent(request) for request in calls if request.kind == "turn" and request.conversation is None])
    assert main == (3_321, 66, 10_300, 5_100)
    everything, found = add_all(list(map(sent, calls))), counted(session)
    match expected:
        case "all":
            assert found == everything
        case "main":
            assert found == main
        case "some":
            assert found is not None
            assert all(few <= some <= most for few, some, most in zip(main, found, everything, strict=True))
        case "no output":
            assert found == main._replace(output=None)
        case "nothing":
            assert found is None
    assert session.log.usage is None or session.log.usage.partial is (expected != "all")
    if output_format == "text":  # no line of a debug log is in it
        assert session.result.output.strip() == TURNS[-1]["text"]
