"""Rewrites of real arithmetic: sums and products in one order, powers for roots and quotients, constants folded."""

from __future__ import annotations

import math

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.facts import holds_product, is_scalar
from kernelwright.analyzers.normalise import NormalForm, rewrite


def number(node: Node) -> float | None:
    """The value of a numeric constant."""
    value = node.attribute("value") if node.operation == "constant" else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@rewrite("sub")
def subtraction_is_adding_the_negative(f: NormalForm, n: Node) -> Node | None:
    """a - b = a + (-1) * b"""
    return f.build("add", n.inputs[0], f.build("mul", f.constant(-1), n.inputs[1]))


@rewrite("neg")
def negation_is_times_minus_one(f: NormalForm, n: Node) -> Node | None:
    """-a = (-1) * a"""
    return f.build("mul", f.constant(-1), n.inputs[0])


@rewrite("div")
def division_is_times_the_inverse(f: NormalForm, n: Node) -> Node | None:
    """a / b = a * b**-1"""
    return f.build("mul", n.inputs[0], f.build("pow", n.inputs[1], f.constant(-1)))


@rewrite("sqrt", "rsqrt", "reciprocal")
def roots_are_powers(f: NormalForm, n: Node) -> Node | None:
    """sqrt(a) = a**0.5, rsqrt(a) = a**-0.5, 1/a = a**-1"""
    exponent = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1}[n.operation]
    return f.build("pow", n.inputs[0], f.constant(exponent))


@rewrite("pow")
def power_of_constants(f: NormalForm, n: Node) -> Node | None:
    """2**0.5 is a number; a**1 = a"""
    base, exponent = number(n.inputs[0]), number(n.inputs[1])
    if exponent == 1:
        return n.inputs[0]
    if base is None or exponent is None or (base == 0 and exponent < 0):
        return None
    try:
        value = math.pow(base, exponent)
    except (OverflowError, ValueError):
        return None
    return f.constant(value)


@rewrite("pow")
def power_of_a_power(f: NormalForm, n: Node) -> Node | None:
    """(a**b)**c = a**(b*c), unless that hides a sign: (a**2)**0.5 is |a|, (a**0.5)**2 is NaN for a negative a"""
    inner, exponent = n.inputs[0], number(n.inputs[1])
    if inner.operation != "pow" or exponent is None:
        return None
    first = number(inner.inputs[1])
    if first is None:
        return None
    if not is_scalar(inner.inputs[0]) and not _same_domain(first, exponent):
        return None
    return f.build("pow", inner.inputs[0], f.constant(first * exponent))


def _same_domain(first: float, second: float) -> bool:
    """True where (a**first)**second and a**(first * second) agree also for a negative a (both may be NaN)."""
    whole_product = float(first * second).is_integer()
    if float(second).is_integer():
        return float(first).is_integer() or not whole_product
    return not whole_product and first % 2 != 0


@rewrite("pow")
def power_of_a_scaled_value(f: NormalForm, n: Node) -> Node | None:
    """(c * a)**b = c**b * a**b for a positive constant c; for scalars a too: sqrt(a * b) of sizes"""
    inner, exponent = n.inputs[0], number(n.inputs[1])
    if inner.operation != "mul" or exponent is None:
        return None
    constant = number(inner.inputs[0])
    if constant is None or constant <= 0:
        return None
    rest = f.make("mul", inner.inputs[1:], ())
    return f.build("mul", f.constant(math.pow(constant, exponent)), f.build("pow", rest, n.inputs[1]))


@rewrite("pow")
def logistic_written_out(f: NormalForm, n: Node) -> Node | None:
    """1 / (1 + exp(-a)) = sigmoid(a)"""
    if number(n.inputs[1]) != -1 or n.inputs[0].operation != "add" or len(n.inputs[0].inputs) != 2:
        return None
    one, exponential = n.inputs[0].inputs
    if number(one) != 1 or exponential.operation != "exp":
        return None
    return f.build("sigmoid", f.build("mul", f.constant(-1), exponential.inputs[0]))


