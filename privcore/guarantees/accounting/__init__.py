"""Accounting: the guarantee that a mechanism's parameters account for.

A mechanism is an immutable description of what was done to the data, like dp_accounting's
`DpEvent`. It answers `epsilon(delta)`, `renyi(orders)` and `privacy_loss()`, the dp_accounting
privacy loss distribution (PLD) from which compositions are counted, and states its neighbouring
relation. The answers are the cost of the *described* mechanism; whether the training really was
that mechanism is what an audit asks.
"""

import lazy_loader

# __init__.pyi lists what is here, for type checkers too; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
