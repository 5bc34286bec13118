"""Findings as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bushel.checking.findings import SEVERITIES, Finding, count_of_things
from bushel.checking.rules import Rule

__all__ = ["finding_lines", "page_text", "summary"]

SHOWN = 5

_COLOURS = {"error": "31;1", "warning": "33;1", "info": "36;1"}


def finding_lines(finding: Finding, *, colour: bool = False) -> Iterator[str]:
    """One finding: what, where, the proof, and behind them the help."""
    assert finding.severity is not None
    head = f"{finding.severity}[{finding.rule}]"
    if colour:
        head = f"\x1b[{_COLOURS[finding.severity]}m{head}\x1b[0m"
    yield f"{head} {finding.name}: {_printable(finding.message)}"
    examined = finding.evidence.get("examined")
    for place in finding.locations[:SHOWN]:
        yield f"  --> {_printable(str(place))}" + (
            f"  ({examined})" if examined and place is finding.locations[0] else ""
        )
    if len(finding.locations) > SHOWN:
        yield f"      and {len(finding.locations) - SHOWN:,} more places"
    yield from _code_lines(finding)
    shown = [f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in _evidence(finding) if value is not None]
    if shown:
        yield f"   = evidence: {'; '.join(shown)}"
    yield f"   = confidence: {finding.confidence}"
    for line in finding.help:
        yield f"help: {_printable(line)}"
    yield f"note: bushel explain {finding.rule}"


def _evidence(finding: Finding) -> Iterable[tuple[str, Any]]:
    hidden = ("code", "corrected", "examined", "subject")
    return ((name, value) for name, value in finding.evidence.items() if name not in hidden)


def _code_lines(finding: Finding) -> Iterator[str]:
    code = finding.evidence.get("code")
    if code is None:
        return
    number = str(finding.locations[0].line) if finding.locations else ""
    yield f"   {' ' * len(number)} |"
    yield f"   {number} | {_printable(code)}"
    corrected = finding.evidence.get("corrected")
    if corrected is not None:
        for i, line in enumerate(corrected.split("\n")):
            yield f"   {' ' * len(number)} {'+' if i == 0 else ' '} {_printable(line)}"


def _printable(text: str) -> str:
    """What a terminal can be given: data must not move the cursor."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        pairs = list(value.items())
        more = f" and {len(pairs) - 8:,} more" if len(pairs) > 8 else ""
        return ", ".join(f"{_printable(str(key))} {_plain(item)}" for key, item in pairs[:8]) + more
    if isinstance(value, list | tuple):
        more = f" and {len(value) - 8:,} more" if len(value) > 8 else ""
        return ", ".join(_plain(item) for item in value[:8]) + more
    return _printable(str(value))


def summary(findings: list[Finding], checked: dict[str, Any]) -> str:
    """The last line: what was found, and in what."""
    counts = {severity: sum(f.severity == severity for f in findings) for severity in reversed(SEVERITIES)}
    said = [count_of_things(count, name) for name, count in counts.items() if count]
    looked = [count_of_things(checked["records"], "record")] if checked.get("records") is not None else []
    if checked.get("files"):
        looked.append(count_of_things(len(checked["files"]), "file"))
    if checked.get("script"):
        looked.append(str(checked["script"]))
    if checked.get("model"):
        looked.append(str(checked["model"]))
    text = f"{', '.join(said) or 'nothing found'} in {', '.join(looked) or 'what was given'}"
    quiet = checked.get("suppressed", 0) + checked.get("baseline", 0)
    if quiet:
        text += f"; {checked['suppressed']} suppressed and {checked['baseline']} in the baseline are not shown"
    return text + ("; stopped before the end" if checked.get("stopped") else "")


def page_text(rule: Rule) -> str:
    """A rule's page."""
    page = rule.page
    lines = [f"{rule.id} {rule.name} ({rule.severity})", "", page.what]
    for name, body in page.sections.items():
        lines += ["", f"{name}:", *(f"  {line}" for line in body.split("\n"))]
    return "\n".join(lines)
