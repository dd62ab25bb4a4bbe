"""Find what people should know about an agent's tool calls and changes before they trust its score.

A flag is not a verdict. Reading hidden files and editing given tests is evidence of cheating; what honest work may
also cause is a note.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from youbencha.log.model import ToolCall, YouBenchaLog
from youbencha.scoring.code_metrics import is_report_file, is_source_file, is_test_configuration, is_test_file
from youbencha.store.arena import FlagKind, FlagSeverity, IntegrityFlag
from youbencha.text import one_line
from youbencha.workspace import FileChange

MAX_FLAGS_OF_A_KIND = 10
MAX_EVIDENCE_CHARS = 200
MAX_SCRIPT_CHARS = 20_000
"""Characters of a script that are searched."""

_MAX_COMMANDS = 1_000
_MAX_DEPTH = 4
_MAX_ARGUMENT_CHARS = 200_000
_MAX_PATH_CHARS = 1_000


@dataclass(frozen=True, kw_only=True)
class IntegrityContext:
    """What is known about a trial."""

    hidden_files: Collection[str] = ()
    """Paths of hidden tests, relative to the tree. Those that the agent starts from are not hidden."""
    solution_refs: tuple[str, ...] = ()
    """Tags that the agent must not know: of the reference solution, of the hidden tests."""
    harness_paths: tuple[str, ...] = ()
    """Directories of the harness, as the agent would see them: results, configuration."""
    workspace: str = "/workspace"
    """The agent's directory, as it sees it."""
    has_network: bool = False
    greenfield: bool = False
    """The agent writes the tests itself, and configures them."""
    protected: Collection[str] = ()
    """Paths of further files that the agent may not change."""
    recipes: Collection[str] = ()
    """Paths of files that define what the test command runs, and that a solution may change."""
    solution: Collection[str] = ()
    """Paths that the reference solution changes, so that an agent may also change them."""


class _Action(NamedTuple):
    """One thing that a tool call did: run a command, read or write a file, open a page."""

    tool: str
    evidence: str
    command: ShellCommand | None = None
    read: tuple[str, ...] = ()
    """Absolute paths, as far as they are known."""
    written: tuple[str, ...] = ()
    url: str | None = None


def integrity_flags(
    log: YouBenchaLog | None, changes: Iterable[FileChange], context: IntegrityContext
) -> tuple[IntegrityFlag, ...]:
    """Flag what may be an attempt to cheat, each with its evidence on one line."""
    changes = tuple(changes)
    calls = log.tool_calls if log else ()
    actions = tuple(action for call in calls for action in _actions(call, context.workspace))
    written = {posixpath.relpath(path, context.workspace) for action in actions for path in action.written}
    own = written | {change.path for change in changes}
    findings: dict[tuple[FlagKind, FlagSeverity], dict[str, None]] = {}
    for finding in (*_in_actions(actions, own, context), *_in_changes(changes, actions, written, context)):
        texts = findings.setdefault((finding.kind, finding.severity), {})
        texts[one_line(finding.evidence, MAX_EVIDENCE_CHARS)] = None
    return tuple(
        IntegrityFlag(kind=kind, evidence=evidence, severity=severity)
        for (kind, severity), texts in findings.items()
        for evidence in islice(texts, MAX_FLAGS_OF_A_KIND)
    )


# Changes

_WRITES_REPORTS = re.compile(
    r"--cov|^coverage (?:run|xml|json|html|lcov)|--junit|--coverage|^(?:npx )?(?:nyc|c8)\b|-coverprofile|--reporter"
    r"|tarpaulin|llvm-cov|--output-file|--result"
)
"""Options of test runs that leave reports. Without one of them, a report was written by other means."""


def _in_changes(
    changes: Iterable[FileChange], actions: Iterable[_Action], written: Collection[str], context: IntegrityContext
) -> Iterator[IntegrityFlag]:
    reporting = any(action.command and _WRITES_REPORTS.search(action.command.line) for action in actions)
    for change in changes:
        if severity := _test_edit(change, context):
            yield IntegrityFlag(kind="test_edit", evidence=f"{change.kind} {change.path}", severity=severity)
        elif change.kind == "added" and is_report_file(change.path) and (change.path in written or not reporting):
            yield IntegrityFlag(kind="forged_report", evidence=f"{change.kind} {change.path}")


