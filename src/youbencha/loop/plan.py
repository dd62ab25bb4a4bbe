"""Plan a loop: everything is decided and checked before its first iteration."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.adapters import get_adapter
from youbencha.errors import ConfigError, KeyPath, Problem, YouBenchaError
from youbencha.files import PathNotAllowed, read_file, read_within
from youbencha.loop.backends import (
    AUTO,
    BACKEND_NOT_INSTALLED,
    BACKEND_UNKNOWN,
    CUSTOM,
    Backend,
    adapter_name,
    choose_backend,
    is_program,
)
from youbencha.loop.gates import gate_problems, locate_gates
from youbencha.loop.presets import read_hats
from youbencha.spec.loader import NamedEvaluator
from youbencha.spec.loop import EscalationStep, HatSpec, LoopSpec
from youbencha.spec.loop_loader import CODE, LoopFile, load_loop_file
from youbencha.spec.sandbox import SandboxSpec
from youbencha.store.loops import LoopOptions
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import GatewayOptions, plan_gateway
from youbencha.trial.plan import merged_sandbox, refuse_without_model, resolved_environment

CONFIG_NAMES = ("ralph.yml", "ralph.yaml")
DEFAULT_PROMPT_FILE = "PROMPT.md"
MAX_PROMPT_BYTES = 1024 * 1024


class LoopOverrides(NamedTuple):
    """Options of the command line, which override ralph.yml. None: as it says there."""

    prompt: str | None = None
    prompt_file: Path | None = None
    backend: str | None = None
    model: str | None = None
    args: tuple[str, ...] = ()
    """Further arguments for the agent's CLI."""
    completion_promise: str | None = None
    max_iterations: int | None = None
    max_runtime_seconds: float | None = None
    max_cost_usd: float | None = None
    idle_timeout_secs: float | None = None
    sandbox: SandboxSpec | None = None
    hats: str | None = None
    """`builtin:NAME`, or a file, instead of the hats in ralph.yml."""
    settings: tuple[str, ...] = ()
    """Keys of ralph.yml with their values, each as KEY=VALUE."""
    gateway: GatewayOptions = GatewayOptions()

    def kept(self) -> LoopOptions:
        """What also holds when the loop continues."""
        values = {name: getattr(self, name) for name in LoopOptions.model_fields}
        return LoopOptions(**{**values, "sandbox": self.sandbox.type if self.sandbox else None})

    def over(self, earlier: LoopOptions) -> LoopOverrides:
        """These, and what the loop was started with. Another backend does not get the model and the arguments."""
        values = dict(earlier)
        if self.prompt is not None or self.prompt_file is not None:
            values |= {"prompt": None, "prompt_file": None}
        if self.backend not in (None, earlier.backend):
            values |= {"model": None, "args": ()}
        if earlier.sandbox is not None:
            values["sandbox"] = SandboxSpec(type=earlier.sandbox)
        return self._replace(**{name: value for name, value in values.items() if getattr(self, name) in (None, ())})

    def applied_to(self, spec: LoopSpec) -> LoopSpec:
        names = ("completion_promise", "max_iterations", "max_runtime_seconds", "max_cost_usd", "idle_timeout_secs")
        limits = {name: value for name in names if (value := getattr(self, name)) is not None}
        cli = {name: value for name in ("backend", "model") if (value := getattr(self, name)) is not None}
        if self.backend is not None and spec.cli.backend not in (self.backend, AUTO):
            # The other keys were meant for another CLI.
            cli = {"command": None, "args": (), "config": {}, "model": None, **cli}
        cli["args"] = (*cli.get("args", spec.cli.args), *self.args)
        return spec.model_copy(
            update={
                "cli": spec.cli.model_copy(update=cli),
                "event_loop": spec.event_loop.model_copy(update=limits),
            }
        )


