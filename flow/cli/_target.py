"""From `FILE_OR_MODULE:GRAPH` to a compiled graph."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard, TypeVar, cast

from ...compose import Runnable
from .errors import UsageError

T = TypeVar("T")

_EXAMPLE = "give FILE_OR_MODULE:GRAPH, for example docs/examples/text_report.py:graph"


def load_graph(target: str) -> Runnable[Any, Any]:
    """Load a graph and compile it if need be.

    Args:
        target: A Python file or an importable module, a colon, and the name of a graph in it: a builder, a
            compiled graph, an object whose `graph` is one, or a function without parameters that returns one.

    Returns:
        The compiled graph.

    Raises:
        UsageError: If there is no such file, module or graph, or it cannot be loaded.
        GraphCompileError: If the graph is wrong.
    """
    source, colon, name = target.rpartition(":")
    if not colon or not source or not name:
        raise UsageError(f"{target!r} is no target: {_EXAMPLE}")
    module = _load_file(source) if _is_path(source) else _load_module(source)
    return _compiled(_find(module, source, name), name)


def _is_path(source: str) -> bool:
    """Tell a file from a module."""
    return source.endswith(".py") or "/" in source or "\\" in source or Path(source).is_file()


def _load_file(source: str) -> ModuleType:
    """Run a Python file as a module, with its folder on the path, as `python FILE` does."""
    path = Path(source)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"the file {source!r} {what}: {_EXAMPLE}")
    name = f"_anabranch_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{source!r} is no Python file: {_EXAMPLE}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module  # type hints of the file's classes are looked up there
    execute = spec.loader.exec_module
    _guarded(lambda: execute(module), source)
    return module


def _load_module(source: str) -> ModuleType:
    """Import a module, one of the current folder too."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return _guarded(lambda: importlib.import_module(source), source)
    except ModuleNotFoundError as error:
        if error.name is None or not (source == error.name or source.startswith(error.name + ".")):
            raise UsageError(f"{source!r} cannot be imported: {error}") from error
        hint = f"; did you mean the file {source + '.py'!r}?" if Path(source + ".py").is_file() else ""
        raise UsageError(f"there is no module {source!r}{hint or ': ' + _EXAMPLE}") from error


def _guarded(load: Callable[[], T], source: str) -> T:
    """Run somebody's module, and say where it fails."""
    try:
        with redirect_stdout(sys.stderr):  # what the module prints is no part of what was asked for
            return load()
    except SyntaxError as error:
        raise UsageError(f"{source!r} is no valid Python, line {error.lineno}: {error.msg}") from error
    except ModuleNotFoundError as error:
        if _is_path(source):
            raise UsageError(f"{source!r} cannot be loaded: {error}") from error
        raise
    except SystemExit as error:
        raise UsageError(f"{source!r} cannot be loaded: it ends the program (sys.exit({error.code!r}))") from error
    except Exception as error:
        raise UsageError(f"{source!r} cannot be loaded: {type(error).__name__}: {error}") from error


def _find(module: ModuleType, source: str, name: str) -> Any:
    """Find the graph by its name, which may have dots."""
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise UsageError(f"there is no {name!r} in {source!r}{_suggest(module, name)}") from None
    return value


def _suggest(module: ModuleType, name: str) -> str:
    """Name what was perhaps meant: a graph before anything else."""
    public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    graphs = [key for key, value in public.items() if _graph_in(value) is not None]
    near = get_close_matches(name, graphs, n=3, cutoff=0.4) or get_close_matches(name, list(public), n=3)
    if near:
        return f"; did you mean {' or '.join(repr(key) for key in near)}?"
    return f"; its graphs: {', '.join(sorted(graphs)[:5])}" if graphs else "; it has no graph"


def _compiled(value: Any, name: str) -> Runnable[Any, Any]:
    """Compile what was found, calling it first if it is a function that makes a graph."""
    graph = _graph_in(value)
    if graph is None and callable(value):
        try:
            value = value()
        except TypeError as error:
            raise UsageError(f"{name!r} is no graph and cannot be called without arguments: {error}") from error
        graph = _graph_in(value)
    if graph is None:
        raise UsageError(
            f"{name!r} is {_article(type(value).__name__)}, not a graph; name a Graph, a compiled graph, "
            "or a function without parameters that returns one"
        )
    return graph if _is_compiled(graph) else cast("Runnable[Any, Any]", graph.compile())


def _graph_in(value: Any) -> Any:
    """Give a value as a graph, compiled or not, or what it wraps; `None` if it is none."""
    if isinstance(value, type):
        return None
    for candidate in (value, getattr(value, "graph", None)):
        if _is_compiled(candidate) or callable(getattr(candidate, "compile", None)):
            return candidate
    return None


def _is_compiled(value: Any) -> TypeGuard[Runnable[Any, Any]]:
    return isinstance(value, Runnable)


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
