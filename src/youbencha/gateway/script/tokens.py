"""How many tokens an answer claims to have used, before an API gives the numbers its names."""

from __future__ import annotations

from dataclasses import dataclass

from youbencha.gateway.script.format import Answer, Usage


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int = 100
    """Without the cached ones."""
    output: int = 20
    """With those spent on thinking."""
    cache_read: int = 0
    cache_creation: int = 0
    reasoning: int = 0

    @property
    def all_input(self) -> int:
        return self.input + self.cache_read + self.cache_creation

    @property
    def thought(self) -> int:
        """Thinking is a part of what is written: there can be no more of it."""
        return min(self.reasoning, self.output)


_NAMES = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_creation",
    "reasoning_tokens": "reasoning",
}


def tokens_of(answer: Answer, default: Usage) -> Tokens:
    """Each number from the answer, else from the script, else a small one."""
    said = default.model_dump(exclude_none=True) | answer.usage.model_dump(exclude_none=True)
    return Tokens(**{_NAMES[name]: number for name, number in said.items()})
