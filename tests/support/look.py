"""Screenshots held against approved ones, coarsely: letters differ a little between machines."""

import io
import pathlib

import numpy as np
from PIL import Image, ImageFilter

WIDTH = 200
"""Approved pictures are kept at this width, in sixteen greys."""

BLOCK = 8
MOST_ANYWHERE = 45.0
"""Most mean difference of grey (0 to 255) of any block of 8 x 8 pixels."""
MOST_OVERALL = 4.0
"""Most mean difference of grey overall."""
MOST_TALLER = 0.02
"""Most relative difference of height."""


def reduced(screenshot: bytes) -> Image.Image:
    """Return a screenshot as it is kept."""
    picture = Image.open(io.BytesIO(screenshot)).convert("L")
    height = round(picture.height * WIDTH / picture.width)
    return picture.resize((WIDTH, height), Image.Resampling.BOX).quantize(16).convert("L")


def differences(screenshot: bytes, approved: pathlib.Path) -> str:
    """Return what differs from the approved picture, "" if nothing that a reader would notice.

    Where there is none yet, the screenshot becomes it, and that is said: look at it first.
    """
    seen = reduced(screenshot)
    if not approved.exists():
        approved.parent.mkdir(exist_ok=True)
        seen.quantize(16).save(approved, optimize=True)
        return f"{approved.name} was not there and is now: look at it, and commit it if it is right"
    wanted = Image.open(approved).convert("L")
    taller = abs(seen.height - wanted.height) / wanted.height
    if taller > MOST_TALLER:
        return f"{approved.name}: {seen.height} pixels high instead of {wanted.height}"
    height = min(seen.height, wanted.height)
    blurred = [
        np.asarray(p.filter(ImageFilter.GaussianBlur(2)), dtype=float)[:height]
        for p in (seen, wanted)
    ]
    difference = np.abs(blurred[0] - blurred[1])
    rows, columns = height // BLOCK, WIDTH // BLOCK
    blocks = difference[: rows * BLOCK, : columns * BLOCK].reshape(rows, BLOCK, columns, BLOCK)
    worst = blocks.mean(axis=(1, 3)).max()
    if worst > MOST_ANYWHERE or difference.mean() > MOST_OVERALL:
        return (
            f"{approved.name}: greys differ by {difference.mean():.1f} overall and {worst:.0f} in "
            "one place; delete it and run again to approve the new look"
        )
    return ""
