"""Pure privacy mathematics: arrays in, frozen dataclasses out. No I/O, no Ray, no Prefect.

The names of this package are supported: `docs/reference/compatibility.md` says for how long. Those
of the packages below it that are not listed here are for research and may change.
"""

import lazy_loader

# __init__.pyi lists what is here, for type checkers too; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
