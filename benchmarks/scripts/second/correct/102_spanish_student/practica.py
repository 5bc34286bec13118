# -*- coding: utf-8 -*-
# Práctica 3: clasificación de flores con una red convolucional
import tensorflow as tf

LADO = 64
LOTE = 25
EPOCAS = 4

# 1. Leer los datos ---------------------------------------------------------
formato = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}

def leer(registro):
    ejemplo = tf.io.parse_single_example(registro, formato)
    imagen = tf.io.decode_jpeg(ejemplo["image"], channels=3)
    imagen = tf.image.resize(imagen, [LADO, LADO]) / 255.0
    etiqueta = ejemplo["label"] - 1          # en el fichero van de 1 a 5
    return imagen, tf.one_hot(etiqueta, depth=5)

ficheros = tf.io.gfile.glob("data/flowers/train-*.tfrecord")
entrenamiento = tf.data.TFRecordDataset(ficheros).map(leer).shuffle(250).batch(LOTE).prefetch(1)
validacion = tf.data.TFRecordDataset(tf.io.gfile.glob("data/flowers/val-*.tfrecord")).map(leer).batch(LOTE)

# 2. Definir la red ---------------------------------------------------------
red = tf.keras.models.Sequential()
red.add(tf.keras.layers.Input(shape=(LADO, LADO, 3)))
red.add(tf.keras.layers.Conv2D(16, (5, 5), strides=3, activation="relu",
                               kernel_regularizer=tf.keras.regularizers.l2(1e-4)))
red.add(tf.keras.layers.Conv2D(32, (3, 3), strides=2, activation="relu"))
red.add(tf.keras.layers.Flatten())
red.add(tf.keras.layers.Dropout(0.3))
red.add(tf.keras.layers.Dense(5, activation="softmax"))
red.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["categorical_accuracy"])

# 3. Entrenar y evaluar -----------------------------------------------------
red.fit(entrenamiento, epochs=EPOCAS, validation_data=validacion, verbose=2)
perdida, acierto = red.evaluate(validacion, verbose=0)
print("acierto en validación: %.1f %%" % (100 * acierto))
