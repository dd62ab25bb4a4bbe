"""All messages with an error code in one file: readers see what users are told, and which words have changed.

Tests elsewhere check codes. The messages are read from the source, with `{…}` for what is filled in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from golden_files import Golden

import youbencha

SOURCE = Path(youbencha.__file__).parent
CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
NOT_OURS = ("demo/repository/", "evaluators/validation/runner_hooks/")


class Message(NamedTuple):
    code: str
    text: str
    hint: str

    def __str__(self) -> str:
        lines = [self.code, f"  {self.text}", f"  → {self.hint}" if self.hint else ""]
        return "\n".join(filter(None, lines))


def read_messages(tree: ast.Module) -> Iterator[Message]:
    """Yield the code, the text and the hint of each error and each warning."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        variables = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            yield from messages_in(node, variables)


def messages_in(node: ast.AST, variables: dict[str, ast.expr]) -> Iterator[Message]:
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        values, named = list(node.elts), {}
    elif isinstance(node, ast.Call):
        values = [value for value in node.args if not isinstance(value, ast.Starred)]
        named = {keyword.arg: keyword.value for keyword in node.keywords}
    else:
        return
    code = named.get("code", values[0] if values else None)
    text = named.get("message", values[1] if len(values) > 1 else None)
    if isinstance(code, ast.Constant) and isinstance(code.value, str) and CODE.fullmatch(code.value):
        shown = template(text, variables)
        if " " in shown:
            yield Message(code.value, shown, template(named.get("hint"), variables))


def template(node: ast.expr | None, variables: dict[str, ast.expr]) -> str:
    """Return a text with `{…}` for what is filled in; empty if it is made elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return " ".join(text.split())
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "{…}" for part in parts)
        case ast.Name(id=name) if name in variables:
            return template(variables[name], {})
        case ast.IfExp(body=one, orelse=other):
            return " | ".join(filter(None, (template(one, variables), template(other, variables))))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left, variables) + template(right, variables)
    return ""


def test_messages(golden: Golden) -> None:
    messages = {
        message
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith(NOT_OURS)
        for message in read_messages(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert len(messages) > 200
    golden.check("messages.txt", "\n".join(map(str, sorted(messages))) + "\n")
