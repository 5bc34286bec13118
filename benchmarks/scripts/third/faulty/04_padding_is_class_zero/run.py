import tensorflow as tf

from tagger.config import Config
from tagger.data import load
from tagger.model import build


def main() -> None:
    tf.keras.utils.set_random_seed(11)
    cfg = Config()
    train, val = load(cfg.train, cfg, True), load(cfg.val, cfg, False)
    model = build(cfg)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(cfg.lr),
        loss="binary_crossentropy",
        metrics=[tf.keras.metrics.AUC(multi_label=True, num_labels=cfg.classes, name="auc"), "binary_accuracy"],
    )
    model.fit(train, validation_data=val, epochs=cfg.epochs, verbose=2)
    total = sum(t.numpy().sum(0) for _, t in val)
    print("positives per class:", total)


if __name__ == "__main__":
    main()