@rewrite("log")
def softplus_written_out(f: NormalForm, n: Node) -> Node | None:
    """log(1 + exp(a)) = softplus(a)"""
    if n.inputs[0].operation != "add" or len(n.inputs[0].inputs) != 2:
        return None
    one, exponential = n.inputs[0].inputs
    if number(one) != 1 or exponential.operation != "exp":
        return None
    return f.build("softplus", exponential.inputs[0])


@rewrite("log")
def log_of_a_softmax(f: NormalForm, n: Node) -> Node | None:
    """log(softmax(a)) = log_softmax(a), which does not underflow"""
    inner = n.inputs[0]
    return f.make("log_softmax", inner.inputs, inner.attributes) if inner.operation == "softmax" else None


@rewrite("mul")
def product_in_order(f: NormalForm, n: Node) -> Node | None:
    """Products are flat and sorted, equal factors are powers, constants are one constant in front, 1 is dropped."""
    constant = 1.0
    powers: dict[Node, float] = {}
    others: list[Node] = []
    for factor in _flat("mul", n):
        value = number(factor)
        if value is not None:
            constant *= value
            continue
        base, exponent = factor, 1.0
        if factor.operation == "pow":
            known = number(factor.inputs[1])
            if known is None:
                others.append(factor)
                continue
            base, exponent = factor.inputs[0], float(known)
        if not exponent.is_integer() and not is_scalar(base):
            # sqrt(a) * sqrt(a) is NaN where a is negative: roots stay apart.
            others.append(factor)
            continue
        powers[base] = powers.get(base, 0.0) + exponent
    # a**0 only arises from a / a. Of a tensor it stays: a is NaN or infinite somewhere, and broadcasts the product.
    factors = [
        base if exponent == 1 else f.build("pow", base, f.constant(exponent))
        for base, exponent in powers.items()
        if exponent != 0 or not is_scalar(base)
    ] + others
    factors.sort(key=f.serial)
    if constant != 1 or not factors:
        factors.insert(0, f.constant(constant))
    if len(factors) == 1:
        return factors[0]
    made = f.interned("mul", tuple(factors), ())
    return None if made is n else made


@rewrite("mul")
def scale_goes_into_scores(f: NormalForm, n: Node) -> Node | None:
    """s * (scores + bias) = s * scores + s * bias for a Python number s: the form in which attention is defined"""
    sums = [x for x in n.inputs if x.operation == "add" and any(holds_product(term) for term in x.inputs)]
    rest = [x for x in n.inputs if x not in sums]
    if len(sums) != 1 or not rest or not all(is_scalar(x) for x in rest):
        return None
    return f.make("add", tuple(f.make("mul", (*rest, term), ()) for term in sums[0].inputs), ())


@rewrite("add")
def sum_in_order(f: NormalForm, n: Node) -> Node | None:
    """Sums are flat and sorted, equal terms are counted, constants are one constant in front, 0 is dropped."""
    constant = 0.0
    counts: dict[Node, float] = {}
    for term in _flat("add", n):
        value = number(term)
        if value is not None:
            constant += value
            continue
        factor, rest = _coefficient(f, term)
        counts[rest] = counts.get(rest, 0.0) + factor
    # 0 * a of a tensor stays: it broadcasts the sum, and is NaN where a is not finite.
    terms = [
        rest if c == 1 else f.build("mul", f.constant(c), rest)
        for rest, c in counts.items()
        if c != 0 or not is_scalar(rest)
    ]
    terms.sort(key=f.serial)
    if constant != 0 or not terms:
        terms.insert(0, f.constant(constant))
    if len(terms) == 1:
        return terms[0]
    made = f.interned("add", tuple(terms), ())
    return None if made is n else made


@rewrite("add")
def common_factor_of_a_sum(f: NormalForm, n: Node) -> Node | None:
    """a + c * a**3 = a * (1 + c * a**2)"""
    monomials = [_monomial(term) for term in n.inputs]
    if any(m is None for m in monomials):
        return None
    known = [m for m in monomials if m is not None]
    common = {b: min(m[1].get(b, 0.0) for m in known) for b in known[0][1]}
    common = {b: e for b, e in common.items() if e > 0 and not is_scalar(b)}
    if not common:
        return None
    shared = [f.build("pow", b, f.constant(e)) for b, e in common.items()]
    terms = []
    for coefficient, bases in known:
        left = [
            f.build("pow", b, f.constant(e - common.get(b, 0.0))) for b, e in bases.items() if e != common.get(b, 0.0)
        ]
        terms.append(f.make("mul", (f.constant(coefficient), *left), ()))
    return f.make("mul", (*shared, f.make("add", tuple(terms), ())), ())


