"""The page of all rules, from their own docstrings: `python -m bushel.checking.report.pages > docs/checks.md`."""

from __future__ import annotations

import re
import sys

from bushel.checking.rules.registry import FAMILIES, Rule, all_rules

USE = """\
```console
$ bushel check data/                                  # a dataset, or anyone's TFRecords
$ bushel check 'data/train-*.tfrecord' --against 'data/val-*.tfrecord'
$ bushel check data/ --script train.py                # the pipeline code, read
$ bushel check data/ --script train.py --run          # and run for a few batches: see check-scripts.md
$ bushel check data/ --model run/model.keras --probe
$ bushel check data/ --contract run                   # prepared as the model was trained?
$ bushel schema data/ --pbtxt > schema.pbtxt          # as TFX and TensorFlow Data Validation write it
$ bushel check data/ --schema schema.pbtxt            # does the data follow it?
$ bushel check data/ --batch-size 32 --shuffle-buffer 1000
```

Every finding has evidence, a confidence (proven, likely or hint), a place and a fix. Exit codes: 0 for nothing at
`--fail-on` (default: error) or above, 1 for findings, 2 if the check could not run. `--select` and `--ignore` take rule
ids or their beginnings. `--json`, `--sarif`, `--junit` and `--github` print for programs.

Accept known findings, with a reason, in the `bushel.toml` of the working folder (and, with
`--trust-settings`, of the dataset):

```toml
[check]
ignore = ["IMG004"]
rules = ["our_rules.py"]          # custom rules: functions decorated with bushel.checking.rule
baseline = "check-baseline.json"  # old findings, written by --write-baseline

[[check.suppress]]
rule = "LBL005"
where = "train-*"                 # pattern of files or features; all, if left out
reason = "the classes are as rare as in the world"
```
"""


def rules_page() -> str:
    """All rules by family."""
    lines = [
        "# Checks",
        "",
        "Generated from the docstrings of the rules by `python -m bushel.checking.report.pages`.",
        "",
        USE,
    ]
    rules = [rule for rule in all_rules() if rule.id[:3] in FAMILIES]
    for name, family in FAMILIES.items():
        lines += [f"## {name}: {family.title}", ""]
        for rule in rules:
            if rule.id.startswith(name):
                lines += [*_rule_lines(rule), ""]
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
