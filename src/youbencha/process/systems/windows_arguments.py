"""How arguments reach a batch file unchanged.

Windows runs `.cmd` and `.bat` files (npm installs agents as such) through cmd.exe, which reads the command line by
rules of its own: quoted as for any other program, an argument such as `" & calc` would run a second program. The
rules here are those that the Rust standard library settled on after CVE-2024-24576.
"""

from __future__ import annotations

from collections.abc import Sequence

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")
_UNQUOTABLE = "\r\n\0"


def is_batch_file(program: str) -> bool:
    return program.lower().rstrip(" .").endswith((".cmd", ".bat"))


def is_plain(argument: str) -> bool:
    """Whether it means the same to every program, without quotes."""
    return bool(argument) and not argument.endswith("\\") and _BARE.issuperset(argument)


def batch_command_line(interpreter: str, argv: Sequence[str]) -> str:
    """The command line that makes cmd.exe hand `argv` on as it is. ValueError where that cannot be done."""
    script, *arguments = argv
    if '"' in script or script.endswith("\\"):
        raise ValueError("the name of a batch file cannot hold a quote or end in a backslash")
    if any(character in argument for argument in arguments for character in _UNQUOTABLE):
        raise ValueError("a batch file cannot take an argument with a line break: use the program behind it")
    quoted = " ".join([f'"{script}"', *map(_quote, arguments)])
    # /e:ON and /v:OFF: what the escapes below rely on; /d: no commands from the registry first.
    return f'"{interpreter}" /e:ON /v:OFF /d /c "{quoted}"'


def _quote(argument: str) -> str:
    quoted, backslashes = [], 0
    for character in argument:
        if character == "\\":
            backslashes += 1
        else:
            if character == '"':
                quoted.append("\\" * backslashes + '"')  # a quote is doubled, and so are backslashes before it
            elif character == "%":
                quoted.append("%%cd:~,")  # an empty piece of a variable between two percent signs: no expansion
            backslashes = 0
        quoted.append(character)
    text = "".join(quoted)
    return f'"{text}{chr(92) * backslashes}"' if not is_plain(argument) else text
