"""A pipeline made again from its links, on known records: in their order, each once, with all that changes them."""

from __future__ import annotations

from typing import Any

from bushel.checking.running import links
from bushel.checking.running.known_records import RecordFileSource, SlicedArrays, Source
from bushel.checking.running.links import Link

# Links that leave records as they are, and only choose, repeat, keep or reorder them.
CHOOSING = {
    "cache", "choose_from_datasets", "concatenate", "filter", "ignore_errors", "prefetch", "rejection_resample",
    "repeat", "sample_from_datasets", "shard", "shuffle", "skip", "snapshot", "take", "take_while", "unique",
    "with_options",
}  # fmt: skip
ENDLESS = {"range", "counter", "random"}
NOT_FOLLOWED = {"from_generator", "PyDataset", "generator", "bucket_by_sequence_length", "group_by_window", "load"}
_SETTINGS = {"num_parallel_calls", "deterministic", "name"}


class NotFollowed(Exception):
    """A pipeline that cannot be made again."""


class Replay:
    """One pipeline, and the sources that it begins with."""

    def __init__(self, link: Link, *, known: dict[tuple[str, ...], Source], whole: bool = False) -> None:
        self._is_whole = whole  # on all records of its own files
        self.sources: list[Source] = []
        self.known = known  # sources by their files: other pipelines have read them
        chain = links.chain_of(link.dataset)
        self._files = tuple(name for one in chain for name in one.files)
        self._last_batch = next((one for one in reversed(chain) if one.name in links.BATCHING), None)
        self.is_batched = self._last_batch is not None
        self.dataset = self._make(link, is_zipped=False)
        if not self.sources and not whole:
            raise NotFollowed(f"{link.name} does not begin with records")

    def _make(self, link: Link, *, is_zipped: bool) -> Any:
        import tensorflow as tf

        if link.name in NOT_FOLLOWED:
            raise NotFollowed(link.name)
        if self._is_whole and link.files:
            names = list(dict.fromkeys(link.files))
            packed = link.arguments.get("compression_type")
            is_reader = link.name == "TFRecordDataset"
            return tf.data.TFRecordDataset(names, packed) if is_reader else tf.data.Dataset.from_tensor_slices(names)
        if link.name == "TFRecordDataset":
            named = self._make(link.inputs[0], is_zipped=is_zipped) if link.inputs else [self._file().path]
            return tf.data.TFRecordDataset(named, link.arguments.get("compression_type"))
        if (link.files or link.name == "list_files") and not link.inputs:
            return tf.data.Dataset.from_tensors(self._file().path)
        if link.name == "from_tensor_slices" and not self._is_whole:
            return self._arrays(link)
        if link.name in ENDLESS or (self._is_whole and not link.inputs):
            return link.dataset
        if not link.inputs:
            raise NotFollowed(link.name)
        if link.name in CHOOSING and not (is_zipped and link.name in ("skip", "take")):
            return self._make(link.inputs[0], is_zipped=is_zipped)
        if link.name == "zip":
            return self._zip(link)
        return self._again(link, is_zipped=is_zipped)

    def _file(self) -> RecordFileSource:
        """The known records of the files that the pipeline reads, or those of an earlier pipeline."""
        source = self.known.get(("files",))
        if source is None:
            if not self._files:
                raise NotFollowed("a file whose name is not known")
            source = self.known[("files",)] = RecordFileSource(self._files)
        assert isinstance(source, RecordFileSource)
        if source not in self.sources:
            self.sources.append(source)
        return source

    def _arrays(self, link: Link) -> Any:
        source = self.known.setdefault((f"{link.id}",), SlicedArrays(link.arguments["tensors"]))
        assert isinstance(source, SlicedArrays)
        if source not in self.sources:
            self.sources.append(source)
        return source.dataset()

    def _zip(self, link: Link) -> Any:
        import tensorflow as tf

        given = [value for value in link.arguments.values() if any(True for _ in links.datasets_in(value))]
        whole = given[0] if len(given) == 1 else tuple(given)
        return tf.data.Dataset.zip(self._replaced(whole))

    def _replaced(self, value: Any) -> Any:
        """A structure of datasets, with each made again."""
        link = links.link_of(value)
        if link is not None:
            return self._make(link, is_zipped=True)
        if isinstance(value, dict):
            return {name: self._replaced(one) for name, one in value.items()}
        return tuple(self._replaced(one) for one in value)

    def _again(self, link: Link, *, is_zipped: bool) -> Any:
        before = self._make(link.inputs[0], is_zipped=is_zipped)
        left_out = _SETTINGS | ({"drop_remainder"} if link is self._last_batch else set())
        given = {name: value for name, value in link.arguments.items() if name not in left_out and value is not None}
        if self._is_whole and link.name == "interleave":
            return before.flat_map(given["map_func"])
        return getattr(before, link.name)(**given)
