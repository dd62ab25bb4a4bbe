"""Who to believe about tokens. Unknown stays None; a zero was reported.

| source | why there in the order |
|---|---|
| last result's modelUsage | everything: subagents and side models, over all turns |
| its usage | only the main loop, only the last turn |
| calls, each id once | only until the end that was seen; 2.1.x knows `output` from partial messages only |
"""

from __future__ import annotations

from youbencha.adapters.claude_code.signals import ModelCalled
from youbencha.adapters.cli_agent import fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.events import UsageReported
from youbencha.log import Usage
from youbencha.log.tokens import Tokens, add_all, usage_of

_USAGE_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_MODEL_USAGE_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


def read_usage(value: object) -> Tokens:
    """As the API writes it."""
    return _read(fields.mapping(value), _USAGE_KEYS)


def read_total(result: Record) -> Tokens:
    """What a `result` says of the whole session; `modelUsage` is cumulative, so the last result's is the total."""
    by_model = [
        _read(usage, _MODEL_USAGE_KEYS)
        for usage in fields.mapping(result.get("modelUsage")).values()
        if isinstance(usage, dict)
    ]
    return add_all(by_model) if by_model else read_usage(result.get("usage"))


def _read(record: Record, keys: tuple[str, str, str, str]) -> Tokens:
    get = record.get
    given, made, read, created = keys
    return Tokens(
        fields.count(get(given)), fields.count(get(made)), fields.count(get(read)), fields.count(get(created))
    )


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class Ledger:
    """Adds up one session's tokens from whatever was said about them."""

    def __init__(self) -> None:
        self._calls: dict[str, Tokens] = {}
        self._current: dict[str | None, str] = {}
        self._reported: UsageReported | None = None
        self._told = Tokens()

    def news(self) -> UsageReported | None:
        """The sum of the calls so far, if it has grown: for whoever watches. The last word is the result's."""
        seen = add_all(list(self._calls.values()))
        if seen == self._told or self._reported is not None:
            return None
        self._told = seen
        return UsageReported(
            input_tokens=seen.input,
            output_tokens=seen.output,
            cache_read_tokens=seen.cache_read,
            cache_creation_tokens=seen.cache_creation,
        )

    def note_total(self, usage: UsageReported) -> None:
        self._reported = usage

    def note_call(self, call: ModelCalled) -> None:
        key = call.message_id or self._current.get(call.parent)
        if key is None:
            return
        self._current[call.parent] = key
        news = call.tokens if call.final else call.tokens._replace(output=None)
        known = self._calls.get(key)
        if known != news:  # each content block repeats it
            self._calls[key] = news if known is None else Tokens(*map(_larger, known, news))

    def total(self) -> Usage | None:
        """None where nobody said anything."""
        seen = add_all(list(self._calls.values()))
        reported = self._reported or UsageReported()
        said = Tokens(
            reported.input_tokens,
            reported.output_tokens,
            reported.cache_read_tokens,
            reported.cache_creation_tokens,
        )
        if said == Tokens():  # no result was seen, or one of 1.0.0, which tells the cost alone
            known = seen != Tokens() or reported.cost_usd is not None
            return usage_of(seen, reported.cost_usd, partial=True) if known else None
        # Where the CLI repeated a broken call without streaming, 2.1.30 and 1.0.128 forgot its usage: a result of
        # zeros (or of one output token) beside messages that carry the real numbers.
        short = any(mine is not None and mine > (theirs or 0) for mine, theirs in zip(seen, said, strict=True))
        if short and not any(said):
            return usage_of(seen, reported.cost_usd or None, partial=True)
        return usage_of(said, reported.cost_usd, partial=short)


def plain_usage(input_tokens: int | None, output_tokens: int | None) -> Usage | None:
    """From a text that names them."""
    tokens = Tokens(input_tokens, output_tokens)
    return None if tokens == Tokens() else usage_of(tokens, None, partial=False)
