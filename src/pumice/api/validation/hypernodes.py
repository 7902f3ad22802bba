"""HyperNodes: they have members, and their patterns are regular expressions."""

import re2

from pumice.api.topology import HyperNode, Member, MemberType
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.limits import TIER_MAX
from pumice.api.validation.names import dns_subdomain_problem
from pumice.api.validation.placement import check_selector
from pumice.api.validation.request import Request


def review_hyper_node(request: Request) -> Findings:
    """What is wrong with a HyperNode that is created or updated."""
    findings = Findings()
    node = findings.decode("", HyperNode, request.new)
    if node is None:
        return findings
    findings.within("spec.tier", node.spec.tier, 0, TIER_MAX)
    if not node.spec.members:
        findings.refuse("spec.members", "members must not be empty", "add at least one member")
    for index, member in enumerate(node.spec.members):
        _check_member(findings, f"spec.members[{index}]", member, node.metadata.name)
    return findings


def _check_member(findings: Findings, path: str, member: Member, owner: str) -> None:
    findings.choose(f"{path}.type", member.type, [kind.value for kind in MemberType])
    selector = member.selector
    options = {
        "exactMatch": selector.exact_match,
        "regexMatch": selector.regex_match,
        "labelMatch": selector.label_match,
    }
    where = f"{path}.selector"
    findings.only_one(where, [name for name, value in options.items() if value is not None], list(options))
    if selector.exact_match is not None:
        findings.name(f"{where}.exactMatch.name", selector.exact_match.name, dns_subdomain_problem)
        if member.type == MemberType.HYPER_NODE and selector.exact_match.name == owner:
            findings.warn(f"{where}.exactMatch.name", "a HyperNode that is its own member is left out of the topology")
    if selector.regex_match is not None:
        pattern = selector.regex_match.pattern
        if findings.require(f"{where}.regexMatch.pattern", pattern) and (cause := pattern_problem(pattern)):
            findings.refuse(
                f"{where}.regexMatch.pattern", cause, "write a pattern of RE2, for example ^node-[0-9]+$", pattern
            )
    check_selector(findings, f"{where}.labelMatch", selector.label_match)
    if selector.label_match is not None and member.type == MemberType.HYPER_NODE:
        findings.warn(f"{where}.labelMatch", "labels select nodes only, never HyperNodes; use exactMatch or regexMatch")


def pattern_problem(pattern: str) -> str:
    """Why the text is no regular expression of RE2, or an empty text."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0] if error.args else error
        return f"not a regular expression: {text.decode() if isinstance(text, bytes) else text}"
    return ""
