"""Cluster pictures by colour histograms. No network is trained; labels only describe the clusters afterwards."""
import numpy as np
import tensorflow as tf
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler


def features(rec):
    e = tf.io.parse_single_example(rec, {"image": tf.io.FixedLenFeature([], tf.string),
                                         "label": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(e["image"], channels=3), tf.float32)
    hsv = tf.image.rgb_to_hsv(image)
    strong = tf.boolean_mask(hsv, hsv[..., 1] > 0.45)        # pixels with a clear colour
    hue = tf.histogram_fixed_width(strong[:, 0], [0.0, 1.0], nbins=12)
    hue = tf.cast(hue, tf.float32) / tf.maximum(tf.cast(tf.shape(strong)[0], tf.float32), 1.0)
    return tf.ensure_shape(hue, [12]), e["label"]


ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/flowers/*.tfrecord"))).map(features)
X, y = map(np.array, zip(*ds.as_numpy_iterator()))
X = StandardScaler().fit_transform(X)

for k in (3, 5, 7):
    km = KMeans(k, n_init=5, random_state=0).fit(X)
    print(f"k={k}: silhouette {silhouette_score(X, km.labels_):.3f}, agreement with labels {adjusted_rand_score(y, km.labels_):.3f}")
