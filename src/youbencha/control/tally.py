"""What a session spent and used, gathered from its messages as they pass."""

from __future__ import annotations

from youbencha.control.messages import blocks
from youbencha.json_lines import Record, amount, count, mapping, records, text
from youbencha.usage import Tokens, add_all

_USAGE_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

_MODEL_USAGE_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

_COSTS = ("total_cost_usd", "total_cost", "cost_usd")
"""The last two are of 1.0.0."""

_SYNTHETIC = "<synthetic>"
"""The "model" of what Claude Code says itself, as in an error message."""


class SessionTally:
    def __init__(self) -> None:
        self.session_id: str | None = None
        self.result: Record | None = None
        self.how: str | None = None
        """How it ended, in words."""
        self._models: dict[str, str] = {}
        self._began: float | None = None
        self._ended: float | None = None
        self._turns: int | None = None
        self._tools: dict[str, str] = {}
        self._denied: set[str] = set()
        self._calls: dict[str, Tokens] = {}
        self._current: dict[str | None, str] = {}
        self._main_calls: set[str] = set()

    def began(self, now: float) -> None:
        self._began = now

    def ended(self, how: str, now: float) -> None:
        self.how, self._ended = how, now

    def decided(self, call: str | None, tool: str | None, *, allowed: bool) -> None:
        if not allowed:
            self._denied |= {call} if call else set()
        elif tool:
            self._tools.setdefault(call or f"a {tool}", tool)

    def note(self, message: Record) -> None:
        kind = message.get("type")
        if (session := text(message.get("session_id"))) and kind != "control_request":
            self.session_id = session
        if kind == "assistant":
            self._answered(message)
        elif kind == "stream_event":
            self._streamed(message)
        elif kind == "system" and message.get("subtype") == "init" and (model := text(message.get("model"))):
            self._models.setdefault("init", model)
        elif kind == "result":
            self._closed(message)

    @property
    def model(self) -> str | None:
        """As the API named it in the first answer, else as it was asked for."""
        return self._models.get("answer", self._models.get("init"))

    @property
    def duration_ms(self) -> int | None:
        """From the connection to the end, by our own clock."""
        if self._began is None or self._ended is None:
            return None
        return round((self._ended - self._began) * 1000)

    @property
    def turns(self) -> int | None:
        """As the agent counts them, over all its results; without one, the answers of its main loop."""
        return len(self._main_calls) or None if self._turns is None else self._turns

    @property
    def tools_used(self) -> list[str]:
        denials = records((self.result or {}).get("permission_denials"))
        denied = self._denied | {text(denial.get("tool_use_id")) for denial in denials}
        return sorted({name for call, name in self._tools.items() if call not in denied})

    @property
    def calls(self) -> Tokens:
        """The sum over the answers that were seen."""
        return add_all(list(self._calls.values()))

    @property
    def total(self) -> Tokens:
        """Of the last result. `modelUsage` is everything, subagents included; `usage` the main loop's last turn."""
        result = self.result or {}
        by_model = [_read(usage, _MODEL_USAGE_KEYS) for usage in _objects(result.get("modelUsage"))]
        return add_all(by_model) if by_model else _read(mapping(result.get("usage")), _USAGE_KEYS)

    @property
    def cost_usd(self) -> float | None:
        costs = (amount((self.result or {}).get(key)) for key in _COSTS)
        return next((cost for cost in costs if cost is not None), None)

    def _closed(self, message: Record) -> None:
        self.result = message
        if (turns := count(message.get("num_turns"))) is not None:
            self._turns = (self._turns or 0) + turns

    def _answered(self, message: Record) -> None:
        answer = mapping(message.get("message"))
        parent = text(message.get("parent_tool_use_id"))
        for block in blocks(message):
            name = text(block.get("name"))
            if block.get("type") == "tool_use" and name:
                self._tools[text(block.get("id")) or f"a {name}"] = name
        model, key = text(answer.get("model")), text(answer.get("id"))
        if model == _SYNTHETIC:
            return
        if model and parent is None:
            self._models.setdefault("answer", model)
        if key and parent is None:
            self._main_calls.add(key)
        self._spent(key, parent, answer.get("usage"), final=answer.get("stop_reason") is not None)

    def _streamed(self, message: Record) -> None:
        """With partial messages, the end of each answer tells its real number of output tokens."""
        event = mapping(message.get("event"))
        parent = text(message.get("parent_tool_use_id"))
        if event.get("type") == "message_start":
            answer = mapping(event.get("message"))
            self._spent(text(answer.get("id")), parent, answer.get("usage"), final=False)
        elif event.get("type") == "message_delta":
            self._spent(text(message.get("api_message_id")), parent, event.get("usage"), final=True)

    def _spent(self, key: str | None, parent: str | None, usage: object, *, final: bool) -> None:
        """2.1.x writes `output_tokens: 1` into answers that are not final: not a number to believe."""
        key = key or self._current.get(parent)
        if key is None:
            return
        self._current[parent] = key
        news = _read(mapping(usage), _USAGE_KEYS)
        known = self._calls.get(key, Tokens())
        self._calls[key] = Tokens(*map(_larger, known, news if final else news._replace(output=None)))


def _read(usage: Record, keys: tuple[str, str, str, str]) -> Tokens:
    return Tokens(*(count(usage.get(key)) for key in keys))


def _objects(value: object) -> list[Record]:
    return [item for item in mapping(value).values() if isinstance(item, dict)]


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