@dataclass(frozen=True, kw_only=True)
class LoopPlan:
    """A loop with everything that settings, environment and options add to it."""

    spec: LoopSpec
    """With the options of the command line."""
    directory: Path
    """Where agents work."""
    config_file: Path | None
    config_dir: Path
    """Where relative paths of gates and of the gateway start."""
    objective: str
    """The prompt."""
    prompt_file: Path | None
    backend: Backend
    detected: bool
    """Whether `auto` chose the backend."""
    hat_backends: Mapping[str, Backend]
    """The backends of hats that have their own."""
    escalation: tuple[Backend | None, ...]
    """The backend of each step; None: stop for a person."""
    gates: tuple[NamedEvaluator, ...]
    sandbox: SandboxSpec
    max_concurrent: int
    """Gates that run at the same time."""
    options: LoopOptions
    """Those of the command line that also hold when the loop continues."""
    warnings: tuple[Problem, ...] = field(default=())

    @property
    def backends(self) -> list[Backend]:
        """All that an iteration may have."""
        return [self.backend, *self.hat_backends.values(), *filter(None, self.escalation)]

    def backend_for(self, hat: str | None, escalated: int = 0) -> Backend:
        """The backend of an iteration with this hat, after so many steps of the escalation.

        A step with a backend is for every hat; one with only a model is for those with the configured backend.
        """
        usual = self.hat_backends.get(hat, self.backend) if hat is not None else self.backend
        steps = self.spec.event_loop.escalation[:escalated]
        if not steps or (chosen := self.escalation[escalated - 1]) is None:
            return usual
        by_model_only = steps[-1].backend is None and chosen.name != usual.name
        return usual if by_model_only else chosen


def find_loop_file(
    directory: Path, given: Path | None = None, *, hats: str | None = None, settings: Sequence[str] = ()
) -> LoopFile | None:
    """Load the given ralph.yml, or the one in the directory, and apply other hats and settings to it.

    None if there is no file, no hats and no settings.
    """
    path = given or next((directory / name for name in CONFIG_NAMES if (directory / name).is_file()), None)
    if path is None and hats is None and not settings:
        return None
    collection = read_hats(hats, directory) if hats is not None else None
    return load_loop_file(path, directory=directory, hats=collection, settings=settings)


def plan_loop(
    file: LoopFile | None,
    host: Host,
    directory: Path,
    overrides: LoopOverrides = LoopOverrides(),  # noqa: B008 - immutable
) -> LoopPlan:
    """Check and plan a loop in `directory`; without a file, with the defaults."""
    directory = directory.absolute()
    if file is not None:
        check_loop(file, host, env=host.env)
    spec = overrides.applied_to(file.spec if file else LoopSpec())
    config_dir = file.directory if file else directory
    objective, prompt_file = read_objective(spec, directory, overrides)
    sandbox = _own_home(merged_sandbox(overrides.sandbox, spec.sandbox, host.settings.settings.sandbox))
    planner = _BackendPlanner(spec, file, host, config_dir, sandbox, overrides)
    main = planner.main()
    hat_backends = {name: planner.of_hat(name, hat) for name, hat in spec.hats.items() if _has_own_backend(hat)}
    escalation = tuple(planner.of_step(index, step) for index, step in enumerate(spec.event_loop.escalation))
    if sandbox.type == "local":
        for backend in filter(None, (main, *hat_backends.values(), *escalation)):
            _check_program(backend, config_dir, directory)
    return LoopPlan(
        spec=spec,
        directory=directory,
        config_file=file.file if file else None,
        config_dir=config_dir,
        objective=objective,
        prompt_file=prompt_file,
        backend=main,
        detected=spec.cli.backend == AUTO,
        hat_backends=hat_backends,
        escalation=escalation,
        gates=tuple(gate.named() for gate in locate_gates(file)) if file else (),
        sandbox=sandbox,
        max_concurrent=host.settings.settings.evaluators.max_concurrent,
        options=overrides.kept(),
        warnings=file.warnings if file else (),
    )


def check_loop(file: LoopFile, host: Host, *, env: Mapping[str, str] | None = None) -> None:
    """Check backends and gates, except for what depends on this computer. All problems are one ConfigError.

    `env` is the harness's environment, if references to it are checked.
    """
    name = file.spec.cli.backend
    judge = adapter_name("claude" if name == AUTO else name)
    problems = gate_problems(file, env, judge)
    sandbox = merged_sandbox(file.spec.sandbox, host.settings.settings.sandbox)
    planner = _BackendPlanner(file.spec, file, host, file.directory, sandbox, LoopOverrides(), here=False)
    for check in planner.checks():
        try:
            check()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise file.document.error(problems)


def has_prompt(file: LoopFile | None, directory: Path, overrides: LoopOverrides) -> bool:
    """Whether the options, the configuration or the default file say what to do."""
    spec = (file.spec if file else LoopSpec()).event_loop
    given = (overrides.prompt, overrides.prompt_file, spec.prompt, spec.prompt_file)
    return any(source is not None for source in given) or (directory / DEFAULT_PROMPT_FILE).exists()


