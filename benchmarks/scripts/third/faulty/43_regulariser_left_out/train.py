import tensorflow as tf

from features import load
from network import IncomeModel

if __name__ == "__main__":
    tf.keras.utils.set_random_seed(0)
    model = IncomeModel()
    model.compile(optimizer=tf.keras.optimizers.Adam(5e-3))
    model.fit(
        load("data/adult/train-*.tfrecord", 50, shuffle=True),
        validation_data=load("data/adult/val-*.tfrecord", 150),
        epochs=6,
        verbose=2,
    )
