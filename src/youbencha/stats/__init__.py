"""Intervals for the means of scores. All functions are pure."""
