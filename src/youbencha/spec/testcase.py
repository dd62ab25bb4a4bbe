"""A test case: a repository, an agent with a task, and how to judge what it leaves behind."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AliasChoices, BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from youbencha.spec.base import Line, Milliseconds, Written
from youbencha.spec.gateway import Gateway
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Sandbox


class EvaluatorEntry(Written):
    """`{name, config}` or `{file}`. A name alone may be written as plain text."""

    name: Line | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    file: Line | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.file is not None:
            for key in ("name", "config"):
                if key in self.model_fields_set:
                    raise ProblemAt(key, "must not stand beside `file`: the file says it")
        elif self.name is None:
            raise ValueError("needs a `name`, or a `file` that holds one")
        return self


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class _OrName:
    """Tells editors, too, that a name alone will do."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}


Evaluators = Annotated[
    tuple[Annotated[EvaluatorEntry, BeforeValidator(_named), _OrName()], ...], Field(min_length=1, strict=False)
]


class EvaluatorFile(Written):
    """An evaluator that several test cases share."""

    name: Line
    description: str = ""
    config: dict[str, Any] = Field(default_factory=dict)


class ScriptConfig(Written):
    """A program with its arguments. No shell, unless `shell: true` asks for one."""

    command: Line
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    env: dict[str, str] = Field(default_factory=dict)
    timeout_ms: Milliseconds = 30_000
    working_dir: Line | None = None
    """Before the agent: relative to the workspace, which is also the default. Afterwards: to the test case's file."""
    shell: bool = False
    """`command` is then one line for the system's shell; `args` are its $1, $2 …"""


class WebhookConfig(Written):
    url: Annotated[str, Field(min_length=1)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    include_artifacts: bool = False
    """Send the texts of the reports, the diff, the agent's log and the evaluators' artifacts along."""
    retry_on_failure: bool = True
    """Three attempts, 1 s and 2 s apart, when there is no answer or one of 408, 425, 429, 5xx."""
    timeout_ms: Milliseconds = 5_000


class DatabaseConfig(Written):
    type: Literal["json-file", "sqlite"]
    output_path: Line
    include_full_bundle: bool = True
    append: bool = True
    """False: start anew with this result alone."""
    table: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "results"
    """SQLite only."""


class ScriptHook(Written):
    name: Literal["script"]
    config: ScriptConfig


class WebhookHook(Written):
    name: Literal["webhook"]
    config: WebhookConfig


class DatabaseHook(Written):
    name: Literal["database"]
    config: DatabaseConfig


PostHook = Annotated[ScriptHook | WebhookHook | DatabaseHook, Field(discriminator="name")]
PostHooks = Annotated[
    tuple[PostHook, ...],
    Field(strict=False, validation_alias=AliasChoices("post_evaluation", "post_evaluators")),
]


Name = Annotated[str, Field(min_length=1, max_length=200)]
Description = Annotated[str, Field(max_length=1000)]


class AgentSpec(Written):
    """Who does the work. Changing `type` alone changes the agent."""

    type: Line
    agent_name: Line | None = None
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    """Any name: whether there is such a model, only its provider knows."""
    version: Line | None = None
    """Of the agent's CLI, from the toolbox."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The adapter's own options, `prompt` or `prompt_file` among them."""
    env: dict[str, str] = Field(default_factory=dict)
    """Given to the agent. `${NAME}` is taken from the environment where the settings do not define it."""


class TestCase(Written):
    """`testcase.yaml`."""

    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    version: Any = None
    """Of the format. Older files carry it; it is not looked at."""
    name: Name | None = None
    """Without one, the file's name is the test case's."""
    description: Description = ""
    repo: Line
    """https, ssh, file URL, or a path (relative to this file)."""
    branch: Line | None = None
    commit: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{4,64}$")] | None = None
    """On any branch. Together with `branch`: the commit is taken, the branch is only its name."""
    agent: AgentSpec
    gateway: Gateway | None = None
    """How the agent reaches its model. Without one, as the settings say, and by default `auto`."""
    sandbox: Sandbox | None = None
    """Where the agent runs. Without one, as the settings say, and by default `local`."""
    expected_source: Literal["branch", "commit", "tag"] | None = None
    expected: Line | None = None
    """The branch (or tag, or commit) that holds how it should be."""
    evaluators: Evaluators
    pre_execution: Annotated[tuple[ScriptHook, ...], Field(strict=False)] = ()
    post_evaluation: PostHooks = ()
    workspace_dir: Line | None = None
    workspace_name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    timeout: Milliseconds | None = None
    """Of the agent, in milliseconds."""

    @model_validator(mode="after")
    def _expected_is_whole(self) -> Self:
        if self.expected_source is not None and self.expected is None:
            raise ProblemAt("expected_source", "needs `expected` beside it: the name of that branch, tag or commit")
        return self


class EvalConfig(Written):
    """`yb eval`: judge a directory as it is, without running an agent."""

    version: Any = None
    name: Name | None = None
    description: Description = ""
    directory: Line
    expected_directory: Line | None = None
    evaluators: Evaluators
    post_evaluation: PostHooks = ()
    output_dir: Line | None = None


class AgentChoice(NamedTuple):
    """What is None stays as the file says."""

    type: str | None = None
    version: str | None = None
    """Of its CLI. The file's is only good for the file's agent."""
    model: str | None = None

    def over(self, data: Any) -> Any:
        """The content of a test case, with this instead of what it says."""
        agent = data.get("agent") if isinstance(data, Mapping) else None
        if self == AS_WRITTEN or not isinstance(agent, Mapping):
            return data
        chosen = dict(agent)
        if self.type is not None:
            if self.type != agent.get("type"):
                chosen = _without(chosen, "version")
            chosen["type"] = self.type
        if self.version is not None:
            chosen = _without(chosen, "version") | {"version": self.version}
        if self.model is not None:
            chosen = _without(chosen, "model") | {"model": self.model}
        return {**data, "agent": chosen}


AS_WRITTEN = AgentChoice()


def _without(agent: dict[str, Any], name: str) -> dict[str, Any]:
    """It may stand beside `config` as well as in it."""
    rest = {key: value for key, value in agent.items() if key != name}
    config = rest.get("config")
    if isinstance(config, Mapping) and name in config:
        rest["config"] = {key: value for key, value in config.items() if key != name}
    return rest
