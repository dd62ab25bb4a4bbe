"""The agents that a loop can run: Ralph's names for them, over the adapters and the generic `command` adapter."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.adapters.registry import built_in_adapters
from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.spec.loop import CliSpec, HatBackend, LoopSpec
from youbencha.text import did_you_mean
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.user_dirs import toolbox_dir

AUTO, CUSTOM = "auto", "custom"
BACKEND_UNKNOWN, BACKEND_NOT_INSTALLED = "BACKEND_UNKNOWN", "BACKEND_NOT_INSTALLED"
_COMMAND = "command"
_PROMPT, _PROMPT_FILE = "{prompt}", "{prompt_file}"


class Backend(NamedTuple):
    """An agent, ready to be run by its adapter."""

    name: str
    """As in ralph.yml: `claude`."""
    title: str
    agent_type: str
    """The adapter's name."""
    config: Mapping[str, Any]
    """The adapter's configuration, without a prompt."""
    model: str | None
    env: Mapping[str, str] = MappingProxyType({})
    """`cli.env`, which may contain secrets. Set by `plan_loop`, as the gateway is."""
    gateway: GatewayPlan | None = None
    """How it reaches its model. None: directly."""

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values to redact in everything that is written."""
        return {**self.env, **(self.gateway.secrets if self.gateway else {})}

    def __repr__(self) -> str:
        """Without the environment, which may contain secrets."""
        return f"Backend({self.name!r}, {self.agent_type!r}, model={self.model!r})"


class BackendKind(NamedTuple):
    """A row of the table."""

    title: str
    program: str
    """On PATH."""
    agent_type: str = _COMMAND
    args: tuple[str, ...] = ()
    """The arguments of a program over the `command` adapter, before the user's own."""
    prompt: tuple[str, ...] = ()
    """The last arguments of such a program, if the prompt is not simply the last one."""
    model_flag: str | None = None
    agent_flag: str | None = None
    """Before the name of a custom agent."""
    interactive_args: tuple[str, ...] = ()
    """The arguments that start an interactive session with a first message, if it can do that."""
    redundant_flags: frozenset[str] = frozenset()
    """Arguments that people pass to this CLI, and that its adapter passes anyway."""
    install: str = ""
    """How to install it, if the toolbox cannot."""


_PROGRAMS = {
    "kiro": BackendKind(
        "Kiro CLI",
        "kiro-cli",
        args=("chat", "--no-interactive", "--trust-all-tools"),
        interactive_args=("chat", _PROMPT),
        model_flag="--model",
        agent_flag="--agent",
        install="see https://kiro.dev/cli",
    ),
    "forge": BackendKind("Forge", "forge", prompt=("-p", _PROMPT), install="see https://forgecode.dev"),
    "amp": BackendKind(
        "Amp",
        "amp",
        args=("--dangerously-allow-all",),
        prompt=("-x", _PROMPT),
        install="see https://ampcode.com/manual",
    ),
    "pi": BackendKind(
        "Pi",
        "pi",
        args=("-p", "--no-session"),
        interactive_args=(_PROMPT,),
        model_flag="--model",
        install="`npm install -g @mariozechner/pi-coding-agent`",
    ),
    "roo": BackendKind(
        "Roo Code",
        "roo",
        args=("--print", "--ephemeral"),
        prompt=("--prompt-file", _PROMPT_FILE),
        model_flag="--model",
        install="see https://docs.roocode.com",
    ),
}
"""Programs without an adapter of their own."""

_PRIORITY = ("claude", "kiro", "gemini", "codex", "forge", "amp", "copilot", "opencode", "aider", "pi", "roo")


def _all_backends() -> dict[str, BackendKind]:
    """Return all backends, in the order in which `auto` looks for them; those that it does not name come last."""
    agents = {
        adapter.program: BackendKind(
            adapter.title,
            adapter.program,
            name,
            interactive_args=adapter.interactive_args,
            redundant_flags=adapter.redundant_flags,
        )
        for name, adapter in built_in_adapters().items()
        if adapter.program
    }
    known = {**agents, **_PROGRAMS}
    return {name: known[name] for name in (*_PRIORITY, *(name for name in known if name not in _PRIORITY))}


