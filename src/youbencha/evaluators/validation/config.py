"""The configuration of the validation evaluator."""

from pydantic import Field

from youbencha.evaluators.globs import GlobList
from youbencha.spec.arena import Canary, Env, GreenWeights, ValidationSpec, Weights
from youbencha.spec.base import Line


class ValidationConfig(ValidationSpec):
    """Commands are lines of a shell, and run at the top of the tree."""

    image: Line | None = None
    """Of the container, for the modes `diff` and `separate`. Defaults to the agent's."""
    install_cmd: Line | None = None
    build_cmd: Line | None = None
    test_cmd: Line
    lint_cmd: Line | None = None
    validation_tag: Line | None = None
    """A tag, branch or commit. Its files that differ from what the agent started from are the hidden tests."""
    reference_tag: Line | None = None
    """A tag, branch or commit with a solution. The tests that it runs are the ones that count."""
    greenfield: bool = False
    """The task begins with nothing: the agent's own tests, their coverage, and the code's structure count, too."""
    weights: Weights = Weights.model_construct()
    green_weights: GreenWeights = GreenWeights.model_construct()
    env: Env = Field(default_factory=dict)
    """`${NAME}` is taken from youBencha's environment. Without it, the commands get no secrets from there."""
    protected: GlobList = ()
    """Further files that are restored before tests that count."""
    reward: Line | None = None
    """File that `test_cmd` writes: a number from 0 to 1, or a flat JSON object with `reward` in it. It is the score of
    the tests, in place of what they report."""
    canary: Canary = "auto"
    """Test that must fail, added to check whether the test report can be trusted. `none` disables it."""

    @property
    def timeout_s(self) -> float:
        """Of each command."""
        return self.timeout_minutes * 60

    @property
    def score_weights(self) -> Weights | GreenWeights:
        return self.green_weights if self.greenfield else self.weights
