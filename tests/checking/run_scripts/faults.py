"""Faults put into the correct scripts: what is replaced by what, and the rules of which one must find it.

The lines that count as the right place end with the mark `# <-`; without one, the replaced lines do.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    name: str
    script: str
    old: str
    new: str
    rules: str  # any of these


FAULTS = [
    Fault("feature_name", "kaggle_cnn", '"label": tf.io.FixedLenFeature([], tf.int64),\n    }', '"label": tf.io.FixedLenFeature([], tf.int64),\n        "width": tf.io.FixedLenFeature([], tf.int64),  # <-\n    }', "EXE003"),
    Fault("label_dtype", "keras_io_scratch", '            "label": tf.io.FixedLenFeature([], tf.int64),', '            "label": tf.io.FixedLenFeature([], tf.float32),  # <-', "EXE003"),
    Fault("wrong_length", "custom_loop", '"x": tf.io.FixedLenFeature([16], tf.float32),', '"x": tf.io.FixedLenFeature([12], tf.float32),  # <-', "EXE003"),
    Fault("wrong_reshape", "kaggle_cnn", "image = tf.reshape(image, [*IMAGE_SIZE, 3])", "image = tf.reshape(image, [28, 28, 3])  # <-", "EXE003"),
    Fault("input_of_another_size", "kaggle_cnn", "IMAGE_SIZE = [32, 32]", "IMAGE_SIZE = [32, 32]", ""),
    Fault("gzip_forgotten", "gzip_autoencoder", 'ds = (tf.data.TFRecordDataset(files, compression_type="GZIP")', "ds = (tf.data.TFRecordDataset(files)  # <-", "EXE003"),
    Fault("sparse_loss_for_one_hot", "keras_io_scratch", '    loss="categorical_crossentropy",', '    loss="sparse_categorical_crossentropy",  # <-', "EXE003 PIP043 PIP051"),
    Fault("too_few_outputs", "custom_train_step", "model = Classifier(5)", "model = Classifier(4)  # <-", "EXE003 PIP043 PIP051"),
    Fault("softmax_over_one", "text_lstm", '    Dense(1, activation="sigmoid"),', '    Dense(1, activation="softmax"),  # <-', "PIP043 PIP051"),
    Fault("logits_taken_for_probabilities", "sequence_examples", "    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),", "    loss=keras.losses.SparseCategoricalCrossentropy(),  # <-", "PIP044"),
    Fault("probabilities_taken_for_logits", "take_skip", "tf.keras.losses.SparseCategoricalCrossentropy()", "tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)", "PIP044"),
    Fault("logits_in_a_loop", "custom_loop", "loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)", "loss_fn = keras.losses.SparseCategoricalCrossentropy()  # <-", "PIP044"),
    Fault("never_scaled", "segmentation_dict", 'return {"picture": tf.cast(image, tf.float32) / 127.5 - 1.0}', 'return {"picture": tf.cast(image, tf.float32)}', "EXE030"),
    Fault("scaled_twice_by_a_layer", "keras_io_scratch", "    image = tf.cast(image, tf.float32)\n", "    image = tf.cast(image, tf.float32) / 255.0  # <-\n", "PIP041"),
    Fault("scaled_twice", "gzip_autoencoder", "    im.set_shape([32, 32, 1])\n    return im, im", "    im = im / 255.0  # <-\n    im.set_shape([32, 32, 1])\n    return im, im", "PIP041"),
    Fault("all_black", "gzip_autoencoder", "im = tf.image.convert_image_dtype(im, tf.float32)", "im = tf.cast(im // 255 // 2, tf.float32)  # <-", "EXE032"),
    Fault("repeat_without_steps", "kaggle_cnn", "    steps_per_epoch=STEPS_PER_EPOCH,\n", "", "PIP019"),
    Fault("out_of_data", "custom_train_step", "model.fit(load(\"train\"), validation_data=load(\"val\"), epochs=8)", "model.fit(load(\"train\"), validation_data=load(\"val\"), steps_per_epoch=560, epochs=8)  # <-", "PIP019"),
    Fault("shuffle_after_batch", "custom_train_step", 'return ds.shuffle(1000).batch(32) if split == "train" else ds.batch(32)', 'return ds.batch(32).shuffle(1000) if split == "train" else ds.batch(32)  # <-', "EXE020 PIP001"),
    Fault("small_buffer", "custom_train_step", "ds.shuffle(1000).batch(32)", "ds.shuffle(10).batch(32)", "EXE020 PIP013"),
    Fault("augmented_before_cache", "segmentation_dict", "raw.map(parse).cache().shuffle(600).map(augment).batch(16)", "raw.map(parse).map(augment).cache().shuffle(600).batch(16)", "EXE023"),
    Fault("augmented_validation", "kaggle_cnn", "    dataset = load_dataset(VALID_FILENAMES, ordered=ordered)\n", "    dataset = load_dataset(VALID_FILENAMES, ordered=ordered)\n    dataset = dataset.map(data_augment)  # <-\n", "PIP007"),
    Fault("cached_augmented_validation", "kaggle_cnn", "    dataset = dataset.batch(BATCH_SIZE)\n    dataset = dataset.cache()\n", "    dataset = dataset.map(data_augment).batch(BATCH_SIZE)  # <-\n", "PIP007"),
    Fault("reshuffled_split", "take_skip", "full = full.shuffle(560, seed=1, reshuffle_each_iteration=False)", "full = full.shuffle(560, seed=1)  # <-", "PIP003"),
    Fault("skip_forgotten", "take_skip", "train = full.skip(n_val).shuffle(500)", "train = full.shuffle(500)", "PIP018"),
    Fault("same_files", "keras_io_scratch", 'valid_dataset = get_dataset(tf.io.gfile.glob("tfrecords/val*.tfrecord"))', 'valid_dataset = get_dataset(tf.io.gfile.glob("tfrecords/train*.tfrecord"))  # <-', "PIP018"),
    Fault("validates_on_training", "transfer", "model.fit(train, validation_data=val, epochs=5)", "model.fit(train, validation_data=train, epochs=5)  # <-", "PIP018"),
    Fault("map_discarded", "gzip_autoencoder", "enc = K.Sequential([K.layers.Input((32, 32, 1))", "ds.map(lambda a, b: (a * 2.0, b))  # <-\nenc = K.Sequential([K.layers.Input((32, 32, 1))", "PIP010"),
    Fault("class_weight_from_one", "take_skip", "class_weight={0: 1.0, 1: 1.0, 2: 2.0, 3: 1.0, 4: 1.0}", "class_weight={1: 1.0, 2: 1.0, 3: 2.0, 4: 1.0, 5: 1.0}", "EXE036 EXE003"),
    Fault("monitor_unknown", "kaggle_cnn", 'es = EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True)', 'es = EarlyStopping(monitor="val_accuracy", patience=3, restore_best_weights=True)  # <-', "PIP054 EXE003"),
    Fault("rate_too_large", "sequence_examples", "    optimizer=keras.optimizers.Adam(1e-3),", "    optimizer=keras.optimizers.Adam(10.0),  # <-", "PIP053 EXE041"),
    Fault("schedule_too_fast", "keras_io_scratch", "    initial_learning_rate, decay_steps=200, decay_rate=0.96, staircase=True", "    initial_learning_rate, decay_steps=1, decay_rate=0.9, staircase=True  # <-", "PIP053"),
    Fault("all_frozen", "transfer", "model.compile(optimizer=tf.keras.optimizers.Adam(1e-3)", "model.trainable = False  # <-\nmodel.compile(optimizer=tf.keras.optimizers.Adam(1e-3)", "EXE040"),
    Fault("gradients_not_applied", "trainer_class", "        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))\n", "", "EXE050"),
    Fault("loss_outside_tape", "custom_loop", "        loss_value = loss_fn(y, logits)\n    grads = tape.gradient(loss_value, model.trainable_weights)\n", "        pass\n    loss_value = loss_fn(y, logits)  # <-\n    grads = tape.gradient(loss_value, model.trainable_weights)  # <-\n", "EXE039"),
    Fault("no_gradient_through_argmax", "trainer_class", "            loss = self.loss(y, pred)\n", "            loss = self.loss(y, tf.round(pred))  # <-\n", "EXE039"),
    Fault("training_forgotten", "custom_loop", "        logits = model(x, training=True)", "        logits = model(x)  # <-", "PIP045"),
    Fault("metric_never_reset", "custom_loop", "    train_acc_metric.reset_state()\n", "", "PIP056"),
    Fault("reset_states", "custom_loop", "    val_acc_metric.reset_state()\n", "    val_acc_metric.reset_states()  # <-\n", "EXE003 KER001"),
    Fault("loss_arguments_swapped", "trainer_class", "            loss = self.loss(y, pred)\n", "            loss = self.loss(y, pred)\n", ""),
    Fault("never_adapted", "take_skip", "norm.adapt(train.map(lambda x, y: x))\n", "", "PIP048"),
    Fault("vocabulary_too_small", "text_lstm", "VOCAB = 512", "VOCAB = 300  # <-", "EXE003"),
    Fault("batched_twice", "sequence_examples", "    return ds.prefetch(2)", "    return ds.batch(8).prefetch(2)  # <-", "EXE003 PIP008"),
    Fault("ragged_without_padding", "text_lstm", "    return ds.padded_batch(16, padded_shapes=([None], [1])).prefetch(1)", "    return ds.batch(16).prefetch(1)  # <-", "EXE003"),
    Fault("dropped_remainder", "take_skip", "shuffle(500).batch(20, drop_remainder=True)", "shuffle(500).batch(512, drop_remainder=True)", "EXE010 EXE013"),
    Fault("sequence_feature_in_context", "sequence_examples", 'FRAMES = {"frames": tf.io.FixedLenSequenceFeature([8], tf.float32)}', 'FRAMES = {"features": tf.io.FixedLenSequenceFeature([8], tf.float32)}  # <-', "EXE003"),
    Fault("numpy_random_in_map", "kaggle_cnn", "    image = tf.image.random_brightness(image, 0.1)\n", "    image = image + np.random.uniform(-0.1, 0.1)  # <-\n", "EXE023"),
    Fault("sorted_validation_split", "numpy_arrays", "model.fit(X_train, y_train, validation_split=0.1", "order = np.argsort(y_train)\nmodel.fit(X_train[order], y_train[order], validation_split=0.1", "EXE044"),
    Fault("undefined_name", "trainer_class", "        return parsed[\"x\"], parsed[\"target\"]", "        return features[\"x\"], parsed[\"target\"]  # <-", "EXE003"),
    Fault("weights_left_out", "custom_loop", "    grads = tape.gradient(loss_value, model.trainable_weights)\n    optimizer.apply_gradients(zip(grads, model.trainable_weights))", "    weights = model.layers[0].trainable_weights\n    grads = tape.gradient(loss_value, weights)  # <-\n    optimizer.apply_gradients(zip(grads, weights))", "EXE039"),
    Fault("iterator_used_up", "custom_loop", 'for epoch in range(epochs):\n    print(f"\\nStart of epoch {epoch}")\n    start_time = time.time()\n    for step, (x_batch_train, y_batch_train) in enumerate(train_ds):\n', "batches = iter(train_ds)  # <-\nfor epoch in range(epochs):\n    start_time = time.time()\n    for step in range(15):\n        x_batch_train, y_batch_train = next(batches)\n", "PIP019"),
    Fault("softmax_over_records", "custom_loop", "    layers.Dense(5),\n", "    layers.Dense(5),\n    layers.Softmax(axis=0),  # <-\n", "PIP044"),
    Fault("written_again", "writes_first", '    with tf.io.TFRecordWriter(os.path.join(OUT, f"{name}.tfrecord")) as w:\n        for i in rows:\n', '    for i in rows:\n        with tf.io.TFRecordWriter(os.path.join(OUT, f"{name}.tfrecord")) as w:  # <-\n', "PIP066"),
]

FAULTS = [fault for fault in FAULTS if fault.rules]
