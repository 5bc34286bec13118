"""What a model was trained on, stored next to it, so that a server can prove that it feeds the same.

from bushel import contract

for difference in contract.verify("runs/cats", prepare=my_prepare, classes=my_classes):
    print(difference)
"""

from __future__ import annotations

from bushel.contract.document import CONTRACT_NAME, Contract, Golden, arrange, make, prepare, read, write
from bushel.contract.verifying import ServingDifference, verify
from bushel.feeding.preparation import Input, Preparation, as_array

__all__ = [
    "CONTRACT_NAME",
    "Contract",
    "Golden",
    "Input",
    "Preparation",
    "ServingDifference",
    "arrange",
    "as_array",
    "make",
    "prepare",
    "read",
    "verify",
    "write",
]


def __getattr__(name: str) -> object:
    if name == "Difference":
        raise AttributeError("bushel.contract.Difference is now bushel.contract.ServingDifference")
    raise AttributeError(f"module 'bushel.contract' has no attribute {name!r}")
