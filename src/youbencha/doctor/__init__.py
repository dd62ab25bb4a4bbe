"""Is everything here that a run needs? Looks, asks, and says how to mend what is missing."""

from youbencha.doctor.examination import DEADLINE_S, examine
from youbencha.doctor.finding import Diagnosis, Finding, State

__all__ = ["DEADLINE_S", "Diagnosis", "Finding", "State", "examine"]
