"""All of bushel's own rules: importing this registers them."""

from bushel.checking import files, images, labels, layout, order, splits, values, wording

__all__ = ["files", "images", "labels", "layout", "order", "splits", "values", "wording"]
