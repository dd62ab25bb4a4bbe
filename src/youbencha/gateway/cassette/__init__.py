"""Record the answers of a model's API and replay them, so that a run can be repeated offline."""
