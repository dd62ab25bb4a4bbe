"""The `sandbox` section of a test case."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from youbencha.spec.sandbox import Sandbox, SandboxSpec

WRITTEN: TypeAdapter[SandboxSpec] = TypeAdapter(Sandbox)
GIB = 1024**3


def test_the_short_form_is_the_type() -> None:
    assert WRITTEN.validate_python("docker") == SandboxSpec(type="docker")
    assert SandboxSpec().type == "local"


@pytest.mark.parametrize(
    ("written", "size"),
    [("4g", 4 * GIB), ("512m", GIB // 2), ("1.5 GiB", 3 * GIB // 2), ("1TB", 1024 * GIB), (2 * GIB, 2 * GIB)],
)
def test_sizes(written: object, size: int) -> None:
    assert WRITTEN.validate_python({"type": "docker", "memory": written}).memory == size


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("podman", "type"),
        ({"type": "docker", "memory": "much"}, "memory"),
        ({"type": "docker", "memory": "4k"}, "memory"),
        ({"type": "docker", "cpus": 0}, "cpus"),
        ({"type": "docker", "network": "internet"}, "network"),
        ({"type": "docker", "pids": 3}, "pids"),
        ({"type": "docker", "home": "own"}, "home"),
        ({"type": "docker", "allowlist": ["pypi.org"], "network": "open"}, "allowlist"),
        ({"type": "docker", "allowlist": ["pypi.org"], "network": "none"}, "allowlist"),
        ({"type": "docker", "allowlist": ["https://pypi.org"]}, "allowlist"),
        ({"type": "docker", "allowlist": ["pypi.org", "a b"]}, "allowlist"),
        ({"type": "docker", "allowlist": ["pypi.org:0"]}, "allowlist"),
        ({"type": "docker", "allowlist": ["pypi.org:70000"]}, "allowlist"),
        ({"type": "docker", "allowlist": ["*"]}, "allowlist"),
        ({"type": "local", "allowlist": ["pypi.org"]}, "allowlist"),
        ({"image": "node:20"}, "image"),
        ({"type": "local", "network": "open"}, "network"),
        ({"type": "docker", "imag": "x"}, "imag"),
    ],
)
def test_contradictions_are_reported(written: object, where: str) -> None:
    with pytest.raises(ValidationError) as raised:
        WRITTEN.validate_python(written)
    error = raised.value.errors()[0]
    assert where in (*error["loc"], str(error["msg"]).split(" ")[0]) or where in str(error)


@pytest.mark.parametrize(
    ("stronger", "weaker", "merged"),
    [
        ({"type": "docker"}, {"type": "docker", "image": "mine", "pids": 99}, {"image": "mine", "pids": 99}),
        ({"type": "docker", "image": "his"}, {"type": "docker", "image": "mine"}, {"image": "his"}),
        ({"type": "docker"}, {"type": "local", "home": "own"}, {"image": None, "home": "auto"}),
    ],
)
def test_unset_values_come_from_the_settings(
    stronger: dict[str, Any], weaker: dict[str, Any], merged: dict[str, Any]
) -> None:
    spec = SandboxSpec(**stronger).merged_over(SandboxSpec(**weaker))
    assert {name: getattr(spec, name) for name in merged} == merged
    assert spec.type == "docker"
