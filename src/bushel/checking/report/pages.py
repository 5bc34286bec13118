"""The page of all rules, from their own docstrings: `python -m bushel.checking.report.pages > docs/checks.md`."""

from __future__ import annotations

import re
import sys

from bushel.checking.rules.registry import FAMILIES, Rule, all_rules

__all__ = ["rules_page"]

# Rows of the collected failures that need a model, training steps or the serving path, and what finds them.
LATER = (
    ("L24", "labels one too large for the head", "LBL001 and PIP051; MDL003 with `--model`"),
    ("L27, L28", "never batched, batched twice", "PIP009, PIP008"),
    ("L29", "one-hot beside numbers", "PIP043; MDL002 with `--model`"),
    ("S12", "random layers without `training=True`", "PIP046, PIP045"),
    ("S13", "scaled twice, once inside the model", "PIP041; MDL001 with `--model`; TRN003 with `--probe`"),
    (
        "S16",
        "`preprocess_input` left out",
        "MDL001 with `--model`, for the applications of its table; else TRN001 and TRN002",
    ),
    ("S17", "logits taken for probabilities", "PIP044; MDL002 with `--model`; TRN002 with `--probe`"),
    ("S18", "accuracy stays at 1/K", "PIP043, MDL002; a metric of one's own: TRN002"),
    ("S21", "class lists that differ", "LBL002 between splits; SRV002 with `--contract`"),
    (
        "S23",
        "BGR in one path, RGB in the other",
        "IMG007 between splits; at serving `bushel.contract.verify` with the serving function",
    ),
    (
        "S25",
        "another resize at serving",
        "SRV001 for decoders and versions; `bushel.contract.verify` names the kernel of a serving function; none "
        "before training: the serving path is not part of the data",
    ),
    ("S26", "test normalised by itself", "SPL007, PIP049; SRV004 with `--contract`"),
    ("S28", "Normalization never adapted", "PIP048; MDL005 with `--model`"),
    ("S29", "vocabulary fitted again at inference", "SRV004 with `--contract`; TXT003 shows its effect in data"),
    ("S31", "padding counted as right", "MDL007 with `--model`"),
    ("S33", "BatchNormalization on batches of one", "PIP011; MDL006 with `--model`; TRN004 with `--probe`"),
)


USE = """\
```console
$ bushel check data/                                  # a dataset, or anyone's TFRecords
$ bushel check 'data/train-*.tfrecord' --against 'data/val-*.tfrecord'
$ bushel check data/ --script train.py                # the pipeline code, read and never run
$ bushel check data/ --model run/model.keras --probe
$ bushel check data/ --contract run                   # prepared as the model was trained?
$ bushel check data/ --batch-size 32 --shuffle-buffer 1000
```

A finding has evidence, a confidence (proven, likely, hint), a place, and help apart from the fact. Exit: 0 nothing at
`--fail-on` (default error) or above, 1 findings, 2 could not check. `--select` and `--ignore` take ids or how they
begin. `--json`, `--sarif`, `--junit` and `--github` print for programs.

What is known and accepted is suppressed, with a reason, in `bushel.toml` of the working folder or of the dataset:

```toml
[check]
ignore = ["IMG004"]
rules = ["our_rules.py"]          # own rules: functions decorated with bushel.checking.rule
baseline = "check-baseline.json"  # old findings, written by --write-baseline

[[check.suppress]]
rule = "LBL005"
where = "train-*"                 # pattern of files or features; all, if left out
reason = "the classes are as rare as in the world"
```
"""


def rules_page() -> str:
    """All rules by family, then what only a model or training can show."""
    lines = [
        "# Checks",
        "",
        "Written from the rules' own docstrings by `python -m bushel.checking.report.pages`.",
        "",
        USE,
    ]
    rules = [rule for rule in all_rules() if rule.id[:3] in FAMILIES]
    for name, family in FAMILIES.items():
        lines += [f"## {name}: {family.title}", ""]
        for rule in rules:
            if rule.id.startswith(name):
                lines += [*_rule_lines(rule), ""]
    lines += ["## What a model, training or serving shows", "", "| row | failure | found by |", "|---|---|---|"]
    lines += [f"| {row} | {failure} | {found} |" for row, failure, found in LATER]
    return "\n".join(lines) + "\n"


def _rule_lines(rule: Rule) -> list[str]:
    page = rule.page
    lines = [f"### {rule.id} {rule.name}", "", f"*{rule.severity}.* {page.what}", ""]
    for name, body in page.sections.items():
        text = re.sub(r"(https?://\S+)", r"<\1>", body)
        lines.append(f"* **{name}**: {text}")
    return lines


if __name__ == "__main__":
    sys.stdout.write(rules_page())
