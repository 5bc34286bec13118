"""Where samples come from.

Each function makes a source: a value that says what samples there are, and reads them in columns.
"""

from bushel.sources.array_source import ArraySource, arrays
from bushel.sources.detection.boxed_images import DetectionSource, annotated, boxes, coco, voc, yolo
from bushel.sources.image_folder import ImageSource, images
from bushel.sources.image_tiles import TileSource, tiles
from bushel.sources.in_memory import IterableSource, iterable
from bushel.sources.mask_folder import MaskSource, masks
from bushel.sources.opening import open_source
from bushel.sources.protocol import Block, Listing, Reads, Refused, Source
from bushel.sources.record_files import RecordSource, elwc, records
from bushel.sources.sound_files import AudioSource, audio
from bushel.sources.tables.row_sources import RowSource, sql
from bushel.sources.tables.spreadsheets import excel
from bushel.sources.tables.table import TableSource, huggingface, table
from bushel.sources.tars import TarSource, webdataset
from bushel.sources.text_files import LineSource, TextFolderSource, text
from bushel.sources.time_series import SeriesSource, series
from bushel.sources.video_files import VideoSource, video

__all__ = [
    "ArraySource",
    "AudioSource",
    "Block",
    "DetectionSource",
    "ImageSource",
    "IterableSource",
    "LineSource",
    "Listing",
    "MaskSource",
    "Reads",
    "RecordSource",
    "Refused",
    "RowSource",
    "SeriesSource",
    "Source",
    "TableSource",
    "TarSource",
    "TextFolderSource",
    "TileSource",
    "VideoSource",
    "annotated",
    "arrays",
    "audio",
    "boxes",
    "coco",
    "elwc",
    "excel",
    "huggingface",
    "images",
    "iterable",
    "masks",
    "open_source",
    "records",
    "series",
    "sql",
    "table",
    "text",
    "tiles",
    "video",
    "voc",
    "webdataset",
    "yolo",
]
