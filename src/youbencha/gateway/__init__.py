"""The gateway between agents and models: it meters, caps, records and replays their requests."""