@rewrite("add")
def common_coefficient_of_a_sum(f: NormalForm, n: Node) -> Node | None:
    """c + c * a = c * (1 + a)"""
    parts = []
    for term in n.inputs:
        value = number(term)
        parts.append((value, f.constant(1)) if value is not None else _coefficient(f, term))
    first = parts[0][0]
    if any(holds_product(term) for term in n.inputs):
        return None  # scores keep their scale: see scale_goes_into_scores
    if first in (0, 1, -1) or any(c != first for c, _ in parts):
        return None
    return f.build("mul", f.constant(first), f.make("add", tuple(rest for _, rest in parts), ()))


def _flat(operation: str, node: Node) -> list[Node]:
    flat: list[Node] = []
    for operand in node.inputs:
        if operand.operation == operation:
            flat.extend(operand.inputs)
        else:
            flat.append(operand)
    return flat


def _coefficient(f: NormalForm, term: Node) -> tuple[float, Node]:
    if term.operation == "mul":
        value = number(term.inputs[0])
        if value is not None:
            rest = term.inputs[1:]
            return value, rest[0] if len(rest) == 1 else f.interned("mul", rest, ())
    return 1.0, term


def _monomial(term: Node) -> tuple[float, dict[Node, float]] | None:
    """A term as coefficient and powers, or None where an exponent is not constant."""
    coefficient = 1.0
    bases: dict[Node, float] = {}
    for factor in term.inputs if term.operation == "mul" else (term,):
        value = number(factor)
        if value is not None:
            coefficient *= value
        elif factor.operation == "pow":
            exponent = number(factor.inputs[1])
            if exponent is None:
                return None
            bases[factor.inputs[0]] = bases.get(factor.inputs[0], 0.0) + exponent
        else:
            bases[factor] = bases.get(factor, 0.0) + 1.0
    return coefficient, bases


@rewrite("matmul")
def scale_out_of_a_product(f: NormalForm, n: Node) -> Node | None:
    """(s * a) @ b = s * (a @ b) for a Python number s"""
    scalars: list[Node] = []
    operands: list[Node] = []
    for operand in n.inputs:
        if operand.operation == "mul":
            scalars.extend(x for x in operand.inputs if is_scalar(x))
            rest = tuple(x for x in operand.inputs if not is_scalar(x))
            operands.append(
                operand if len(rest) == len(operand.inputs) else f.make("mul", rest, ()) if rest else operand
            )
        else:
            operands.append(operand)
    if not scalars or tuple(operands) == n.inputs:
        return None
    return f.make("mul", (*scalars, f.build("matmul", *operands)), ())


@rewrite("permute", "contiguous")
def scale_out_of_a_layout_change(f: NormalForm, n: Node) -> Node | None:
    """permute(s * a) = s * permute(a) for a Python number s"""
    inner = n.inputs[0]
    if n.operation != "permute" or inner.operation != "mul":
        return None
    scalars = [x for x in inner.inputs if is_scalar(x)]
    rest = [x for x in inner.inputs if not is_scalar(x)]
    if not scalars or len(rest) != 1:
        return None
    return f.make("mul", (*scalars, f.make("permute", (rest[0],), n.attributes)), ())


@rewrite("number")
def number_is_itself(f: NormalForm, n: Node) -> Node | None:
    """math.sqrt(d) says that d is a number; where that is known already it says nothing"""
    return n.inputs[0] if is_scalar(n.inputs[0]) else None


@rewrite("attribute")
def constant_worked_out_in_init(f: NormalForm, n: Node) -> Node | None:
    """self.c = math.sqrt(2 / math.pi), stored once, is that number"""
    value = n.attribute("value")
    return f.constant(value) if isinstance(value, float) else None
