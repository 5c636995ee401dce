"""Compute a parsed expression, exactly on whole numbers, within limits that keep it instant.

Each operation that could make something huge (power, factorial, rounding, a chain of products) is
checked *before* it is done. What passes is bounded: a whole number never has more than `MAX_DIGITS`
digits.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ._expression import MAX_NESTING, parse_expression
from .errors import CalculationError

Number: TypeAlias = int | float

MAX_DIGITS = 1000
"""Most digits of a whole number, in a result or on the way there."""
_MAX_BITS = int(MAX_DIGITS * math.log2(10))


class _Function(NamedTuple):
    call: Callable[..., Number]
    least: int
    most: int | None


def evaluate(expression: str) -> Number:
    """Compute an arithmetic expression.

    Args:
        expression: Numbers, `+ - * / // % **` (or `^`), parentheses, functions and constants.

    Returns:
        The value: an `int` where the mathematics is exact, else a `float`.

    Raises:
        CalculationError: If the text is no arithmetic, has no real value, or goes beyond a limit.

    Example:
        >>> evaluate("(312 * 46) + 2280")
        16632
    """
    tree = parse_expression(expression, FUNCTIONS, CONSTANTS)
    return _compute(tree, 0)


def format_number(value: Number) -> str:
    """Write a number for a reader: whole numbers in full, others with at most 15 digits.

    Args:
        value: A finite number.

    Returns:
        The digits, without a trailing `.0`.
    """
    if isinstance(value, float) and not (value.is_integer() and abs(value) < 1e15):
        return format(value, ".15g")
    return str(int(value))


def _compute(node: ast.expr, depth: int) -> Number:
    """Compute one node; long sums and products are walked without going deeper."""
    if depth > MAX_NESTING:
        raise CalculationError(f"the expression is nested deeper than {MAX_NESTING} levels")
    pending: list[tuple[ast.operator, ast.expr]] = []
    while isinstance(node, ast.BinOp):
        pending.append((node.op, node.right))
        node = node.left
    value = _compute_single(node, depth + 1)
    for op, right in reversed(pending):
        value = _apply(op, value, _compute(right, depth + 1))
    return value


def _compute_single(node: ast.expr, depth: int) -> Number:
    """Compute what is not a binary operation."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return _checked(value)
        case ast.Name(id=name):
            return CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_compute(operand, depth)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _compute(operand, depth)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _call(name, [_compute(arg, depth) for arg in args])
        case _:
            raise CalculationError("only numbers, operators and functions can be calculated")


def _apply(op: ast.operator, left: Number, right: Number) -> Number:
    """Do one operation and turn what Python raises into an explanation."""
    try:
        return _checked(_OPERATORS[type(op)](left, right))
    except ZeroDivisionError:
        raise CalculationError("division by zero") from None
    except OverflowError:
        raise CalculationError("a number is too large on the way to the result") from None


def _call(name: str, args: list[Number]) -> Number:
    """Call a known function."""
    function = FUNCTIONS[name]
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise CalculationError(f"{name} takes {_count(function)}, not {len(args)}")
    try:
        return _checked(function.call(*args))
    except CalculationError:
        raise
    except ZeroDivisionError:
        raise CalculationError(f"{name}: division by zero") from None
    except OverflowError:
        raise CalculationError(f"{name}: the result is too large") from None
    except (ValueError, TypeError):
        shown = ", ".join(format_number(arg) for arg in args)
        raise CalculationError(f"{name}({shown[:60]}) has no real value") from None


def _count(function: _Function) -> str:
    """Say how many arguments a function takes."""
    if function.most is None:
        return f"{function.least} or more arguments"
    if function.least == function.most:
        return f"{function.least} argument{'' if function.least == 1 else 's'}"
    return f"{function.least} to {function.most} arguments"


def _checked(value: Any) -> Number:
    """Let through only what is a real, finite number of bearable size."""
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise CalculationError(f"a whole number has more than {MAX_DIGITS} digits")
        return int(value)
    if isinstance(value, complex):
        raise CalculationError("there is no real result: a root of a negative number")
    number = float(value)
    if math.isinf(number) or math.isnan(number):
        raise CalculationError("a number is too large on the way to the result")
    return number


