"""An agent's answer: the YAML in it, as far as it is any."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

_BLOCK = re.compile(r"^(`{3,}|~{3,})[ \t]*ya?ml[ \t]*\n(?P<text>.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL | re.I)
_LARGEST = 100_000


class NoAnswer(Exception):
    """What was wrong with it, in words that the agent can use."""


def read_answer(text: str) -> Mapping[str, Any]:
    """The last YAML block of a text, as a mapping that keeps its comments."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    blocks = [match["text"] for match in _BLOCK.finditer(text.replace("\r\n", "\n"))]
    if not blocks:
        raise NoAnswer("There is no block that begins with ```yaml and ends with ```.")
    if len(blocks[-1]) > _LARGEST:
        raise NoAnswer("The test case is far too long.")
    try:
        answer = YAML().load(io.StringIO(blocks[-1]))
    except (YAMLError, ValueError, RecursionError) as error:
        raise NoAnswer(f"The block is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(answer, Mapping):
        raise NoAnswer("The block must hold a mapping with the keys of a test case.")
    return answer
