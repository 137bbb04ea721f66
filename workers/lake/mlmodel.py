"""Flavors of a registered model, as its file MLmodel lists them.

Any user who may register a model writes MLmodel, in YAML. 562 bytes of merged aliases take 44 s and
1.7 GB to read. So a contained child reads it, as text alone, and refuses aliases and merges.
"""

from workers.contained import Contained, ContainedError
from workers.lake import limits

_DEEPEST = 50
"""Lists within lists; each level makes the scanner slower."""


class UnreadableMLmodelError(Exception):
    """A file MLmodel lists no flavors; `why` completes "MLmodel cannot be read: ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def read_flavors(content: bytes) -> dict[str, str | None]:
    """Return the name of each flavor's model file; None of a flavor that names none.

    Raises:
        UnreadableMLmodelError: it is no YAML with flavors, has aliases or merges, or takes too long
            or too much memory.
    """
    try:
        flavors: dict[str, str | None] | None = _contained(content)
    except ContainedError as error:
        why = "it is not YAML" if error.kind == "raised" else f"reading it {error.why}"
        raise UnreadableMLmodelError(why) from None
    if flavors is None:
        raise UnreadableMLmodelError("it lists no flavors, or has aliases, merges or deep lists")
    return flavors


def parse(content: bytes) -> dict[str, str | None] | None:
    """Return the flavors' files; runs in the contained child.

    None: there are no flavors, or there is an alias or a merge, or lists are nested too deeply.
    """
    import yaml  # noqa: PLC0415  # for a registry's models alone

    depth = 0
    for event in yaml.parse(content, Loader=yaml.BaseLoader):
        if isinstance(event, yaml.AliasEvent):
            return None
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<":
            return None
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            return None
    # BaseLoader makes text, lists and dictionaries, and calls nothing.
    document = yaml.BaseLoader(content).get_single_data()
    flavors = document.get("flavors") if isinstance(document, dict) else None
    if not isinstance(flavors, dict):
        return None
    return {str(name): _file_of(flavor) for name, flavor in flavors.items()}


def _file_of(flavor: object) -> str | None:
    data = flavor.get("data") if isinstance(flavor, dict) else None
    return data if isinstance(data, str) else None


_contained = Contained(
    f"{__name__}:{parse.__name__}",
    seconds=limits.MLMODEL_SECONDS,
    memory=limits.MLMODEL_MEMORY_BYTES,
    fork=True,
)
