"""What Kubernetes accepts as a name: each function tells why a text cannot be one, or returns an empty text."""

import re
from typing import Final

from pumice.selectors import SUBDOMAIN, label_key_problem, label_value_problem

__all__ = [
    "LABEL_CHARS_MAX",
    "SUBDOMAIN_CHARS_MAX",
    "data_key_problem",
    "dns_label_problem",
    "dns_subdomain_problem",
    "environment_problem",
    "label_key_problem",
    "label_value_problem",
    "port_name_problem",
    "qualified_name_problem",
    "service_name_problem",
]

LABEL_CHARS_MAX: Final = 63
SUBDOMAIN_CHARS_MAX: Final = 253
PORT_NAME_CHARS_MAX: Final = 15

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_ENVIRONMENT: Final = re.compile(r"[ -<>-~]+")  # printable ASCII without =

_ENDS: Final = "and starts and ends with a letter or digit"


def dns_label_problem(name: str) -> str:
    """As containers, volumes and hosts are named."""
    if len(name) <= LABEL_CHARS_MAX and _LABEL.fullmatch(name):
        return ""
    return f"a name here has 1 to {LABEL_CHARS_MAX} lower case letters, digits or '-', {_ENDS}"


def dns_subdomain_problem(name: str) -> str:
    """As most objects are named."""
    if len(name) <= SUBDOMAIN_CHARS_MAX and SUBDOMAIN.fullmatch(name):
        return ""
    return f"a name here has 1 to {SUBDOMAIN_CHARS_MAX} lower case letters, digits, '-' or '.', {_ENDS}"


def service_name_problem(name: str) -> str:
    """As Services are named."""
    if len(name) <= LABEL_CHARS_MAX and _SERVICE.fullmatch(name):
        return ""
    return f"a Service's name has 1 to {LABEL_CHARS_MAX} lower case letters, digits or '-', and starts with a letter"


def qualified_name_problem(name: str) -> str:
    """As jobs, resources and gates are named: `name` or `domain/name`."""
    if not label_key_problem(name):
        return ""
    return f"a name here has 1 to {LABEL_CHARS_MAX} letters, digits, '-', '_' or '.', {_ENDS}"


def port_name_problem(name: str) -> str:
    letters = any(character.isalpha() for character in name)
    if len(name) <= PORT_NAME_CHARS_MAX and _LABEL.fullmatch(name) and "--" not in name and letters:
        return ""
    return f"a port's name has 1 to {PORT_NAME_CHARS_MAX} lower case letters, digits or single '-', and a letter among them"


def environment_problem(name: str) -> str:
    return "" if _ENVIRONMENT.fullmatch(name) else "a variable's name has printable ASCII characters other than '='"


def data_key_problem(name: str) -> str:
    """As the entries of ConfigMaps and Secrets are named."""
    if len(name) <= SUBDOMAIN_CHARS_MAX and _DATA_KEY.fullmatch(name) and not name.startswith("..") and name != ".":
        return ""
    return f"a key here has 1 to {SUBDOMAIN_CHARS_MAX} letters, digits, '-', '_' or '.', and does not start with '..'"
