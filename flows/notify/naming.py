"""Names of an audit where people read it."""


def named(model: str, secret: str | None) -> str:
    """Return the model, and the secret that was tested if it is not the label."""
    return model if secret in {None, "label"} else f"{model} ({secret})"