BACKENDS = _all_backends()

_NOT_YET = {"kiro-acp": "kiro"}
"""Backends of Ralph that are not supported yet, with a substitute."""


def installed_backends(cli: CliSpec, env: Mapping[str, str], disabled: Collection[str] = ()) -> Iterable[str]:
    """The names of backends that are installed, in order of priority. No program is started."""
    names = dict.fromkeys((*cli.agent_priority, *BACKENDS))
    return (name for name in names if name not in disabled and name in BACKENDS and _is_installed(BACKENDS[name], env))


def choose_backend(
    name: str,
    cli: CliSpec,
    env: Mapping[str, str],
    *,
    own: HatBackend | None = None,
    model: str | None = None,
    args: Sequence[str] = (),
    disabled: Collection[str] = (),
    check_installed: bool = True,
) -> Backend:
    """The backend with this name; `auto` is the first that is installed.

    `env` is the harness's environment. `own` is a hat's backend, which has its own arguments; otherwise those of `cli`
    apply, if it configures this backend. `model` overrides, and `args` are added. `disabled` are not considered for
    `auto`. Raises YouBenchaError if it is unknown or not installed.
    """
    if name == AUTO:
        name = next(iter(installed_backends(cli, env, disabled)), "")
        if not name:
            raise _none_installed(cli, disabled)
    if own is not None or cli.backend not in (name, AUTO):  # the rest of `cli` is for another program
        cli = CliSpec.model_construct(
            command=own.command if own else None,
            args=own.args if own else (),
            pty_mode=cli.pty_mode,
            output_format=cli.output_format,
        )
    request = _Request(cli, (*cli.args, *args), model or cli.model, own.agent if own else None, env)
    if name == CUSTOM:
        return _custom(request, check_installed=check_installed)
    kind = known_backend(name)
    if check_installed and cli.command is None and not _is_installed(kind, env):
        raise _not_installed(name, kind)
    return _program(name, kind, request) if kind.agent_type == _COMMAND else _agent(name, kind, request)