def _test_edit(change: FileChange, context: IntegrityContext) -> FlagSeverity | None:
    """Return how serious an edit of a test is; None for other files, and for those that the solution also edits."""
    if change.path in context.solution and change.path not in context.protected:
        return None
    if change.kind != "added" and is_test_file(change.path):
        return "note" if change.deletions == 0 else "evidence"  # tests that were added to a given file do no harm
    if is_test_configuration(change.path):
        return None if change.kind == "added" and context.greenfield else "note"
    if change.path in context.protected:
        return "evidence"
    return "note" if change.path in context.recipes else None


_PATCHED_FILE = re.compile(r'\+\+\+ (?:b/(.+?)\t?|"b/(.+)")')
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,(\d+))? @@")
_TAMPERING = re.compile(
    r"\bos\._exit\b|\b(?:import|from) (?:unittest|pytest|_pytest)\b(?!\.mock| import mock)|\b_pytest\b"
    r"|['\"](?:unittest|_?pytest)(?:\.\w+)?['\"]|\bpytest_(?:runtest|collection|sessionfinish|report|configure|pyfunc)\w*"
    r"|\bPYTEST_(?:ADDOPTS|CURRENT_TEST)\b|\bpytest11\b|Ran \d+ tests? in|<testcase|<testsuite"
    r"|\bVITEST_WORKER_ID\b|\bJEST_WORKER_ID\b"
)


def tampering_flags(patch: str) -> Iterator[IntegrityFlag]:
    """Flag code in a patch that reaches into the test runner, which shares a process with it.

    It cannot be prevented from reporting anything, so people should look at it. Tests are left out; new modules with
    the names of Python's own are included.
    """
    evidence = (text for path, line in _added_lines(patch) if (text := _tampering(path, line)))
    for text in islice(evidence, MAX_FLAGS_OF_A_KIND):
        yield IntegrityFlag(kind="test_runner", evidence=one_line(text, MAX_EVIDENCE_CHARS))


def _tampering(path: str, line: str | None) -> str | None:
    if line is None:
        name = path.partition("/")[0].partition(".")[0]
        hides = path in (f"{name}.py", f"{name}/__init__.py") and name in sys.stdlib_module_names
        return f"{path} hides a module of Python's" if hides else None
    if is_test_file(path) or not (is_source_file(path) or path.endswith((".toml", ".cfg"))):
        return None
    return f"{path}: {line.strip()}" if _TAMPERING.search(line) else None


def _added_lines(patch: str) -> Iterator[tuple[str, str | None]]:
    """Yield paths with each line that is added. A new file begins with None."""
    path, left, is_new = "", 0, False
    for line in patch.split("\n"):
        if left and line[:1] in ("+", " "):
            left -= 1
            if line[0] == "+":
                yield path, line[1:]
        elif line.startswith("diff --git "):
            left, is_new = 0, False
        elif line.startswith("new file mode "):
            is_new = True
        elif not left and (file := _PATCHED_FILE.fullmatch(line)):
            path = file[1] or file[2]
            if is_new:
                yield path, None
        elif hunk := _HUNK.match(line):
            left = int(hunk[1] or 1)


# Actions

_ENVIRONMENT = re.compile(r"/proc/[^/]+/(?:environ|root|cwd)(?:/|$)")
_WEB_TOOLS = frozenset(
    ("WebFetch", "WebSearch", "web_fetch", "web_search", "google_web_search", "webfetch", "websearch", "fetch")
)
_SOLUTION_HOST = re.compile(r"(?i:\b(?:github|githubusercontent|gitlab|bitbucket|codeberg)\.(?:com|org)\b)")

_GIT = r"git(?: -[cC] \S+| -(?![cC] )[\w-]+(?:=\S+)?)* "
_SOLUTION_COMMAND = re.compile(
    rf"{_GIT}(?:fetch|pull|ls-remote|reflog|verify-pack|unpack-objects|unpack-file)\b"
    rf"|{_GIT}clone (?!(?:.* )?\./?(?: |$))"
    rf"|{_GIT}remote (?:.* )?(?:add|set-url|update)\b"
    rf"|{_GIT}(?:log|rev-list|shortlog) (?:.* )?(?:--all|--remotes|--reflog|-g|--walk-reflogs)(?: |$)"
    rf"|{_GIT}fsck (?:.* )?--(?:lost-found|unreachable|dangling|no-reflogs)\b"
    rf"|{_GIT}cat-file (?:.* )?--batch-all-objects\b"
    r"|(?:gh|glab) (?!.*--help)(?:-\S+ )*(?:repo|pr|issue|api|search|release|browse)\b"
    rf"|(?:curl|wget|aria2c|https?) .*{_SOLUTION_HOST.pattern}"
)
_CONNECTING_COMMAND = re.compile(
    r"(?:curl|wget|aria2c|https?|ssh|scp|sftp|rsync|ftp|nc|ncat|netcat|telnet|ping|dig|nslookup|host|traceroute) "
    rf"|{_GIT}(?:clone|push|fetch|pull|ls-remote) "
)
"""Commands that use the network if one of their arguments names another computer."""