def _divide(left: Number, right: Number) -> Number:
    """Divide, staying exact where whole numbers divide without a rest."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _divide_down(left: Number, right: Number) -> Number:
    return left // right


def _power(base: Number, exponent: Number) -> Number:
    """Raise to a power, after an estimate of how long the result would be."""
    if isinstance(base, int) and isinstance(exponent, int):
        # the result has at least this many bits, so that what is refused here would really be too long
        bits = max(abs(base).bit_length() - 1, 0) * exponent
        if bits > _MAX_BITS:
            raise CalculationError(f"the power has more than {MAX_DIGITS} digits")
    result: Number = base**exponent
    return result


def _integer(value: Number, name: str) -> int:
    """Take a whole number, also when it is written as 5.0."""
    if isinstance(value, float):
        if not value.is_integer():
            raise CalculationError(f"{name} takes whole numbers, not {format_number(value)}")
        return int(value)
    return value


def _factorial(value: Number) -> int:
    number = _integer(value, "factorial")
    if number > 2 and math.lgamma(number + 1) > MAX_DIGITS * math.log(10):
        raise CalculationError(f"factorial: the result has more than {MAX_DIGITS} digits")
    return math.factorial(number)


def _choose(count: Callable[[int, int], int], name: str) -> Callable[[Number, Number], int]:
    """Make comb or perm, for sizes whose result is quickly there."""

    def choose(n: Number, k: Number) -> int:
        whole = _integer(n, name)
        if whole > MAX_DIGITS * 10:
            raise CalculationError(f"{name} takes at most {MAX_DIGITS * 10} things")
        return count(whole, _integer(k, name))

    return choose


def _whole(function: Callable[..., int], name: str) -> Callable[..., int]:
    """Make a function of whole numbers."""
    return lambda *args: function(*(_integer(arg, name) for arg in args))


def _round(value: Number, digits: Number = 0) -> Number:
    places = _integer(digits, "round")
    if abs(places) > MAX_DIGITS:
        raise CalculationError(f"round takes at most {MAX_DIGITS} places")
    return round(value, places) if places else round(value)


def _square_root(value: Number) -> Number:
    """Take the root, exactly for square numbers."""
    if isinstance(value, int) and value >= 0 and math.isqrt(value) ** 2 == value:
        return math.isqrt(value)
    return math.sqrt(value)


def _absolute(value: Number) -> Number:
    return abs(value)


def _largest(*values: Number) -> Number:
    return max(values)


def _smallest(*values: Number) -> Number:
    return min(values)


def _total(*values: Number) -> Number:
    """Add up, checking on the way: a float cannot take a very long whole number."""
    return sum(values)


CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS: dict[str, _Function] = {
    "abs": _Function(_absolute, 1, 1),
    "round": _Function(_round, 1, 2),
    "floor": _Function(math.floor, 1, 1),
    "ceil": _Function(math.ceil, 1, 1),
    "trunc": _Function(int, 1, 1),
    "min": _Function(_smallest, 1, None),
    "max": _Function(_largest, 1, None),
    "sum": _Function(_total, 1, None),
    "sqrt": _Function(_square_root, 1, 1),
    "cbrt": _Function(math.cbrt, 1, 1),
    "exp": _Function(math.exp, 1, 1),
    "ln": _Function(math.log, 1, 1),
    "log": _Function(math.log, 1, 2),
    "log2": _Function(math.log2, 1, 1),
    "log10": _Function(math.log10, 1, 1),
    "sin": _Function(math.sin, 1, 1),
    "cos": _Function(math.cos, 1, 1),
    "tan": _Function(math.tan, 1, 1),
    "asin": _Function(math.asin, 1, 1),
    "acos": _Function(math.acos, 1, 1),
    "atan": _Function(math.atan, 1, 1),
    "atan2": _Function(math.atan2, 2, 2),
    "sinh": _Function(math.sinh, 1, 1),
    "cosh": _Function(math.cosh, 1, 1),
    "tanh": _Function(math.tanh, 1, 1),
    "degrees": _Function(math.degrees, 1, 1),
    "radians": _Function(math.radians, 1, 1),
    "hypot": _Function(math.hypot, 1, None),
    "factorial": _Function(_factorial, 1, 1),
    "comb": _Function(_choose(math.comb, "comb"), 2, 2),
    "perm": _Function(_choose(math.perm, "perm"), 2, 2),
    "gcd": _Function(_whole(math.gcd, "gcd"), 1, None),
    "lcm": _Function(_whole(math.lcm, "lcm"), 1, None),
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: _divide_down,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
