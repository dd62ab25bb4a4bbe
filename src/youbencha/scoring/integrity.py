"""Find what people should know about an agent's tool calls and changes before they trust its score.

A flag is not a verdict. Reading hidden files and editing given tests is evidence of cheating; what honest work may
cause, too, is a note.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from youbencha.log.model import ToolCall, YouBenchaLog
from youbencha.scoring.code_metrics import is_report_file, is_test_configuration, is_test_file
from youbencha.scoring.shell import SimpleCommand, simple_commands
from youbencha.store.arena import FlagKind, FlagSeverity, IntegrityFlag
from youbencha.text import one_line
from youbencha.workspace import FileChange

MOST_OF_A_KIND = 10
LONGEST_EVIDENCE = 200


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
    """Where the agent worked, in its sandbox."""
    has_network: bool = False
    greenfield: bool = False
    """The agent writes the tests itself, and configures them."""
    protected: Collection[str] = ()
    """Paths of further files that the agent may not change."""
    recipes: Collection[str] = ()
    """Paths of files that say what the test command runs, and that a solution may change."""
    solution: Collection[str] = ()
    """Paths that the reference solution changes, so that an agent may, too."""


class _Action(NamedTuple):
    """What a tool call did: a command, a file, or a page."""

    tool: str
    command: SimpleCommand | None = None
    read: tuple[str, ...] = ()
    """Absolute paths, as far as they can be told."""
    written: tuple[str, ...] = ()
    url: str | None = None

    @property
    def evidence(self) -> str:
        if self.command is not None:
            return self.command.line
        return " ".join((self.tool, *self.read, *self.written, self.url or "")).strip()


def flags_of(
    log: YouBenchaLog | None, changes: Iterable[FileChange], context: IntegrityContext
) -> tuple[IntegrityFlag, ...]:
    """What may be an attempt to cheat, each with its evidence on one line."""
    changes = tuple(changes)
    calls = log.tool_calls if log else ()
    actions = tuple(action for call in calls for action in _actions(call, context.workspace))
    written = {posixpath.relpath(path, context.workspace) for action in actions for path in action.written}
    own = written | {change.path for change in changes}
    found: dict[tuple[FlagKind, FlagSeverity], dict[str, None]] = {}
    for finding in (*_in_actions(actions, own, context), *_in_changes(changes, actions, written, context)):
        texts = found.setdefault((finding.kind, finding.severity), {})
        texts[one_line(finding.text, LONGEST_EVIDENCE)] = None
    return tuple(
        IntegrityFlag(kind=kind, evidence=evidence, severity=severity)
        for (kind, severity), texts in found.items()
        for evidence in islice(texts, MOST_OF_A_KIND)
    )


class _Finding(NamedTuple):
    kind: FlagKind
    text: str
    severity: FlagSeverity = "note"


def _in_actions(actions: Iterable[_Action], own: Collection[str], context: IntegrityContext) -> Iterator[_Finding]:
    for action in actions:
        if any(_is_hidden(path, own, context) for path in action.read):
            yield _Finding("hidden_path", action.evidence, "evidence")
        if action.url is not None and _SOLUTION_HOST.search(action.url):
            yield _Finding("solution_search", action.evidence)
        if action.tool in _WEB_TOOLS and not context.has_network and _is_remote(action.url or "https://web"):
            yield _Finding("network", action.evidence)
        if action.command is not None:
            for kind in _kinds_of(action.command, context):
                yield _Finding(kind, action.evidence)


def _in_changes(
    changes: Iterable[FileChange], actions: Iterable[_Action], written: Collection[str], context: IntegrityContext
) -> Iterator[_Finding]:
    lines = [action.command.line for action in actions if action.command is not None]
    reporting = any(_WRITES_REPORTS.search(line) for line in lines)
    for change in changes:
        if severity := _test_edit(change, context):
            yield _Finding("test_edit", f"{change.kind} {change.path}", severity)
        elif change.kind == "added" and is_report_file(change.path) and (change.path in written or not reporting):
            yield _Finding("forged_report", f"{change.kind} {change.path}")


def _test_edit(change: FileChange, context: IntegrityContext) -> FlagSeverity | None:
    """None: it is not an edit of a test, or the reference solution edits the same file."""
    if change.path in context.solution and change.path not in context.protected:
        return None
    if change.kind != "added" and is_test_file(change.path):
        return "note" if change.deletions == 0 else "evidence"  # tests that were added to a given file do no harm
    if is_test_configuration(change.path):
        return None if change.kind == "added" and context.greenfield else "note"
    if change.path in context.protected:
        return "evidence"
    return "note" if change.path in context.recipes else None


_WRITES_REPORTS = re.compile(
    r"--cov|^coverage (?:run|xml|json|html|lcov)|--junit|--coverage|^(?:npx )?(?:nyc|c8)\b|-coverprofile|--reporter"
    r"|tarpaulin|llvm-cov|--output-file|--result"
)
"""Options of test runs that leave reports. Without one of them, a report was written by other means."""

# Paths

_ENVIRONMENT = re.compile(r"/proc/[^/]+/(?:environ|root|cwd)(?:/|$)")


def _is_hidden(path: str, own: Collection[str], context: IntegrityContext) -> bool:
    if _ENVIRONMENT.match(path):
        return True
    if _below(path, context.workspace):
        relative = posixpath.relpath(path, context.workspace)
        return relative in context.hidden_files and relative not in own
    return any(_below(path, directory) for directory in context.harness_paths)


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


# Commands


class _Rule(NamedTuple):
    """A command that is a sign, if every condition holds. Words are separated by spaces."""

    kind: FlagKind
    programs: str
    verbs: str = ""
    """The first argument that is not an option is one of these."""
    options: str = ""
    """One of these is among the arguments."""
    unless: str = ""
    """None of these is."""
    target: str = ""
    """`remote`: an argument names another computer. `package`: no target, or one that is not a local path."""


_OFFLINE = "--offline --no-index --dry-run --help -h --version"

_RULES = (
    _Rule("solution_search", "git", "fetch pull ls-remote reflog"),
    _Rule("solution_search", "git", "clone", unless=". ./"),
    _Rule("solution_search", "git", "remote", options="add set-url update"),
    _Rule("solution_search", "git", "log rev-list shortlog", options="--all --remotes --reflog -g --walk-reflogs"),
    _Rule("solution_search", "git", "fsck", options="--lost-found --unreachable --dangling --no-reflogs"),
    _Rule("solution_search", "git", "cat-file", options="--batch-all-objects"),
    _Rule("solution_search", "git", "verify-pack unpack-objects unpack-file"),
    _Rule("solution_search", "gh glab", "repo pr issue api search release browse", unless="--help"),
    _Rule("network", "curl wget aria2c http https ssh scp sftp rsync ftp", target="remote"),
    _Rule("network", "nc ncat netcat telnet ping dig nslookup host traceroute", target="remote"),
    _Rule("network", "git", "clone push fetch pull ls-remote", target="remote"),
    _Rule("network", "pip pipx", "install download", unless=_OFFLINE, target="package"),
    _Rule("network", "uv poetry pdm pipenv conda mamba", "add install sync lock", unless=_OFFLINE, target="package"),
    _Rule("network", "npm pnpm yarn bun", "install i ci add", unless=f"{_OFFLINE} --prefer-offline", target="package"),
    _Rule("network", "cargo", "install fetch add update search", unless=f"{_OFFLINE} --path"),
    _Rule("network", "go", "get install", target="package"),
    _Rule("network", "go", "mod", options="download"),
    _Rule("network", "gem bundle composer", "install update require", unless="--local --help"),
    _Rule("network", "apt apt-get apk dnf yum brew", "install update add upgrade", unless="--help --dry-run"),
    _Rule("network", "docker podman", "pull push login"),
)
_RULES_OF = {
    program: [rule for rule in _RULES if program in rule.programs.split()]
    for program in {each for rule in _RULES for each in rule.programs.split()}
}
_FETCHERS = frozenset(("curl", "wget", "aria2c", "http", "https"))
_WEB_TOOLS = frozenset(
    ("WebFetch", "WebSearch", "web_fetch", "web_search", "google_web_search", "webfetch", "websearch", "fetch")
)
_SOLUTION_HOST = re.compile(r"\b(?:github|githubusercontent|gitlab|bitbucket|codeberg)\.(?:com|org)\b", re.IGNORECASE)
_WITH_VALUE = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--prefix", "--cwd", "--directory", "--project"))
"""Options whose value is the next argument, before the verb."""


def _kinds_of(command: SimpleCommand, context: IntegrityContext) -> Iterator[FlagKind]:
    for rule in _RULES_OF.get(command.program, ()):
        if (rule.kind != "network" or not context.has_network) and _applies(rule, command):
            yield rule.kind
    if command.program == "git" and any(_names_ref(word, context.solution_refs) for word in command.arguments):
        yield "solution_search"
    if command.program in _FETCHERS and any(map(_SOLUTION_HOST.search, command.arguments)):
        yield "solution_search"
    if command.code is not None and not context.has_network and _fetches(command.code):
        yield "network"


def _applies(rule: _Rule, command: SimpleCommand) -> bool:
    verb, targets = _verb_and_targets(command.arguments, has_verb=bool(rule.verbs))
    arguments = set(command.arguments)
    return (
        (not rule.verbs or verb in rule.verbs.split())
        and (not rule.options or not arguments.isdisjoint(rule.options.split()))
        and arguments.isdisjoint(rule.unless.split())
        and (rule.target != "remote" or any(map(_is_remote, targets)))
        and (rule.target != "package" or not targets or not all(map(_is_local, targets)))
    )


class _Arguments(NamedTuple):
    verb: str
    targets: tuple[str, ...]


def _verb_and_targets(arguments: tuple[str, ...], *, has_verb: bool) -> _Arguments:
    words = iter(arguments)
    plain: list[str] = []
    for word in words:
        if word in _WITH_VALUE and not plain:
            next(words, None)
        elif not word.startswith("-"):
            plain.append(word)
    return _Arguments(plain[0] if plain else "", tuple(plain[1:])) if has_verb else _Arguments("", tuple(plain))


def _names_ref(word: str, refs: tuple[str, ...]) -> bool:
    """`v1-solution`, `v1-solution:src/a.py`, `origin/v1-solution`, `HEAD..v1-solution`."""
    return any(ref and re.search(rf"(?:^|/|\.\.){re.escape(ref)}(?:$|[:~^.@])", word) for ref in refs)


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


def _is_local(target: str) -> bool:
    return _LOCAL_TARGET.match(target) is not None


def _is_remote(target: str) -> bool:
    """Whether a word names another computer. One with a variable is not known to."""
    if url := _URL.match(target):
        return not _THIS_COMPUTER.fullmatch(url[1]) and "$" not in url[1] and not target.startswith("file:")
    return _REMOTE_HOST.fullmatch(target) is not None and _THIS_COMPUTER.fullmatch(target) is None


_FETCHING_CODE = re.compile(
    r"\burllib\.request\b|\burlopen\b|\brequests\.(?:get|post|put|head|request|Session)\b|\bhttp\.client\b|\bhttpx\b|\baiohttp\b"
    r"|\bfetch\(|\bhttps?\.(?:get|request)\(|\bNet::HTTP\b|\bcreate_connection\b|\.connect\(\("
)


def _fetches(code: str) -> bool:
    return _FETCHING_CODE.search(code) is not None and any(_is_remote(url[0]) for url in _URL.finditer(code))


# Tool calls

_COMMAND_KEYS = frozenset(("command", "cmd", "script", "commands", "input"))
_PATH_KEY = re.compile(r"(?:.*_)?(?:path|file|filename|directory|dir)|filePath|absolutePath|paths")
_WRITING_TOOL = re.compile(r"write|edit|create|replace|patch|delete|notebook", re.IGNORECASE)
_SHELL_TOOL = re.compile(r"bash|shell|terminal|command|exec|run_", re.IGNORECASE)
_QUOTED = re.compile(r"['\"]([^'\"\n]{1,300})['\"]")
_NOT_READING = frozenset(("echo", "printf", "mkdir", "touch", "rm", "rmdir", "cd", "pushd", "export", "chmod"))
_LARGEST_ARGUMENTS = 200_000


def _actions(call: ToolCall, workspace: str) -> Iterator[_Action]:
    arguments = _decoded(call)
    writing = _WRITING_TOOL.search(call.name) is not None
    for key, value in arguments:
        if key in _COMMAND_KEYS and (_SHELL_TOOL.search(call.name) or key != "input"):
            yield from _in_shell(call.name, value, workspace)
        elif key == "url":
            yield _Action(call.name, url=value)
        elif _PATH_KEY.fullmatch(key):
            path = posixpath.normpath(posixpath.join(workspace, value))
            yield _Action(call.name, written=(path,)) if writing else _Action(call.name, read=(path,))
    if call.name in _WEB_TOOLS and not any(key == "url" for key, _ in arguments):
        yield _Action(call.name, url="")


def _decoded(call: ToolCall) -> list[tuple[str, str]]:
    """Keys and texts. What is not JSON is the command of a shell, or a path."""
    try:
        given = json.loads(call.arguments[:_LARGEST_ARGUMENTS])
    except (ValueError, RecursionError):
        return [("command" if _SHELL_TOOL.search(call.name) else "path", call.arguments)]
    if not isinstance(given, dict):
        return []
    return [(key, text) for key, value in given.items() for text in _texts(value)]


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case ["bash" | "sh" | "/bin/bash" | "/bin/sh" | "zsh", *_, str(script)]:
            return [script]
        case [*parts] if all(isinstance(part, str) for part in parts):
            return [" ".join(map(str, parts))]
    return []


def _in_shell(tool: str, script: str, workspace: str) -> Iterator[_Action]:
    directory = workspace
    for command in simple_commands(script):
        if command.program in ("cd", "pushd") and command.arguments:
            directory = posixpath.normpath(posixpath.join(directory, command.arguments[0]))
        read = () if command.program in _NOT_READING else _paths_in(command, directory)
        written = tuple(posixpath.normpath(posixpath.join(directory, path)) for path in command.written)
        yield _Action(tool, command, read, written)


def _paths_in(command: SimpleCommand, directory: str) -> tuple[str, ...]:
    words = [part for word in command.arguments if word != command.code for part in {word, word.rpartition("=")[2]}]
    if command.code is not None:
        words += _QUOTED.findall(command.code)
    words = [
        word.replace("$PWD", directory) for word in words if word and len(word) < 1000 and not word.startswith("-")
    ]
    return tuple(posixpath.normpath(posixpath.join(directory, word)) for word in words)
