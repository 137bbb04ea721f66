"""Names of an audit where people read it."""

from privcore.lower_bounds.secret import Secret


def named(model: str, secret: str) -> str:
    """Return the model, and the secret that was tested if it is not the label."""
    return model if secret == Secret.LABEL else f"{model} ({secret})"
