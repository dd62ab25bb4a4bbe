"""Aider is one of the other agents: their bench is its bench."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "other_agents"))