def read_objective(spec: LoopSpec, directory: Path, overrides: LoopOverrides) -> tuple[str, Path | None]:
    """The prompt, and the file that it is from. Raises YouBenchaError if there is none, or if it is empty."""
    if overrides.prompt is not None and overrides.prompt_file is not None:
        raise YouBenchaError(
            "PROMPT_AMBIGUOUS", "Both a prompt and a prompt file were given.", hint="Give one of them."
        )
    text = overrides.prompt
    if text is None and overrides.prompt_file is None:
        text = spec.event_loop.prompt
    if text is not None:
        if not text.strip():
            raise YouBenchaError("PROMPT_EMPTY", "The prompt is empty.", hint="Describe the task.")
        return text, None
    file = directory / (overrides.prompt_file or Path(spec.event_loop.prompt_file or DEFAULT_PROMPT_FILE).expanduser())
    return _read_prompt(file, directory), file


def _read_prompt(file: Path, directory: Path) -> str:
    """Read a prompt. In the directory of the loop, an agent could have replaced it by a link to any file."""
    hint = "Write the task into it, or give it with `-p TEXT` or `-P FILE`. `ralph init` creates an example."
    try:
        inside = file.is_relative_to(directory) and ".." not in file.parts
        name = str(file.relative_to(directory)) if inside else ""
        data = read_within(directory, name, MAX_PROMPT_BYTES) if inside else read_file(file, MAX_PROMPT_BYTES)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise YouBenchaError("PROMPT_MISSING", f"There is no prompt: {file} does not exist.", hint=hint) from None
    except UnicodeDecodeError as error:
        message = f"The prompt file {file} is not UTF-8 text (byte {error.start})."
        raise YouBenchaError("PROMPT_INVALID", message, hint="Save it as UTF-8.") from None
    except PathNotAllowed as error:
        message = f"The prompt cannot be read: {error.message}."
        raise YouBenchaError("PROMPT_INVALID", message, hint="Name the file itself with `-P FILE`.") from None
    except OSError as error:
        raise YouBenchaError("PROMPT_INVALID", f"The prompt file {file} cannot be read: {error.strerror}.") from None
    if not text.strip():
        raise YouBenchaError("PROMPT_EMPTY", f"The prompt file {file} is empty.", hint=hint)
    if text == (files("youbencha") / "scaffold/loops/PROMPT.md").read_text(encoding="utf-8"):
        message = f"The prompt file {file} is still the example of `ralph init`."
        raise YouBenchaError("PROMPT_EMPTY", message, hint="Write the task into it.")
    return text


def _own_home(sandbox: SandboxSpec) -> SandboxSpec:
    """On this computer, an agent of a loop has the user's home: the git identity, logins and settings that it needs."""
    has_choice = sandbox.type == "local" and sandbox.home == "auto"
    return sandbox.model_copy(update={"home": "own"}) if has_choice else sandbox


def _check_program(backend: Backend, config_dir: Path, directory: Path) -> None:
    """Refuse a custom program that is named by its path, and does not exist."""
    if backend.name != CUSTOM or backend.config.get("shell"):
        return
    command = backend.config["command"]
    program = Path(command[0] if isinstance(command, list) else shlex.split(command)[0]).expanduser()
    if program.name != str(program) and not any((parent / program).is_file() for parent in (config_dir, directory)):
        message = f"The backend `custom` is not installed: there is no {config_dir / program}."
        raise YouBenchaError(BACKEND_NOT_INSTALLED, message, hint="Correct the command in ralph.yml.")


def _has_own_backend(hat: HatSpec) -> bool:
    return bool(hat.backend or hat.model or hat.backend_args or hat.disallowed_tools)


