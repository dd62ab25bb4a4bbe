"""The screen: watch a loop, a trial or a matrix of trials, and control it."""
