"""The originals' files, in our spelling."""
