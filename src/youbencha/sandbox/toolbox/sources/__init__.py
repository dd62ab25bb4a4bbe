"""How to fetch an agent by each kind of recipe."""

from __future__ import annotations

from youbencha.sandbox.toolbox.recipes import Npm, Recipe, Venv, Wheel
from youbencha.sandbox.toolbox.sources.base import Fetcher, Release
from youbencha.sandbox.toolbox.sources.npm import NpmFetcher
from youbencha.sandbox.toolbox.sources.venv import VenvFetcher
from youbencha.sandbox.toolbox.sources.wheel import WheelFetcher

__all__ = ["Fetcher", "Release", "fetcher_for"]


def fetcher_for(recipe: Recipe) -> Fetcher:
    match recipe:
        case Wheel():
            return WheelFetcher(recipe)
        case Npm():
            return NpmFetcher(recipe)
        case Venv():
            return VenvFetcher(recipe)
