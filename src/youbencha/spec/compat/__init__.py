"""Translations of configuration files of the original programs."""