class _Request(NamedTuple):
    """What is asked of a backend."""

    cli: CliSpec
    args: tuple[str, ...]
    model: str | None
    agent: str | None
    env: Mapping[str, str]

    def config(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The backend's own configuration, and what the user wrote over it."""
        return {**own, **({"pty": "always"} if self.cli.pty_mode else {}), **self.cli.config}


def known_backend(name: str) -> BackendKind:
    """The row of a backend. Raises YouBenchaError with the nearest name if there is none."""
    if kind := BACKENDS.get(name):
        return kind
    if name in _NOT_YET:
        message = f"The backend {name!r} is not supported yet."
        raise YouBenchaError(BACKEND_UNKNOWN, message, hint=f"Use `{_NOT_YET[name]}`.")
    known = (*BACKENDS, CUSTOM, AUTO)
    hint = did_you_mean(name, known) or f"Known backends: {', '.join(known)}."
    raise YouBenchaError(BACKEND_UNKNOWN, f"There is no backend called {name!r}.", hint=hint)


def adapter_name(name: str) -> str | None:
    """The adapter's name for a backend; None if the backend is unknown."""
    return _COMMAND if name == CUSTOM else BACKENDS[name].agent_type if name in BACKENDS else None


def is_program(name: str) -> bool:
    """Whether this backend is a program over the `command` adapter: in a container, one of the image."""
    return adapter_name(name) == _COMMAND


def _custom(request: _Request, *, check_installed: bool) -> Backend:
    cli = request.cli
    if cli.command is None:
        hint = "Set `cli.command` to the program."
        raise YouBenchaError("BACKEND_INCOMPLETE", "The backend `custom` has no command.", hint=hint)
    is_path = not cli.config.get("shell") and is_path_with_spaces(cli.command)
    command = [cli.command] if is_path else cli.command
    program = cli.command if is_path else cli.command.split()[0]
    if check_installed and Path(program).name == program and find_executable(program, request.env) is None:
        message = f"The backend `custom` is not installed: there is no {program} on PATH."
        raise YouBenchaError(BACKEND_NOT_INSTALLED, message, hint="Correct `cli.command`, or install the program.")
    prompt_by, how = _PROMPT_MODES[cli.prompt_mode]
    is_placed = any(_PROMPT in word or _PROMPT_FILE in word for word in request.args)
    flag = (cli.prompt_flag,) if cli.prompt_flag else ()
    words = [*request.args, *((*flag, how) if how and not is_placed else ())]
    config = request.config({"command": command, "args": words, "prompt_by": prompt_by})
    return Backend(CUSTOM, Path(program).name, _COMMAND, config, request.model)


def is_path_with_spaces(command: str) -> bool:
    """Whether all of a command is the path of one program, as `/opt/my agent.sh`, and not a line to be split."""
    try:
        return " " in command and Path(command).expanduser().is_file()
    except (OSError, RuntimeError):  # a part of the name is too long, or `~` is followed by an unknown user
        return False


_PROMPT_MODES = {"arg": ("argument", _PROMPT), "stdin": ("stdin", None), "file": ("file", _PROMPT_FILE)}
"""How the `command` adapter gives the prompt, and what stands for it in the arguments."""


def _program(name: str, kind: BackendKind, request: _Request) -> Backend:
    chosen = ((kind.agent_flag, request.agent), (kind.model_flag, request.model))
    options = [part for flag, value in chosen if flag and value for part in (flag, value)]
    words = [*kind.args, *request.args, *options, *(kind.prompt or (_PROMPT,))]
    prompt_by = "file" if _PROMPT_FILE in kind.prompt else "argument"
    program = request.cli.command or kind.program
    config = request.config({"command": [program], "args": words, "prompt_by": prompt_by})
    return Backend(name, kind.title, _COMMAND, config, request.model)


def _agent(name: str, kind: BackendKind, request: _Request) -> Backend:
    args, model = _without_own(kind, request.args, request.model)
    config: dict[str, Any] = {"extra_args": args} if args else {}
    command = request.cli.command
    if command is not None:
        found = find_executable(command, request.env) if Path(command).name == command else None
        config["executable"] = str(found or Path(command).expanduser())
    if request.agent is not None:
        config["agent_name"] = request.agent
    config |= built_in_adapters()[kind.agent_type].loop_config(request.cli.output_format)
    return Backend(name, kind.title, kind.agent_type, request.config(config), model)


_MODEL_FLAGS = ("--model", "-m")


def _without_own(kind: BackendKind, args: Sequence[str], model: str | None) -> tuple[list[str], str | None]:
    """The arguments without those that the adapter passes itself, and the model that they name."""
    rest: list[str] = []
    waiting = iter(args)
    for word in waiting:
        flag, _, value = word.partition("=")
        if flag in _MODEL_FLAGS:
            named = value or next(waiting, None)
            model = model or named
        elif word not in kind.redundant_flags:
            rest.append(word)
    return rest, model


def _is_installed(kind: BackendKind, env: Mapping[str, str]) -> bool:
    return find_executable(kind.program, env) is not None or _in_toolbox(kind, env)


def _in_toolbox(kind: BackendKind, env: Mapping[str, str]) -> bool:
    if kind.agent_type == _COMMAND:
        return False
    return Toolbox(toolbox_dir(env)).find(kind.agent_type) is not None


def how_to_install(kind: BackendKind) -> str:
    return kind.install or f"`yb agents install {kind.agent_type}`"


def _not_installed(name: str, kind: BackendKind) -> YouBenchaError:
    where = "on PATH" if kind.agent_type == _COMMAND else "on PATH or in the toolbox"
    message = f"The backend {name!r} is not installed: there is no {kind.program} {where}."
    return YouBenchaError(BACKEND_NOT_INSTALLED, message, hint=f"Install {kind.title}: {how_to_install(kind)}.")


def _none_installed(cli: CliSpec, disabled: Collection[str]) -> YouBenchaError:
    names = [name for name in dict.fromkeys((*cli.agent_priority, *BACKENDS)) if name not in disabled]
    hint = "Install one, for example with `yb agents install claude-code`; `ralph doctor` shows what is missing."
    message = f"No backend is installed. Looked for: {', '.join(names)}."
    return YouBenchaError(BACKEND_NOT_INSTALLED, message, hint=hint)


_OUTER_SESSION_VARIABLES = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"})
"""Variables that Claude Code sets for its tools. With these, another Claude Code would not start, or would connect to
the editor of the first."""


def shell_environment(harness: Mapping[str, str], *, behind_gateway: bool) -> dict[str, str]:
    """Return all variables, except the credentials of models if a gateway holds these."""
    return {
        name: value
        for name, value in harness.items()
        if name not in _OUTER_SESSION_VARIABLES and not (behind_gateway and is_model_credential(name, keep_others=True))
    }


# -- `ralph plan`: a conversation in the agent's own interactive session, which nothing meters -------------------------

_DEFAULT_SPECS_DIR = ".ralph/specs"
_INTERACTIVE_ARGS: Mapping[str, tuple[str, ...]] = {
    name: kind.interactive_args for name, kind in BACKENDS.items() if kind.interactive_args
}


def planning_prompt(spec: LoopSpec, idea: str | None) -> str:
    """Return the first message of the session."""
    text = (files("youbencha") / "scaffold/loops/PLAN.md").read_text(encoding="utf-8")
    specs = (spec.core.specs_dir or _DEFAULT_SPECS_DIR).rstrip("/")
    return text.replace("@SPECS@", specs).replace("@IDEA@", (idea or "").strip() or "(I will tell you)")


def interactive_command(
    spec: LoopSpec, env: Mapping[str, str], prompt: str, *, backend: str | None = None, args: Sequence[str] = ()
) -> list[str]:
    """Return the command line of the session.

    Configured arguments are only used for a `custom` program; those of other backends are for unattended sessions.
    """
    cli = spec.cli
    name = backend or cli.backend
    if name == AUTO:
        disabled = {other for other, adapter in spec.adapters.items() if not adapter.enabled}
        unusable = disabled | (BACKENDS.keys() - _INTERACTIVE_ARGS.keys())
        name = next(iter(installed_backends(cli, env, unusable)), "claude")
    is_configured = cli.backend in (name, AUTO)
    if name == CUSTOM:
        if cli.command is None or not is_configured:
            raise YouBenchaError(
                "BACKEND_INCOMPLETE", "The backend `custom` has no command.", hint="Set `cli.command` to the program."
            )
        program = [cli.command] if is_path_with_spaces(cli.command) else shlex.split(cli.command)
        if any(_PROMPT in word for word in cli.args):
            return [*program, *(word.replace(_PROMPT, prompt) for word in cli.args), *args]
        flag = [cli.prompt_flag] if cli.prompt_flag else []
        return [*program, *cli.args, *args, *flag, prompt]
    known_backend(name)
    if name not in _INTERACTIVE_ARGS:
        hint = f"Choose another backend with `-b`: {', '.join(_INTERACTIVE_ARGS)}."
        message = f"{BACKENDS[name].title} cannot start an interactive session with a first message."
        raise YouBenchaError("PLAN_IMPOSSIBLE", message, hint=hint)
    model = ["--model", cli.model] if cli.model and is_configured else []
    words = [prompt if word == _PROMPT else word for word in _INTERACTIVE_ARGS[name]]
    return [*_interactive_program(name, cli.command if is_configured else None, env), *model, *args, *words]


def _interactive_program(name: str, command: str | None, env: Mapping[str, str]) -> list[str]:
    kind = BACKENDS[name]
    if command is not None and Path(command).name != command:
        return [str(Path(command).expanduser().absolute())]
    if found := find_executable(command or kind.program, env):
        return [str(found)]
    if installed := Toolbox(toolbox_dir(env)).find(kind.agent_type):
        return [*(installed.command or (str(installed.executable),))]
    message = f"The backend {name!r} is not installed: there is no {kind.program} on PATH or in the toolbox."
    raise YouBenchaError(BACKEND_NOT_INSTALLED, message, hint="`ralph doctor` shows what is installed.")


def run_in_terminal(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a program in the user's terminal until it ends, and return its exit code. Ctrl-C only reaches the program."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # unlike SIG_IGN, this is not inherited by the program
    try:
        code = subprocess.run(command, env=env, check=False).returncode
    except OSError as error:
        raise YouBenchaError(BACKEND_NOT_INSTALLED, f"{command[0]} cannot be started: {error.strerror}.") from None
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
