"""The project's own task suite, and an arena for it with scripted models."""
