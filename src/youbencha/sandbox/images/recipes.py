"""The images that can be built, as a table, and where their material is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import youbencha
from youbencha.errors import YouBenchaError
from youbencha.text import did_you_mean

_PACKAGE = Path(youbencha.__file__).parent
_SHIPPED = Path(__file__).parent / "material"
_CHECKOUT = _PACKAGE.parents[1]
_PINNED = re.compile(r"^ARG AGENT_VERSION=(\S+)$", re.MULTILINE)
_BASE = re.compile(r"^ARG BASE_IMAGE=(\S+)$", re.MULTILINE)


class Recipe(NamedTuple):
    agent: str
    """As the toolbox names it; so are the directories of its Dockerfile and of its adapter."""
    command: str
    """What it is called inside."""
    tag: str

    @property
    def dockerfile(self) -> str:
        return _material(f"docker/{self.agent}/Dockerfile").read_text(encoding="utf-8")

    @property
    def adapter(self) -> Path:
        return _material(f"adapters/{self.agent}/adapter.sh")

    @property
    def pinned_version(self) -> str:
        return str(_PINNED.findall(self.dockerfile)[0])

    @property
    def base(self) -> str:
        return str(_BASE.findall(self.dockerfile)[0])


RECIPES = {
    recipe.agent: recipe
    for recipe in (
        Recipe("claude-code", "claude", "thunderdome/claude-code:latest"),
        Recipe("aider", "aider", "thunderdome/aider:latest"),
    )
}


def recipe_for(name: str) -> Recipe:
    if recipe := RECIPES.get(name):
        return recipe
    near = did_you_mean(name, RECIPES)
    known = f"There are: {', '.join(RECIPES)}."
    raise YouBenchaError(
        "IMAGE_UNKNOWN",
        f"no image is called {name!r}",
        hint=f"{near[0].upper()}{near[1:]} {known}" if near else known,
    )


def _material(name: str) -> Path:
    """In an installed package beside us; in a checkout where people look for it."""
    for root in (_SHIPPED, _CHECKOUT):
        if (path := root / name).is_file():
            return path
    raise YouBenchaError(
        "IMAGE_MATERIAL_MISSING",
        f"{name} is missing from this installation of youBencha",
        hint="Install youBencha again.",
    )
