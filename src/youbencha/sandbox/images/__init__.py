"""Images that bring an agent along, instead of a CLI that is mounted from the toolbox. Start at `build.py`."""