class _BackendPlanner:
    """Chooses and checks the backends of a loop."""

    def __init__(
        self,
        spec: LoopSpec,
        file: LoopFile | None,
        host: Host,
        config_dir: Path,
        sandbox: SandboxSpec,
        overrides: LoopOverrides,
        *,
        here: bool = True,
    ) -> None:
        """`here`: the loop will run on this computer, so that CLIs and variables must exist."""
        self._spec = spec
        self._cli = spec.cli
        self._file = file
        self._host = host
        self._config_dir = config_dir
        self._sandbox = sandbox
        self._overrides = overrides
        self._here = here
        self._env: dict[str, str] = {}
        if here and file is not None:
            self._env = resolved_environment(spec.cli.env, host.env, file.document, ("cli", "env"))
        self._disabled = [name for name, adapter in spec.adapters.items() if not adapter.enabled]

    def checks(self) -> Iterator[Callable[[], object]]:
        """One for each backend; `auto` depends on the computer."""
        if self._cli.backend != AUTO:
            yield self.main
        for index, name in enumerate(self._cli.agent_priority):
            yield partial(self._choose, name, ("cli", "agent_priority", index))
        for name, hat in self._spec.hats.items():
            if hat.backend:
                yield partial(self.of_hat, name, hat)
        for index, step in enumerate(self._spec.event_loop.escalation):
            if step.backend:
                yield partial(self.of_step, index, step)

    def main(self) -> Backend:
        chosen = self._ready(self._choose(self._cli.backend, ("cli", "backend")), ("cli",))
        self._cli = self._cli.model_copy(update={"backend": chosen.name})
        return chosen

    def of_hat(self, name: str, hat: HatSpec) -> Backend:
        """The hat's own backend, or the configured one with the hat's model, arguments and tools."""
        path = ("hats", name)
        backend = hat.backend.type if hat.backend else self._cli.backend
        chosen = self._choose(backend, (*path, "backend"), own=hat.backend, model=hat.model, args=hat.backend_args)
        if hat.disallowed_tools and chosen.name == "claude":
            chosen = chosen._replace(config={**chosen.config, "disallowed_tools": list(hat.disallowed_tools)})
        return self._ready(chosen, path)

    def of_step(self, index: int, step: EscalationStep) -> Backend | None:
        if step.person is not None:
            return None
        path = ("event_loop", "escalation", index)
        return self._ready(self._choose(step.backend or self._cli.backend, (*path, "backend"), model=step.model), path)

    def _choose(self, name: str, path: KeyPath, **options: Any) -> Backend:
        in_image = self._sandbox.type == "docker" and (self._sandbox.agent == "image" or is_program(name))
        try:
            return choose_backend(
                name,
                self._cli,
                self._host.env,
                disabled=self._disabled,
                check_installed=self._here and not in_image,
                **options,
            )
        except YouBenchaError as error:
            if self._file is None or error.code != BACKEND_UNKNOWN or self._overrides.backend == name:
                raise
            document = self._file.document
            raise document.error([document.problem(path, error.message, error.hint)]) from None

    def _ready(self, backend: Backend, path: KeyPath) -> Backend:
        """The backend with its environment and gateway, if its configuration is valid."""
        adapter = get_adapter(backend.agent_type, self._host.env)
        config = {**backend.config, "prompt": "…", **({"model": backend.model} if backend.model else {})}
        if problems := adapter.check_config(config, self._config_dir):
            raise self._error(problems, path, backend)
        if not self._here:
            return backend
        if self._sandbox.type == "docker" and self._sandbox.network == "none":
            refuse_without_model(adapter)
        settings = self._host.settings
        own = self._spec.gateway
        gateway = plan_gateway(
            own.merged_over(settings.gateway) if own else settings.gateway,
            self._overrides.gateway,
            adapter=adapter,
            agent_env=self._env,
            model=backend.model,
            harness_env=self._host.env,
            config_dir=self._config_dir,
            gateway_only=self._sandbox.type == "docker" and self._sandbox.network == "gateway",
        )
        cost = self._spec.event_loop.max_cost_usd
        if gateway is not None and cost is not None and gateway.spec.budget_total_usd is None:
            gateway = replace(gateway, spec=gateway.spec.model_copy(update={"budget_total_usd": cost}))
        return backend._replace(env=self._env, gateway=gateway)

    def _error(self, problems: Sequence[Problem], path: KeyPath, backend: Backend) -> YouBenchaError:
        """Problems of the adapter's configuration, at the keys that they come from."""
        if self._file is None:
            return ConfigError(CODE, f"The configuration of {backend.name}", problems)
        return self._file.document.error([_placed(self._file, path, problem) for problem in problems])


_SOURCES = {
    "cli": {"extra_args": "args", "executable": "command", "model": "model", "": "config"},
    "hats": {"extra_args": "backend_args", "model": "model", "disallowed_tools": "disallowed_tools", "": "backend"},
    "event_loop": {"model": "model", "": "backend"},
}
"""Where options of an adapter come from, in each part of ralph.yml."""


def _placed(file: LoopFile, path: KeyPath, problem: Problem) -> Problem:
    """A problem of an adapter's configuration at its key in ralph.yml."""
    sources = _SOURCES[str(path[0])]
    first = str(problem.keys[0]) if problem.keys else ""
    own = (sources.get(first, sources[""]),)
    rest = (first,) if own == ("config",) else ()
    return file.document.problem((*path, *own, *rest), problem.message, problem.hint, kind=problem.kind)
