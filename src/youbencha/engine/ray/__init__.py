"""Run attempts on a Ray cluster."""
