"""What an audit is called where people read it."""


def named(model: str, secret: str | None) -> str:
    """Return the model, and what of its records was told where that is not the label."""
    return model if secret in {None, "label"} else f"{model} ({secret})"
