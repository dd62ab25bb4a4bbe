"""Images that contain an agent, instead of a CLI that is mounted from the toolbox. Start at `build.py`."""
