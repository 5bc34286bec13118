"""Text files, one folder a class, to a classifier: a vocabulary learned by the build, and padded batches.

python examples/text_classifier.py        needs: pip install "bushel[tensorflow]"

The texts are the documentation of Python's own modules: which of two families does a sentence come from?
"""

import email
import email.message
import inspect
import math
import statistics
import tempfile
from pathlib import Path

import bushel
from bushel import transforms as t
from bushel.training import Options

FAMILIES = {"mail": [email, email.message], "numbers": [math, statistics]}


def write_texts(folder: Path) -> None:
    """One file for each documented function or method."""
    for family, modules in FAMILIES.items():
        (folder / family).mkdir(parents=True)
        texts = set()
        for module in modules:
            for _, value in inspect.getmembers(module):
                texts.add(inspect.getdoc(value) or "")
                if inspect.isclass(value):
                    texts |= {inspect.getdoc(member) or "" for _, member in inspect.getmembers(value)}
        for number, text in enumerate(sorted(text for text in texts if len(text) > 40)):
            (folder / family / f"{number:03}.txt").write_text(text)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-texts-") as name:
        folder = Path(name)
        write_texts(folder / "texts")
        bushel.build(
            str(folder / "texts"),
            folder / "data",
            transforms=[t.clean("text", lower=True), t.tokenise("text", size=2000)],
            split="70/30",
            stratify="label",
        )
        words = bushel.open(folder / "data").schema["text"].describe()
        print(f"the text is now {words}")
        trained = bushel.train(
            folder / "data", Options(epochs=12, batch_size=16, learning_rate=0.005), out=folder / "run"
        )
        print(trained.verdict.summary)
        assert trained.verdict.learned


if __name__ == "__main__":
    main()