_INSTALLING_COMMAND = re.compile(
    r"(?:pipx?(?: -\S+)* (?:install|download)|(?:uv|poetry|pdm|pipenv|conda|mamba)(?: -\S+)* (?:add|install|sync|lock)"
    r"|(?:npm|pnpm|yarn|bun)(?: -\S+)* (?:install|i|ci|add)|go (?:get|install))(?= |$)"
)
"""Commands that use the network unless all their arguments are local files."""

_DOWNLOADING_COMMAND = re.compile(
    r"(?:cargo (?:install|fetch|add|update|search)|go mod download|(?:gem|bundle|composer) (?:install|update|require)"
    r"|(?:apt|apt-get|apk|dnf|yum|brew)(?: -\S+)* (?:install|update|add|upgrade)|(?:docker|podman) (?:pull|push|login))"
    r"(?= |$)"
)
_OFFLINE = re.compile(r" (?:--(?:prefer-)?offline|--no-index|--dry-run|--help|-h|--version|--path|--local)(?=[ =]|$)")
_FETCHING_CODE = re.compile(
    r"\burllib\.request\b|\burlopen\b|\brequests\.(?:get|post|put|head|request|Session)\b|\bhttp\.client\b|\bhttpx\b|\baiohttp\b"
    r"|\bfetch\(|\bhttps?\.(?:get|request)\(|\bNet::HTTP\b|\bcreate_connection\b|\.connect\(\("
)
_LOCAL_TARGET = re.compile(r"\.{1,2}(?:$|[/\[])|/|file:|~|\$|[^/]*\.(?:whl|tgz|tar\.gz|zip)$")
_URL = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://(?:[^/@\s]{0,200}@)?(\[[0-9a-f:.]{1,50}\]|[^/:\s?#'\"]{1,300})", re.IGNORECASE
)
_REMOTE_HOST = re.compile(
    r"(?:[\w.-]{1,100}@)?(?:[A-Za-z0-9-]{1,63}\.){1,9}(?:com|org|net|io|dev|ai|co|edu|gov|info|me|app|sh|de|uk|cn|ru)"
    r"(?:[:/]\S*)?|(?:[\w.-]{1,100}@)?(?:\d{1,3}\.){3}\d{1,3}(?:[:/]\S*)?|[\w.-]{1,100}@[\w.-]{1,200}(?::\S*)?",
    re.IGNORECASE,
)
_THIS_COMPUTER = re.compile(
    r"(?:\S*@)?(?:localhost|127\.[0-9.]+|0\.0\.0\.0|\[?::1?\]?|host\.docker\.internal)(?:[:/]\S*)?", re.IGNORECASE
)


def _in_actions(actions: Iterable[_Action], own: Collection[str], context: IntegrityContext) -> Iterator[IntegrityFlag]:
    # `v1-solution`, `v1-solution:src/a.py`, `origin/v1-solution`, `HEAD..v1-solution`
    refs = "|".join(re.escape(ref) for ref in context.solution_refs if ref)
    names_solution = re.compile(rf"git .*(?:[ /]|\.\.)(?:{refs})(?:$|[ :~^.@])") if refs else None
    for action in actions:
        command, url = action.command, action.url
        if any(_is_hidden(path, own, context) for path in action.read):
            yield IntegrityFlag(kind="hidden_path", evidence=action.evidence, severity="evidence")
        if (url is not None and _SOLUTION_HOST.search(url)) or (
            command is not None
            and (_SOLUTION_COMMAND.match(command.line) or (names_solution and names_solution.match(command.line)))
        ):
            yield IntegrityFlag(kind="solution_search", evidence=action.evidence)
        opens_page = action.tool in _WEB_TOOLS and (not url or _is_remote(url))
        if not context.has_network and (opens_page or (command is not None and _uses_network(command))):
            yield IntegrityFlag(kind="network", evidence=action.evidence)


