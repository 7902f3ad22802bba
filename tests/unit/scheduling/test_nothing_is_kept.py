"""What one cycle needs goes with it."""

import ast
import pathlib

import pumice

CACHES = {"cache", "lru_cache"}


def caching_methods(source):
    """Methods under a cache that belongs to their class: it keeps every instance, and all that hangs on one, for ever."""
    for cls in (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ClassDef)):
        for method in (each for each in cls.body if isinstance(each, ast.FunctionDef)):
            words = {name for each in method.decorator_list for name in ast.unparse(each).replace("(", ".").split(".")}
            if words & CACHES and method.args.args and method.args.args[0].arg == "self":
                yield f"{cls.name}.{method.name}"


def test_a_cache_on_a_method_is_found():
    source = "class A:\n    @functools.cache\n    def f(self): ...\n    @lru_cache(8)\n    def g(self): ...\n    def h(self): ..."
    assert list(caching_methods(source)) == ["A.f", "A.g"]


def test_no_cache_of_a_class_keeps_its_instances():
    """One on a plugin's method kept each cycle's session: half a megabyte a second with 800 gangs."""
    files = pathlib.Path(pumice.__file__).parent.rglob("*.py")
    assert [(path.name, each) for path in files for each in caching_methods(path.read_text())] == []
