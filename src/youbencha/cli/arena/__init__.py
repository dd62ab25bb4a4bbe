"""The commands of `thunderdome` and `yb bench`."""
