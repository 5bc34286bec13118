import tensorflow as tf


class ShapesDataset:
    """Call it with a batch size to get a tf.data.Dataset of (image, label)."""

    FEATURES = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def __init__(self, pattern, image_size, shuffle=None):
        self.files = sorted(tf.io.gfile.glob(pattern))
        if not self.files:
            raise FileNotFoundError(pattern)
        self.image_size = image_size
        self.shuffle = shuffle

    def _parse(self, record):
        example = tf.io.parse_single_example(record, self.FEATURES)
        image = tf.io.decode_jpeg(example["image/encoded"], channels=3)
        image = tf.image.resize(image, (self.image_size, self.image_size)) / 255.0
        return image, example["image/class/label"]

    def __call__(self, batch_size):
        ds = tf.data.Dataset.from_tensor_slices(self.files)
        if self.shuffle:
            ds = ds.shuffle(len(self.files))
        ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=len(self.files))
        if self.shuffle:
            ds = ds.shuffle(self.shuffle)
        ds = ds.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)
