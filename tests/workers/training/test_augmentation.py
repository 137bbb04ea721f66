"""Augmented images: each operation is Pillow's, and chance alone decides which."""

from functools import partial

import jax
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from workers.training.augmentation import NAMES, operated, strongly, weakly

SIDE = 16
OPERATED = jax.jit(operated)


def picture(seed, channels=3):
    """An image of whole 8-bit values, as Pillow has it and as networks do."""
    pixels = np.random.default_rng(seed).integers(20, 230, (SIDE, SIDE, channels)).astype(np.uint8)
    return Image.fromarray(pixels.squeeze()), (pixels / 255.0).astype(np.float32)


def naive(image, name, level, sign):
    """The operation of the published code, by Pillow."""
    share = level / 10
    factor = 0.9 * share + 0.05
    affine = {
        "shear_x": (1, 0.3 * share * sign, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, 0.3 * share * sign, 1, 0),
        "translate_x": (1, 0, int(0.3 * share * SIDE) * sign, 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, int(0.3 * share * SIDE) * sign),
    }
    if name in affine:
        return image.transform(image.size, Image.Transform.AFFINE, affine[name])
    return {
        "identity": lambda: image,
        "rotate": lambda: image.rotate(30 * share * sign),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "color": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "posterize": lambda: ImageOps.posterize(image, int(level * 4 / 10) + 4),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
    }[name]()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_an_operation_is_pillow_s(name, channels):
    """Within 3 of 255, but for the few pixels that rounding takes from a neighbour."""
    for seed, (level, sign) in enumerate([(1, 1), (5, -1), (9, 1)]):
        known, image = picture(seed, channels)
        found = np.asarray(OPERATED(image, NAMES.index(name), level, sign)) * 255.0
        expected = np.asarray(naive(known, name, level, sign), dtype=float).reshape(image.shape)
        assert (np.abs(found - expected) <= 3.0).mean() >= 0.97, (level, sign)
    if name != "identity" and not (channels == 1 and name == "color"):
        assert np.abs(found - image * 255.0).max() > 0.9


@pytest.mark.slow
def test_weak_augmentation_moves_within_an_eighth_of_the_side_and_mirrors_half():
    """4,000 times the same image: 5 x 5 places, each as likely; mirrored or not."""
    _, image = picture(5, 1)
    many = np.repeat(image[None], 4_000, axis=0)
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), "reflect")
    places = {
        padded[down : down + SIDE, right : right + SIDE].tobytes(): (down, right)
        for down in range(5)
        for right in range(5)
    }
    plain = np.asarray(weakly(jax.random.key(1), many, flips=False))
    _, counts = np.unique([places[each.tobytes()] for each in plain], axis=0, return_counts=True)
    assert len(counts) == 25
    assert counts.min() > 100  # 160, standard deviation 12
    flipped = np.asarray(weakly(jax.random.key(2), many, flips=True))
    kept = sum(each.tobytes() in places for each in flipped)
    assert 1_800 < kept < 2_200
    assert all(
        each.tobytes() in places or np.ascontiguousarray(each[:, ::-1]).tobytes() in places
        for each in flipped
    )


@pytest.mark.slow
def test_strong_augmentation_has_a_grey_square_and_stays_an_image():
    _, image = picture(6)
    many = np.repeat(image[None], 500, axis=0)
    augment = jax.jit(partial(strongly, flips=True))
    found = np.asarray(augment(jax.random.key(3), many))
    assert found.shape == many.shape
    assert found.min() >= 0.0
    assert found.max() <= 1.0
    grey = np.isclose(found, 127 / 255).all(axis=3)
    # A centre in a corner leaves a quarter of the square: (4/16)^2, a whole one (9/16)^2.
    assert grey.mean(axis=(1, 2)).min() >= 1 / 16
    assert grey.mean(axis=(1, 2)).max() < 0.4
    assert len({each.tobytes() for each in found}) > 490
    assert (found == np.asarray(augment(jax.random.key(3), many))).all()
