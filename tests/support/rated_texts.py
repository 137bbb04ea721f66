"""Made-up texts in the archive within an archive of vaderSentiment's source distribution."""

import io
import pathlib
import tarfile

import numpy as np

FILES = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")
INNER = "additional_resources/hutto_ICWSM_2014.tar.gz"


def packed(files: dict[str, bytes]) -> bytes:
    """Return an archive of these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def write_distribution(path: pathlib.Path, lines: dict[str, list[str]]) -> pathlib.Path:
    """Write the distribution; each file's lines are id, rating and text, tabs between them."""
    inner = packed(
        {
            f"hutto_ICWSM_2014/{name}_GroundTruth.txt": "".join(f"{line}\r\n" for line in each)
            .encode()
            for name, each in lines.items()
        }
    )  # fmt: skip
    path.write_bytes(packed({f"vaderSentiment-3.3.2/{INNER}": inner}))
    return path


def made_up(texts: int, seed: int) -> dict[str, list[str]]:
    """Return rated texts of 8 words; a third of the words tell the sentiment, three times of four.

    One in ten is neutral.
    """
    random = np.random.default_rng(seed)
    lines: dict[str, list[str]] = {name: [] for name in FILES}
    for number in range(texts):
        sign = random.choice([-1, 1])
        leaning = np.where(random.random(8) < 0.75, sign, -sign)
        words = [
            f"{'good' if lean > 0 else 'bad'}{random.integers(40)}"
            if random.random() < 1 / 3
            else f"word{random.integers(2_000)}"
            for lean in leaning
        ]
        rating = 0.25 * sign if random.random() < 0.1 else sign * random.uniform(0.5, 4.0)
        lines[FILES[number % 4]].append(f"{number}\t{rating}\t{' '.join(words)}")
    return lines
