"""Weak and strong augmentation of images for FixMatch, computed by JAX.

Sohn et al. 2020 (arXiv:2001.07685), with the values of the code that "Antipodes of Label
Differential Privacy" publishes. Both take a key and pixels: neither can see a label.
"""

from typing import Any

from workers.training.networks import the_jax

OPERATIONS = 2
"""Operations of RandAugment on one image (Cubuk et al. 2020), each applied with probability 1/2."""
LEVELS = 10
"""An operation's strength is drawn from 1 to 9 tenths of its largest."""
_PADDING, _CUT = 0.125, 0.5  # shares of the side
_GREY = 127 / 255
_SHARPENED = ((1.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 1.0))
_GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
_INTENSITY = (
    "identity", "autocontrast", "brightness", "color", "contrast", "posterize", "sharpness",
    "solarize",
)  # fmt: skip
NAMES = _GEOMETRIC + _INTENSITY
"""The paper's pool but for equalising histograms."""


def weakly(key: Any, images: Any, *, flips: bool) -> Any:
    """Return each image moved by up to an eighth of its side, and mirrored with probability 1/2.

    Args:
        key: of JAX.
        images: shape (images, side, side, channels), 0 to 1.
        flips: whether a mirrored image is of the same class; of digits it is not.
    """
    jax = the_jax()
    np = jax.numpy
    side, padding = images.shape[1], round(_PADDING * images.shape[1])
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)), "reflect")
    moved, mirrored = jax.random.split(key)
    starts = jax.random.randint(moved, (len(images), 2), 0, 2 * padding + 1)

    def cropped(image: Any, start: Any) -> Any:
        return jax.lax.dynamic_slice(image, (start[0], start[1], 0), (side, side, image.shape[2]))

    found = jax.vmap(cropped)(padded, starts)
    if not flips:
        return found
    turned = jax.random.bernoulli(mirrored, 0.5, (len(images), 1, 1, 1))
    return np.where(turned, found[:, :, ::-1], found)


def strongly(key: Any, images: Any, *, flips: bool) -> Any:
    """Return images after `weakly`, two operations of RandAugment and a grey square.

    Args: as `weakly`.
    """
    jax = the_jax()
    first, *rounds, cut = jax.random.split(key, OPERATIONS + 2)
    found = weakly(first, images, flips=flips)
    for each in rounds:
        place, strength, sign, used = jax.random.split(each, 4)
        many = len(images)
        kinds = jax.random.randint(place, (many,), 0, len(NAMES))
        levels = jax.random.randint(strength, (many,), 1, LEVELS)
        signs = jax.random.rademacher(sign, (many,))
        changed = jax.vmap(operated)(found, kinds, levels, signs)
        applied = jax.random.bernoulli(used, 0.5, (many, 1, 1, 1))
        found = jax.numpy.where(applied, changed, found)
    return _cut(cut, found)


def operated(image: Any, kind: Any, level: Any, sign: Any) -> Any:
    """Return one image after an operation.

    Args:
        image: shape (side, side, channels), 0 to 1.
        kind: place in `NAMES`.
        level: 1 to 9, tenths of the largest strength.
        sign: -1 or 1, the direction of a geometric operation.
    """
    np = the_jax().numpy
    turned = _transformed(image, kind, level / LEVELS, sign)
    parts = [turned, *_intensities(image, level)]
    return np.stack(parts)[np.maximum(kind - len(_GEOMETRIC) + 1, 0)]


def _transformed(image: Any, kind: Any, share: Any, sign: Any) -> Any:
    """Return an image turned, sheared or moved: the nearest pixel of each place, black outside."""
    np = the_jax().numpy
    side = image.shape[0]
    signed = share * sign
    angle = np.deg2rad(-30.0 * signed)
    cos, sin = np.cos(angle), np.sin(angle)
    middle = side / 2.0
    moved = np.trunc(signed * 0.3 * side)
    rows = np.array([
        [cos, sin, middle - cos * middle - sin * middle,
         -sin, cos, middle + sin * middle - cos * middle],
        [1.0, 0.3 * signed, 0.0, 0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0, 0.3 * signed, 1.0, 0.0],
        [1.0, 0.0, moved, 0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 1.0, moved],
    ])  # fmt: skip
    xx, xy, x0, yx, yy, y0 = rows[np.minimum(kind, len(_GEOMETRIC) - 1)]
    centers = np.arange(side) + 0.5
    x, y = centers[None, :], centers[:, None]
    from_x = np.floor(xx * x + xy * y + x0).astype(int)
    from_y = np.floor(yx * x + yy * y + y0).astype(int)
    inside = (from_x >= 0) & (from_x < side) & (from_y >= 0) & (from_y < side)
    found = image[np.clip(from_y, 0, side - 1), np.clip(from_x, 0, side - 1)]
    return np.where(inside[..., None], found, 0.0)


def _intensities(image: Any, level: Any) -> list[Any]:
    """Return an image after each operation of `_INTENSITY`, in that order."""
    np = the_jax().numpy
    factor = 0.9 * level / LEVELS + 0.05
    lowest, highest = image.min(axis=(0, 1)), image.max(axis=(0, 1))
    flat = highest <= lowest
    contrasted = (image - lowest) / np.where(flat, 1.0, highest - lowest)
    weights = np.array([1.0]) if image.shape[2] == 1 else np.array([0.299, 0.587, 0.114])
    grey = np.broadcast_to((image @ weights)[..., None], image.shape)
    smooth = _smoothed(image)
    kept = np.left_shift(1, 4 - 4 * level // LEVELS)
    return [
        image,
        np.where(flat, image, contrasted),
        factor * image,
        grey + factor * (image - grey),
        grey.mean() + factor * (image - grey.mean()),
        np.floor(np.round(image * 255.0) / kept) * kept / 255.0,
        smooth + factor * (image - smooth),
        np.where(np.round(image * 255.0) >= 256 - 256 * level // LEVELS, 1.0 - image, image),
    ]


def _smoothed(image: Any) -> Any:
    """Return an image whose inner pixels are means of their neighbourhood."""
    np = the_jax().numpy
    side = image.shape[0]
    added = sum(
        weight * image[down : side - 2 + down, right : side - 2 + right]
        for down, row in enumerate(_SHARPENED)
        for right, weight in enumerate(row)
    )
    return np.asarray(image).at[1:-1, 1:-1].set(added / sum(map(sum, _SHARPENED)))


def _cut(key: Any, images: Any) -> Any:
    """Return images with a grey square of half their side, cut off at the border."""
    jax = the_jax()
    np = jax.numpy
    side = images.shape[1]
    centers = jax.random.uniform(key, (len(images), 2, 1), maxval=side)
    starts = np.floor(np.maximum(centers - _CUT * side / 2.0, 0.0))
    places = np.arange(side)
    within = (places >= starts) & (places <= np.minimum(starts + _CUT * side, side))
    square = within[:, 0, :, None] & within[:, 1, None, :]
    return np.where(square[..., None], _GREY, images)
