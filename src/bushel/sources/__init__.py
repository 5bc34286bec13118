"""Where samples come from.

Each function makes a source: a value that says what samples there are, and reads them in columns.
"""

from bushel.sources.detection import DetectionSource, boxes, coco, voc, yolo
from bushel.sources.hugging_face import huggingface
from bushel.sources.image_folders import ImageSource, images
from bushel.sources.in_memory import ArraySource, arrays
from bushel.sources.iterables import IterableSource, iterable
from bushel.sources.opening import open_source
from bushel.sources.protocol import Block, Listing, Refused, Source
from bushel.sources.record_files import RecordSource, records
from bushel.sources.series import SeriesSource, series
from bushel.sources.tables import TableSource, table
from bushel.sources.tars import TarSource, webdataset
from bushel.sources.texts import LineSource, TextFolderSource, text
from bushel.sources.tiles import TileSource, tiles
from bushel.sources.videos import VideoSource, video

__all__ = [
    "ArraySource",
    "Block",
    "DetectionSource",
    "ImageSource",
    "IterableSource",
    "LineSource",
    "Listing",
    "RecordSource",
    "Refused",
    "SeriesSource",
    "Source",
    "TableSource",
    "TarSource",
    "TextFolderSource",
    "TileSource",
    "VideoSource",
    "arrays",
    "boxes",
    "coco",
    "huggingface",
    "images",
    "iterable",
    "open_source",
    "records",
    "series",
    "table",
    "text",
    "tiles",
    "video",
    "voc",
    "webdataset",
    "yolo",
]