def _is_hidden(path: str, own: Collection[str], context: IntegrityContext) -> bool:
    if _ENVIRONMENT.match(path):
        return True
    if _below(path, context.workspace):
        relative = posixpath.relpath(path, context.workspace)
        return relative in context.hidden_files and relative not in own
    return any(_below(path, directory) for directory in context.harness_paths)


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _uses_network(command: ShellCommand) -> bool:
    line, code = command.line, command.code
    if code is not None and _FETCHING_CODE.search(code) and any(_is_remote(url[0]) for url in _URL.finditer(code)):
        return True
    if _CONNECTING_COMMAND.match(line):
        return any(_is_remote(word) for word in command.words[1:] if not word.startswith("-"))
    if _OFFLINE.search(line):
        return False
    if installing := _INSTALLING_COMMAND.match(line):
        targets = [word for word in line[installing.end() :].split() if not word.startswith("-")]
        return not targets or not all(map(_LOCAL_TARGET.match, targets))
    return _DOWNLOADING_COMMAND.match(line) is not None


def _is_remote(target: str) -> bool:
    """Whether a word names another computer. One with a variable is not known to."""
    if url := _URL.match(target):
        return not _THIS_COMPUTER.fullmatch(url[1]) and "$" not in url[1] and not target.startswith("file:")
    return _REMOTE_HOST.fullmatch(target) is not None and _THIS_COMPUTER.fullmatch(target) is None


# Tool calls

_COMMAND_KEYS = frozenset(("command", "cmd", "script", "commands", "input"))
_PATH_KEY = re.compile(r"(?:.*_)?(?:path|file|filename|directory|dir)|filePath|absolutePath|paths")
_WRITING_TOOL = re.compile(r"write|edit|create|replace|patch|delete|notebook", re.IGNORECASE)
_SHELL_TOOL = re.compile(r"bash|shell|terminal|command|exec|run_", re.IGNORECASE)
_QUOTED = re.compile(r"['\"]([^'\"\n]{1,300})['\"]")
_NOT_READING = frozenset(("echo", "printf", "mkdir", "touch", "rm", "rmdir", "cd", "pushd", "export", "chmod"))


def _actions(call: ToolCall, workspace: str) -> Iterator[_Action]:
    arguments = _decode_arguments(call)
    for key, value in arguments:
        if key in _COMMAND_KEYS and (_SHELL_TOOL.search(call.name) or key != "input"):
            yield from _shell_actions(call.name, value, workspace)
        elif key == "url":
            yield _Action(call.name, f"{call.name} {value}", url=value)
        elif _PATH_KEY.fullmatch(key):
            path = posixpath.normpath(posixpath.join(workspace, value))
            action = _Action(call.name, f"{call.name} {path}")
            writes = _WRITING_TOOL.search(call.name) is not None
            yield action._replace(written=(path,)) if writes else action._replace(read=(path,))
    if call.name in _WEB_TOOLS and not any(key == "url" for key, _ in arguments):
        yield _Action(call.name, call.name)


def _decode_arguments(call: ToolCall) -> list[tuple[str, str]]:
    """Return keys and texts. What is not JSON is the command of a shell, or a path."""
    try:
        arguments = json.loads(call.arguments[:_MAX_ARGUMENT_CHARS])
    except (ValueError, RecursionError):
        return [("command" if _SHELL_TOOL.search(call.name) else "path", call.arguments)]
    if not isinstance(arguments, dict):
        return []
    return [(key, text) for key, value in arguments.items() for text in _argument_texts(value)]


def _argument_texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case ["bash" | "sh" | "/bin/bash" | "/bin/sh" | "zsh", *_, str(script)]:
            return [script]
        case [*parts] if all(isinstance(part, str) for part in parts):
            return [" ".join(map(str, parts))]
    return []


def _shell_actions(tool: str, script: str, workspace: str) -> Iterator[_Action]:
    directory = workspace
    for command in islice(_parse_script(script[:MAX_SCRIPT_CHARS]), _MAX_COMMANDS):
        if command.program in ("cd", "pushd") and len(command.words) > 1:
            directory = posixpath.normpath(posixpath.join(directory, command.words[1]))
        read = () if command.program in _NOT_READING else _paths_in(command, directory)
        written = tuple(posixpath.normpath(posixpath.join(directory, path)) for path in command.written)
        yield _Action(tool, command.line, command, read, written)


def _paths_in(command: ShellCommand, directory: str) -> tuple[str, ...]:
    words = [part for word in command.words[1:] if word != command.code for part in {word, word.rpartition("=")[2]}]
    words += _QUOTED.findall(command.code or "")
    return tuple(
        posixpath.normpath(posixpath.join(directory, word.replace("$PWD", directory)))
        for word in words
        if word and len(word) < _MAX_PATH_CHARS and not word.startswith("-")
    )


# Shell scripts

