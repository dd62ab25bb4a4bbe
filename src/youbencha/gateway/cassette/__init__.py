"""Record answers of a model's API and replay them: a whole run again, offline, elsewhere, on another day."""
