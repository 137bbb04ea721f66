"""Flavors of a registered model, as its file MLmodel lists them.

Any user who may register a model writes MLmodel, in YAML: a contained child reads it, as text.
"""

from typing import NamedTuple

from workers.contained import Contained, ContainedError
from workers.lake import limits

_NULL = {"", "~", "null", "Null", "NULL"}


class UnreadableMLmodelError(Exception):
    """A file MLmodel lists no flavors; `why` completes "MLmodel cannot be read: ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Flavor(NamedTuple):
    """One flavor: its model file, by which module MLflow loads it, and a folder of code beside it.

    None where it names none. That folder comes first where Python looks for modules.
    """

    data: str | None
    loader: str | None = None
    code: str | None = None


def read_flavors(content: bytes) -> dict[str, Flavor]:
    """Return what each flavor names.

    Raises:
        UnreadableMLmodelError: it is no YAML with flavors, or takes too long or too much memory.
    """
    try:
        flavors: dict[str, list[str | None]] | None = _contained(content)
    except ContainedError as error:
        why = "it is not YAML" if error.kind == "raised" else f"reading it {error.why}"
        raise UnreadableMLmodelError(why) from None
    if flavors is None:
        raise UnreadableMLmodelError("it lists no flavors")
    return {name: Flavor(*named) for name, named in flavors.items()}


def parse(content: bytes) -> dict[str, Flavor] | None:
    """Return what the flavors name, None where there are none; runs in the contained child."""
    import yaml  # noqa: PLC0415  # for a registry's models alone

    # BaseLoader makes text, lists and dictionaries, and calls nothing.
    document = yaml.BaseLoader(content).get_single_data()
    flavors = document.get("flavors") if isinstance(document, dict) else None
    if not isinstance(flavors, dict):
        return None
    return {str(name): _named(flavor) for name, flavor in flavors.items()}


def _named(flavor: object) -> Flavor:
    said = flavor if isinstance(flavor, dict) else {}
    words = (said.get(key) for key in ("data", "loader_module", "code"))
    # Without its types, YAML's null is a word.
    return Flavor(
        *(word if isinstance(word, str) and word not in _NULL else None for word in words)
    )


_contained = Contained(
    f"{__name__}:{parse.__name__}",
    seconds=limits.MLMODEL_SECONDS,
    memory=limits.MLMODEL_MEMORY_BYTES,
    fork=True,
)
