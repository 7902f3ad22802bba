"""CEL, through the reference engine: rules of CRDs and match conditions of webhooks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import failures

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPRESSION_CHARS_MAX = 16_384
EXPRESSIONS_KEPT_MAX = 1_024


class CelError(Exception):
    """An expression that cannot be compiled or evaluated."""


@functools.cache
def _engine() -> Any:
    try:
        from cel_expr_python import cel
    except ImportError as error:  # no wheel for this machine
        raise failures.Failure(
            501,
            "NotImplemented",
            "this object has CEL rules, and the package cel-expr-python that evaluates them is not installed here; "
            "install it, or remove x-kubernetes-validations and matchConditions",
        ) from error
    return cel


@functools.cache
def _environment(names: tuple[str, ...]) -> Any:
    engine = _engine()
    extensions = []
    for module, factory in (("ext_strings", "ExtStrings"), ("ext_math", "ExtMath"), ("ext_optional", "ExtOptional")):
        try:
            loaded = __import__(f"cel_expr_python.ext.{module}", fromlist=[factory])
        except ImportError:
            continue
        extensions.append(getattr(loaded, factory)())
    return engine.NewEnv(variables=dict.fromkeys(names, engine.Type.DYN), extensions=extensions)


@functools.lru_cache(EXPRESSIONS_KEPT_MAX)
def compile_expression(text: str, names: tuple[str, ...]) -> Any:
    """A program over the named variables; CelError says what is wrong with the text."""
    if len(text) > EXPRESSION_CHARS_MAX:
        raise CelError(f"expression has {len(text)} characters, at most {EXPRESSION_CHARS_MAX}")
    environment = _environment(names)
    try:
        return environment.compile(text)
    except Exception as error:  # the binding raises bare exceptions of several types
        raise CelError(str(error)) from error


def evaluate(text: str, variables: Mapping[str, Any]) -> Any:
    """The plain value of an expression."""
    program = compile_expression(text, tuple(sorted(variables)))
    try:
        result = program.eval(data=dict(variables))
        value = result.plain_value()
    except Exception as error:
        raise CelError(str(error)) from error
    if result.type().name() == "ERROR":
        raise CelError(str(value))
    return value
