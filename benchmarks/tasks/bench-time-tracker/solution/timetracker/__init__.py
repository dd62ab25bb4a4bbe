"""A time tracker for the command line."""
