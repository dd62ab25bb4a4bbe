"""Recorded exchanges with a model's API: a whole run again, offline, elsewhere, on another day."""

from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.model import Asking, Mismatch, Replay
from youbencha.gateway.cassette.session import CassetteSession

__all__ = ["Asking", "Cassette", "CassetteSession", "Mismatch", "Replay"]
