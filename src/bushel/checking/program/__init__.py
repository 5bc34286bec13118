"""The account of a program: what it is given, by whatever means, and how that is known."""

from bushel.checking.program.account import CodePlace, DeliveredColumn, DeliveredData, DeliveredPart

__all__ = ["CodePlace", "DeliveredColumn", "DeliveredData", "DeliveredPart"]