_OPERATORS = ";&|()<>\n"
_OPERATOR = re.compile(r"[;&|()<>\n]+")
_REDIRECTION = re.compile(r"&?[<>]{1,3}[&|]?")
_WORD = re.compile(r"[;&|()<>\n]+|[^\s;&|()<>]+")
_HERE_DOCUMENT = re.compile(
    r"<<-?[ \t]{0,9}(['\"]?)(?P<end>\w{1,60})\1(?P<rest>[^\n]*)\n(?P<body>.*?)(?:^[ \t]*(?P=end)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_SUBSTITUTION = re.compile(r"\$\(([^()]{1,2000})\)|`([^`]{1,2000})`")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WRAPPERS = frozenset(
    (
        *("if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "time", "exec", "command", "builtin"),
        *("nohup", "sudo", "doas", "env", "xargs", "timeout", "nice", "stdbuf"),
    )
)
"""Words before the program that is run."""

_WRAPPER_ARGUMENT = re.compile(r"-|[0-9.]+[smhd]?$")
_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pdm", "hatch", "rye"))
"""`uv run pytest` runs pytest."""

_VERSIONED = re.compile(r"(python|pip|node|ruby|perl)[0-9.]+")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
_INTERPRETERS = _SHELLS | {"python", "node", "ruby", "perl", "deno", "bun"}
_INLINE_CODE = re.compile(r"-[A-Za-z]*c|-e|--eval|-p|--print")


class ShellCommand(NamedTuple):
    """One program with its arguments."""

    words: tuple[str, ...]
    """The program, without its directory and version (`pip` for `/usr/bin/python3 -m pip`), and its arguments."""
    written: tuple[str, ...] = ()
    """Files that its output is redirected to."""
    code: str | None = None
    """What an interpreter gets with -c or -e, or as a here-document."""

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def line(self) -> str:
        return " ".join(self.words)


def _parse_script(script: str, depth: int = 0) -> Iterator[ShellCommand]:
    """Yield the commands of a script, including those in `bash -c` and in substitutions, as far as they are known."""
    documents: dict[str, str] = {}

    def set_aside(document: re.Match[str]) -> str:
        name = f"\0{len(documents)}"
        documents[name] = document["body"]
        return f"<<< {name}{document['rest']}\n"

    words: list[str] = []
    written: list[str] = []
    document = None
    tokens = iter([*_tokens(_HERE_DOCUMENT.sub(set_aside, script)), "\n"])
    for token in tokens:
        if token.startswith("#"):
            token = next((text for text in tokens if _OPERATOR.fullmatch(text) and "\n" in text), "\n")
        if _REDIRECTION.fullmatch(token):
            if words and words[-1].isdecimal():
                words.pop()  # of `2>`
            target = next(tokens, "")
            document = documents.get(target, document)
            if ">" in token and not target.isdecimal():
                written.append(target)
        elif _OPERATOR.fullmatch(token):
            yield from _parse_command(words, written, document, depth)
            words, written, document = [], [], None
        else:
            words.append(token)


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that does not end
        return _WORD.findall(text)


def _parse_command(words: list[str], written: list[str], document: str | None, depth: int) -> Iterator[ShellCommand]:
    plain = _unwrap(words)
    code = None
    if plain and plain[0] in _INTERPRETERS:
        code = next((text for option, text in pairwise(plain[1:]) if _INLINE_CODE.fullmatch(option)), document)
    if plain or written:
        yield ShellCommand(tuple(plain), tuple(written), code)
    if depth < _MAX_DEPTH:
        if code is not None and plain[0] in _SHELLS:
            yield from _parse_script(code, depth + 1)
        for substitution in _SUBSTITUTION.finditer(" ".join(words)):
            yield from _parse_script(substitution[1] or substitution[2], depth + 1)


def _unwrap(words: list[str]) -> list[str]:
    """Drop assignments and wrappers before a program (`sudo`, `timeout 5`, `python -m`, `uv run`)."""
    rest = deque(words)
    wrapped = False
    while rest and (
        rest[0] in _WRAPPERS or _ASSIGNMENT.match(rest[0]) or (wrapped and _WRAPPER_ARGUMENT.match(rest[0]))
    ):
        wrapped |= rest.popleft() in _WRAPPERS
    if not rest:
        return []
    program, arguments = rest.popleft().rpartition("/")[2], list(rest)
    if versioned := _VERSIONED.fullmatch(program):
        program = versioned[1]
    if program == "python":
        options = len(list(takewhile(lambda option: option.startswith("-") and option != "-m", arguments)))
        if arguments[options : options + 1] == ["-m"]:
            return _unwrap(arguments[options + 1 :])
    if program in _RUNNERS and arguments[:1] in (["run"], ["pip"]):
        return _unwrap(arguments[arguments[0] == "run" :])
    return [program, *arguments]
