"""The one way to the model."""
