#!/bin/sh
# An agent that does nothing, to measure the cost of a run without one.
exit 0
