"""What bushel is compared with, and bushel itself, each used as its own documentation says."""

import os
from unittest import mock

from google.protobuf.descriptor_pool import DescriptorPool

# TensorFlow reads these when it is first imported, which the modules of this package do.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # unused here, and it announces itself

# vahidk's tfrecord declares the message types of TensorFlow under the same names: with a pool of their own, both can
# run in one process.
with mock.patch("google.protobuf.descriptor_pool.Default", DescriptorPool):
    import tfrecord  # noqa: F401

VAHIDK_TYPES = {"float32": "float", "int64": "int", "bytes": "byte"}
