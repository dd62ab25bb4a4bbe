#!/bin/sh
# What the test case beside this names; it is not run by the tests.
