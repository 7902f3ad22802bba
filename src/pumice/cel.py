"""CEL, through the reference engine: rules of CRDs, match conditions of webhooks, selectors of devices."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXPRESSION_CHARS_MAX = 16_384
EXPRESSIONS_KEPT_MAX = 1_024


class CelError(BadInput):
    """An expression that cannot be compiled or evaluated here, and why."""


@functools.cache
def engine() -> Any:
    """The engine's module."""
    try:
        from cel_expr_python import cel
    except ImportError as error:  # no wheel for this machine
        raise CelError(
            "CEL expressions need the package cel-expr-python, which is not installed here; install it"
        ) from error
    return cel


def environment(variables: Sequence[str], *, functions: Sequence[Any] = (), bindings: bool = False) -> Any:
    """What an expression may refer to, beside Kubernetes' usual extensions; `bindings` adds cel.bind()."""
    cel = engine()
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings

    extensions = [ext_strings.ExtStrings(), ext_math.ExtMath(), ext_optional.ExtOptional()]
    if bindings:
        extensions.append(ext_bindings.ExtBindings())
    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN), extensions=extensions, functions=list(functions)
    )


def compile_in(where: Any, text: str, *, chars_max: int = EXPRESSION_CHARS_MAX) -> Any:
    """A program of an environment; CelError says what is wrong with the text."""
    if len(text) > chars_max:
        raise CelError(f"expression has {len(text)} characters, at most {chars_max}")
    try:
        return where.compile(text)
    except Exception as error:  # the binding raises bare exceptions of several types
        raise CelError(str(error)) from error


def run(program: Any, variables: Mapping[str, Any]) -> Any:
    """The plain value that a program has for these variables."""
    try:
        result = program.eval(data=dict(variables))
        value = result.plain_value()
    except Exception as error:
        raise CelError(str(error)) from error
    if result.type().name() == "ERROR":
        raise CelError(str(value))
    return value


_environment = functools.cache(environment)


@functools.lru_cache(EXPRESSIONS_KEPT_MAX)
def compile_expression(text: str, names: tuple[str, ...]) -> Any:
    """A program over the named variables, kept for the next question."""
    return compile_in(_environment(names), text)


def evaluate(text: str, variables: Mapping[str, Any]) -> Any:
    """The plain value of an expression."""
    return run(compile_expression(text, tuple(sorted(variables))), variables)
