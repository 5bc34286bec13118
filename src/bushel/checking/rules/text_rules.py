"""TXT: text and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bushel.checking.collect.facts import Data
from bushel.checking.report.findings import Finding, count_of_things
from bushel.checking.rules.registry import rule
from bushel.data.schema import BYTES_KIND

__all__: list[str] = []


@rule("TXT001", "bad-utf8", needs=("values", "texts"))
def bad_utf8(data: Data) -> Iterator[Finding]:
    """Text that is not UTF-8, in some records or in all.

    Why: `UnicodeDecodeError` in the middle of a run, or replacement characters that the vocabulary does not know.
    Example: one file in Latin-1 among files in UTF-8.
    Fix: decode it with its own encoding when writing, and encode it as UTF-8.
    Ignore: for bytes that are not text.
    Reports: https://github.com/tensorflow/models/issues/8655 https://github.com/IBM/tensorflow-hangul-recognition/issues/39
    """
    for feature in data.features.values():
        count, look = feature.seen["not_text"][0], data.looks.get(feature.name)
        is_text = feature.is_text or (look is not None and look.not_utf8 >= 0.5 * min(count, look.looked_at))
        if count and is_text and feature.kind == BYTES_KIND and not feature.is_image:
            yield Finding(
                f"{feature.name!r}: {count:,} of {count_of_things(feature.seen['values'], 'value')} "
                f"{'is' if count == 1 else 'are'} not UTF-8 text",
                locations=data.locations(feature.seen["not_text"], feature.name),
                evidence={
                    "measured": count,
                    "expected": 0,
                    "as_latin_1": look.example if look is not None and look.example else None,
                    "examined": data.examined(),
                },
                help=["decode these values with their own encoding where they are written, and encode them as UTF-8"],
            )


@rule("TXT002", "empty-text", severity="warning", needs="values")
def empty_text(data: Data) -> Iterator[Finding]:
    """Text without a character in some records.

    Why: a label without an input: the model learns to guess the label of nothing.
    Example: reviews whose body was only an image.
    Fix: leave such samples out.
    Ignore: for features that may be empty, such as a title.
    Reports: none collected; the idea is Data Linter's (empty example).
    """
    for feature in data.features.values():
        count = feature.seen["empty"][0]
        if feature.is_text and count:
            yield Finding(
                f"{feature.name!r} is empty in {count_of_things(count, 'record')}",
                severity="info" if count < 0.001 * feature.total else None,
                locations=data.locations(feature.seen["empty"], feature.name),
                evidence={"measured": count, "expected": 0, "examined": data.examined()},
                help=["leave these records out"],
            )


def _of_tokens(name: str, seen: dict[str, Any], measured: str, message: str, help: str) -> Finding:
    examined = f"{seen['rows']:,} sequences"
    evidence = {"measured": seen[measured], "examined": examined, "subject": name}
    return Finding(message, confidence="likely", evidence=evidence, help=[help])


@rule("TXT003", "all-unknown-tokens", severity="warning", needs="values")
def all_unknown_tokens(data: Data) -> Iterator[Finding]:
    """Sequences in which every token is the same one: the one for unknown words.

    Why: the vocabulary was fitted to something else (another language, another case), and nothing of the text is left.
    Example: a vocabulary of lower-case words applied to capitals: all 1.
    Fix: fit the vocabulary on the train split, after the same clean-up.
    Ignore: where single sequences are really foreign.
    Reports: https://github.com/tensorflow/skflow/issues/135
    """
    for name, seen in data.tokens.items():
        if seen["all_same"] > 0.01 * seen["rows"]:
            message = (
                f"{name!r}: {seen['all_same']:,} of {seen['rows']:,} sequences hold only token {seen['same_token']}"
            )
            yield _of_tokens(name, seen, "all_same", message, "fit the vocabulary on the train split of this very text")


@rule("TXT004", "sequences-cut-off", severity="info", needs="values")
def sequences_cut_off(data: Data) -> Iterator[Finding]:
    """How many sequences are as long as the longest, and so were probably cut.

    Why: what comes after the cut is never seen; if most are cut, the length is too short.
    Example: a maximum of 128 tokens for texts of 500.
    Fix: a larger maximum, or pieces of each text.
    Ignore: where the beginning says enough.
    Reports: none collected.
    """
    for name, seen in data.tokens.items():
        if seen["full"] > 0.2 * seen["rows"] and seen["padded"] + seen["shorter"] > 0:
            message = f"{name!r}: {seen['full'] / seen['rows']:.0%} of the sequences fill all {seen['width']} places"
            yield _of_tokens(name, seen, "full", message, "use a larger maximum length, or cut texts into pieces")


@rule("TXT005", "padding-is-a-token", severity="warning", needs="values")
def padding_is_a_token(data: Data) -> Iterator[Finding]:
    """The number that pads sequences also stands for a token inside them.

    Why: a mask hides the real token, and a model without one takes padding for words. Index arithmetic with lookup
    tables does this: the unknown token gets the number of the first word.
    Example: `StaticVocabularyTable` ids, and `padded_batch`, which pads with 0.
    Fix: put the padding and the unknown token into the vocabulary, at 0 and 1.
    Ignore: where 0 is a separator that is meant to be masked.
    Reports: https://github.com/tensorflow/docs/pull/2260
    """
    for name, seen in data.tokens.items():
        if seen["padded"] > 0 and seen["inner_zeros"] > 0.01 * seen["rows"]:
            message = f"{name!r}: 0 pads {seen['padded']:,} sequences and is a token inside {seen['inner_zeros']:,}"
            yield _of_tokens(
                name, seen, "inner_zeros", message, "keep 0 for padding: put [PAD] and [UNK] into the vocabulary"
            )


@rule("TXT006", "misread-text", severity="warning", needs="texts")
def misread_text(data: Data) -> Iterator[Finding]:
    """Text that was decoded with the wrong encoding and written as UTF-8, or that has lost characters.

    Some of the texts of every file are looked at. Text counts as misread if it can be turned back.

    Why: words with an accent become rare nonsense that no vocabulary knows, and no error says so.
    Example: `caf\u00c3\u00a9` for `caf\u00e9`: UTF-8 that was read as Latin-1.
    Fix: read the source with its own encoding: `open(path, encoding="utf-8")`.
    Ignore: for texts about encodings.
    Reports: none collected.
    """
    for name, look in data.looks.items():
        if look.misread:
            shown = "; ".join(f"{found!r} for {meant!r}" for found, meant in look.misread_as[:3])
            yield Finding(
                f"{name!r}: {look.misread:,} of {count_of_things(look.looked_at, 'text')} misread: {shown}",
                severity="info" if look.misread < max(2, 0.001 * look.looked_at) else None,
                confidence="likely",
                locations=[data.location(place, name) for place in look.misread_places],
                evidence={"measured": look.misread, "expected": 0, "examined": f"{look.looked_at:,} texts"},
                help=['read the source with encoding="utf-8", and write it again'],
            )
