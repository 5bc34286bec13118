import argparse

import tensorflow as tf

from vec_data import WIDTH, load


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch", type=int, default=20)
    args = ap.parse_args()
    train, val = load("train", args.batch), load("val", 100)
    model = tf.keras.Sequential(
        [tf.keras.Input((WIDTH,)), tf.keras.layers.Dense(24, activation="relu"), tf.keras.layers.Dense(3, activation="softmax")]
    )
    optimizer = tf.keras.optimizers.AdamW(1e-2, weight_decay=1e-3, use_ema=True, ema_momentum=0.9)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        train,
        validation_data=val,
        epochs=args.epochs,
        # evaluates the averaged weights and swaps back for training
        callbacks=[tf.keras.callbacks.SwapEMAWeights(swap_on_epoch=False)],
        verbose=2,
    )
    print("with the averaged weights:", model.evaluate(val, verbose=0))


if __name__ == "__main__":
    main()
