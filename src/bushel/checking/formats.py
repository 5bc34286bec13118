"""Findings as other programs read them."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bushel import __version__
from bushel.checking.findings import Finding
from bushel.checking.rules import Rule, all_rules

__all__ = ["to_github", "to_json", "to_junit", "to_sarif"]

_SARIF_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def to_json(findings: list[Finding], checked: dict[str, Any]) -> dict[str, Any]:
    """The shape that programs rely on."""
    return {"findings": [finding.to_json() for finding in findings], "checked": checked}


def to_sarif(findings: list[Finding]) -> dict[str, Any]:
    """SARIF 2.1.0, which code hosts show beside the code."""
    rules = {rule.id: rule for rule in all_rules()}
    used = [rules[id] for id in sorted({finding.rule for finding in findings}) if id in rules]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "bushel", "version": __version__, "rules": [_sarif_rule(r) for r in used]}},
                "results": [_sarif_result(finding) for finding in findings],
            }
        ],
    }


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    page = rule.page
    help = "\n\n".join(f"{name}: {body}" for name, body in page.sections.items())
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": page.what},
        "help": {"text": help or page.what},
    }


def _sarif_result(finding: Finding) -> dict[str, Any]:
    text = "\n".join([finding.message, *finding.help])
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": _SARIF_LEVELS[finding.severity or "info"],
        "message": {"text": text},
        "partialFingerprints": {"bushel/v1": finding.fingerprint},
    }
    places = []
    for place in finding.locations:
        if place.file is None:
            continue
        physical: dict[str, Any] = {"artifactLocation": {"uri": place.file}}
        if place.line is not None:
            physical["region"] = {"startLine": place.line, "startColumn": place.column or 1}
        elif place.byte is not None:
            physical["region"] = {"byteOffset": place.byte}
        places.append({"physicalLocation": physical})
    return result | ({"locations": places} if places else {})


def to_junit(findings: list[Finding], rules: list[Rule]) -> str:
    """JUnit XML: one test for each rule that was run."""
    by_rule: dict[str, list[Finding]] = {rule.id: [] for rule in rules}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    names = {rule.id: rule.name for rule in rules}
    failures = sum(any(f.severity == "error" for f in found) for found in by_rule.values())
    cases = "".join(_junit_case(id, names.get(id, id), found) for id, found in sorted(by_rule.items()))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites><testsuite name="bushel check" tests="{len(by_rule)}" failures="{failures}">\n'
        f"{cases}</testsuite></testsuites>"
    )


def _junit_case(id: str, name: str, found: list[Finding]) -> str:
    head = f"  <testcase classname={quoteattr(id[:3])} name={quoteattr(f'{id} {name}')}"
    if not found:
        return f"{head}/>\n"
    bodies = []
    for finding in found:
        tag = "failure" if finding.severity == "error" else "system-out"
        places = "\n".join(str(place) for place in finding.locations[:5])
        text = _xml("\n".join([finding.message, places, *finding.help]))
        message = f" message={quoteattr(_xml(finding.message, escaped=False))}" if tag == "failure" else ""
        bodies.append(f"    <{tag}{message}>{text}</{tag}>\n")
    return f"{head}>\n{''.join(bodies)}  </testcase>\n"


def _xml(text: str, *, escaped: bool = True) -> str:
    clean = "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
    return escape(clean) if escaped else clean


def to_github(findings: list[Finding]) -> list[str]:
    """Workflow commands, which GitHub turns into annotations."""
    lines = []
    for finding in findings:
        place = finding.locations[0] if finding.locations else None
        where = ""
        if place is not None and place.file is not None:
            where = f" file={_github(place.file.partition(':cell ')[0], ',:')}"
            if place.line is not None:
                where += f",line={place.line},col={place.column or 1}"
        title = f"{',' if where else ' '}title={_github(f'{finding.rule} {finding.name}', ',:')}"
        body = _github("\n".join([finding.message, *finding.help]), "")
        lines.append(f"::{_GITHUB_LEVELS[finding.severity or 'info']}{where}{title}::{body}")
    return lines


def _github(text: str, also: str) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    for char in also:
        text = text.replace(char, f"%{ord(char):02X}")
    return text
