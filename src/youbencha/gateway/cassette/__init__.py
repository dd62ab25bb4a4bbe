"""Recorded exchanges with a model's API: a whole run again, offline, elsewhere, on another day."""

from __future__ import annotations
