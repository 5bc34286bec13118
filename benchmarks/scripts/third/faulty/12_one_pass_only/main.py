import argparse
import logging

from textcat.network import router
from textcat.pipeline import eval_dataset, train_dataset

RECORDS = 400
log = logging.getLogger("textcat")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    train = train_dataset("data/tokens/train-*.tfrecord", args.batch_size)
    val = eval_dataset("data/tokens/val-*.tfrecord", args.batch_size)
    model = router()
    model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        train,
        epochs=args.epochs,
        steps_per_epoch=RECORDS // args.batch_size,
        validation_data=val,
        verbose=2,
    )
    log.info("validation: %s", model.evaluate(val, verbose=0, return_dict=True))


if __name__ == "__main__":
    main()
