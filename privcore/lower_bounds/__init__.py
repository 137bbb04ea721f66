"""Lower bounds: an attack's success says "the privacy loss is at least ..."."""

import lazy_loader

# __init__.pyi lists what is here, for type checkers too; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
