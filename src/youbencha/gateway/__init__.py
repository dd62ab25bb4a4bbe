"""The gateway between agents and models, which meters, caps, records and replays requests."""
