"""Findings as people and other programs read them: text, JSON, SARIF, JUnit, GitHub and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bushel import __version__
from bushel.checking.findings import SEVERITIES, Finding, Rule, all_rules, count_of_things
from bushel.errors import printable

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


SHOWN = 5
_ROWS = 50  # of a table in a notebook

_COLOURS = {"error": "31;1", "warning": "33;1", "info": "36;1"}


def finding_lines(finding: Finding, *, colour: bool = False) -> Iterator[str]:
    """One finding: what, where, the proof, and then the help."""
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
        more = len(finding.locations) - SHOWN
        yield f"      and {more:,} more place{'s' * (more > 1)}"
    yield from _code_lines(finding)
    shown = [f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in _evidence(finding) if value is not None]
    if shown:
        yield f"   = evidence: {'; '.join(shown)}"
    yield f"   = confidence: {finding.confidence}"
    for line in finding.help:
        yield f"help: {_printable(line)}"
    yield f"note: bushel explain {finding.rule}"


def _evidence(finding: Finding) -> Iterable[tuple[str, Any]]:
    hidden = ("code", "corrected", "lines", "examined", "subject")
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
        yield from (f"   {' ' * len(number)} + {_printable(line)}" for line in corrected.split("\n"))


def _printable(text: str) -> str:
    return printable(text, form="line")


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
    followed = checked.get("followed") or {"not_understood": []}
    lost = followed["not_understood"]
    part = f"followed {followed['steps']} of {count_of_things(followed['of'], 'step')}" if lost else ""
    text = f"{', '.join(said) or part or 'nothing found'} in {', '.join(looked) or 'what was given'}"
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        text += f"{f'; {part}' if said else ''}; not understood: {', '.join(lost[:3])}{more}"
    quiet = checked.get("suppressed", 0) + checked.get("baseline", 0)
    if quiet:
        text += f"; {checked['suppressed']} suppressed and {checked['baseline']} in the baseline are not shown"
    if checked.get("run", {}).get("stopped"):
        text += "; the run was stopped at a limit, and not checked to its end"
    return text + ("; stopped before the end" if checked.get("stopped") else "")


def report_html(findings: list[Finding], checked: dict[str, Any]) -> str:
    """A table for notebooks."""
    cells = ("severity", "rule", "message", "where", "help")
    rows = [
        (f.severity, f"{f.rule} {f.name}", f.message, "; ".join(map(str, f.locations[:3])), "; ".join(f.help))
        for f in findings[:_ROWS]
    ]
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    head = "".join(f"<th>{cell}</th>" for cell in cells)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<p>{escape(summary(findings, checked))}</p>{table}"


def page_text(rule: Rule) -> str:
    """A rule's page."""
    page = rule.page
    lines = [f"{rule.id} {rule.name} ({rule.severity})", "", page.what]
    for name, body in page.sections.items():
        lines += ["", f"{name}:", *(f"  {line}" for line in body.split("\n"))]
    return "\n".join(lines)
