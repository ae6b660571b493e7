"""The thirteen transcendental functions of f32 as binary64 programs.

Each is correctly rounded for every one of the 2^32 inputs.  The algorithms (table-driven exponential
and logarithm, Cody-Waite and Payne-Hanek reduction, the classical fdlibm and Cephes kernels) have
about 2^-50 of relative error, which rounds wrongly for fourteen inputs in all, symmetry aside;
``_PATCHES`` names those and their right answers, and each becomes one comparison and one select.
The exhaustive run is ``benchmarks/correct_rounding.py``; its record holds the digest of every program.

Conventions: ``u`` is the bit pattern of the input and ``a`` that of its magnitude, so every range test
is an unsigned integer comparison.  Odd and even functions are computed for ``|x|``; odd ones get the
sign back as a bit, which makes the symmetry exact.  NaN results are constants chosen by the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Final

from vyre.domain.ir.operators import UnaryOp
from vyre.domain.numerics import tables
from vyre.domain.numerics.f64_program import F64Program, Kind, Table, Term, Writer, f32_bits

_SIGN: Final = 0x8000_0000
_INFINITY: Final = 0x7F80_0000
_NAN: Final = 0x7FC0_0000
_ONE: Final = f32_bits(1.0)

# Adding and subtracting it rounds a small binary64 number to an integer, which is also the low word of the sum.
_MAGIC: Final = 1.5 * 2.0**52

_LN2: Final = float.fromhex("0x1.62e42fefa39efp-1")
_LOG2_E: Final = float.fromhex("0x1.71547652b82fep+0")
_PI: Final = 3.14159265358979311600e00
_PI_LOW: Final = 1.2246467991473531772e-16
_HALF_PI: Final = 1.57079632679489655800e00
_HALF_PI_LOW: Final = 6.12323399573676603587e-17

_ODD: Final = frozenset({UnaryOp.SIN, UnaryOp.TAN, UnaryOp.ASIN, UnaryOp.ATAN, UnaryOp.SINH, UnaryOp.TANH})
_EVEN: Final = frozenset({UnaryOp.COS, UnaryOp.COSH})

# function -> {bits of an input: bits of the correctly rounded result}; for odd and even functions of the positive one
_PATCHES: Final[dict[UnaryOp, dict[int, int]]] = {
    UnaryOp.EXP2: {0x3B42_9D37: 0x3F80_4385, 0xBCF3_A937: 0x3F7A_C6B1},
    UnaryOp.LOG: {
        0x3C41_3D3A: 0xC08E_158F,
        0x6F31_A8EC: 0x4284_5A89,
        0x4117_8FEB: 0x400F_E5E7,
        0x4C5D_65A5: 0x418F_034B,
        0x65D8_90D3: 0x4254_D1F9,
    },
    UnaryOp.SIN: {0x4619_9998: 0xBEB1_FA5D},
    UnaryOp.COS: {0x5F18_B878: 0x3F7F_14BB, 0x6115_CB11: 0x3F78_142F},
    UnaryOp.SINH: {0x3A12_85FF: 0x3A12_85FF},
    UnaryOp.ACOS: {0x3982_6222: 0x3FC9_07B5, 0x3288_85A3: 0x3FC9_0FDB},
    UnaryOp.ATAN: {0x3D8D_6B23: 0x3D8D_31C3},
}


def _horner(x: Term, coefficients: Sequence[float]) -> Term:
    """Returns c0 + x * (c1 + x * (...)), innermost first."""
    *rest, last = coefficients
    return reduce(lambda inner, c: c + x * inner, reversed(rest), x.writer.f64(last))


def _horner_descending(x: Term, coefficients: Sequence[float]) -> Term:
    """Returns ((c0 * x + c1) * x + ...)."""
    first, *rest = coefficients
    return reduce(lambda inner, c: inner * x + c, rest, x.writer.f64(first))


def _flip_sign(result: Term, word: Term) -> Term:
    """Returns the f32 ``result``, negated where the top bit of ``word`` is set."""
    return (result.bits() ^ (word & _SIGN)).from_bits()


class _Function:
    """A program being written for one function, with the values from which all programs start."""

    def __init__(self, op: UnaryOp) -> None:
        self.op = op
        self.writer = Writer()
        self.x = self.writer.input
        self.u = self.x.bits()
        self.a = self.u & ~_SIGN
        self.magnitude = self.a.from_bits().widen()

    def constant(self, bits: int) -> Term:
        return self.writer.f32_pattern(bits)

    def positive_above(self, bound: float) -> Term:
        """Returns ``x > bound`` for a positive f32 bound; false for NaN with the sign bit, unspecified for NaN
        without.
        """
        # Counted from the first pattern above the bound, the positive ones are below that of -0.
        first = f32_bits(bound) + 1
        return (self.u - first).below(_SIGN - first)

    def negative_below(self, bound: float) -> Term:
        """Returns ``x < bound`` for a negative f32 bound; unspecified for NaN."""
        return self.u.above(f32_bits(bound))

    def finish(self, result: Term, *, defined: Term | None = None) -> F64Program:
        """Returns the program that yields ``result`` (of |x| if the function is odd or even).

        It is patched at the known inputs, has the sign of x for an odd function, and gives NaN where ``defined`` (by
        default: x is no NaN) does not hold.
        """
        key = self.a if self.op in _ODD | _EVEN else self.u
        for known, right in _PATCHES.get(self.op, {}).items():
            result = key.equals(known).choose(self.constant(right), result)
        if self.op in _ODD:
            result = _flip_sign(result, self.u)
        holds = self.a.below(_INFINITY + 1) if defined is None else defined
        return self.writer.finish(self.op.name.lower(), holds.choose(result, self.constant(_NAN)))


# ------------------------------------------------------------------------------ exponentials


def _scaled_exponential(r: Term, k: Term) -> Term:
    """Returns ``exp(r) * 2**(k / 32)`` for |r| <= ln2 / 64 and a signed word k within the exponent range."""
    w = r.writer
    square = r * r
    p = r + square * _horner(r, [1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720])
    t = w.lookup(tables.EXP2_THIRTY_SECONDS, k & 31)
    y = t + t * p
    return w.pack(y.low_word(), y.high_word() + (k.shift_arithmetic(5) << 20))


def _exponential(x: Term) -> Term:
    """Returns e^x in binary64, for |x| < 110."""
    t = x * float.fromhex("0x1.71547652b82fep+5") + _MAGIC  # 32 / ln2
    kd = t - _MAGIC
    # ln2 / 32 in two parts; the product of kd and the upper one is exact.
    r = (x - kd * float.fromhex("0x1.62e42fefa4000p-6")) - kd * float.fromhex("-0x1.8432a1b0e2634p-48")
    return _scaled_exponential(r, t.low_word())


def _exp(f: _Function) -> F64Program:
    y = _exponential(f.x.widen()).narrow()
    y = f.positive_above(88.73).choose(f.constant(_INFINITY), y)
    return f.finish(f.negative_below(-104.0).choose(f.constant(0), y))


def _exp2(f: _Function) -> F64Program:
    x = f.x.widen()
    t = x * 32.0 + _MAGIC
    r = (x - (t - _MAGIC) * (1 / 32)) * _LN2
    y = _scaled_exponential(r, t.low_word()).narrow()
    y = f.positive_above(128.0).choose(f.constant(_INFINITY), y)
    return f.finish(f.negative_below(-150.0).choose(f.constant(0), y))


def _tanh(f: _Function) -> F64Program:
    x = f.magnitude
    z = x * x
    p = _horner_descending(z, [-0.964399179425052238628, -99.2877231001918586564, -1614.68768441708447952])
    q = ((z + 112.811678491632931402) * z + 2235.48839060100448583) * z + 4844.06305325125486048
    small = x + x * z * (p / q)
    large = 1.0 - 2.0 / (_exponential(x + x) + 1.0)
    y = f.a.below(f32_bits(0.625)).choose(small, large).narrow()
    return f.finish(f.a.above(f32_bits(9.5)).choose(f.constant(_ONE), y))


def _sinh(f: _Function) -> F64Program:
    x = f.magnitude
    z = x * x
    p = _horner_descending(
        z, [-0.789474443963537015605, -163.725857525983828727, -11561.4435765005216044, -351754.964808151394800]
    )
    q = ((z - 277.711081420602794433) * z + 36157.8279834431989373) * z - 2110529.78884890840399
    e = _exponential(x)
    y = f.a.below(_ONE).choose(x + x * z * (p / q), e * 0.5 - 0.5 / e).narrow()
    return f.finish(f.a.above(f32_bits(90.0)).choose(f.constant(_INFINITY), y))


def _cosh(f: _Function) -> F64Program:
    e = _exponential(f.magnitude)
    y = (e * 0.5 + 0.5 / e).narrow()
    return f.finish(f.a.above(f32_bits(90.0)).choose(f.constant(_INFINITY), y))


# ------------------------------------------------------------------------------ logarithms


def _log_reduction(f: _Function) -> tuple[Term, Term, Term, Term]:
    """Returns ``(e, i, z, P)`` with x = 2^e * (1 + z) / RECIPROCAL[i] and log(1 + z) = z + P, for positive finite x."""
    # Subnormals are scaled into the normal range first.
    tiny = f.a.below(0x0080_0000)
    scaled = (f.magnitude * 2.0**23).narrow().bits()
    u = tiny.choose(scaled, f.a)
    bias = tiny.choose(f.writer.word(-23), f.writer.word(0))
    t = u - tables.LOG_ORIGIN
    i = (t >> 18) & 31
    e = (t.shift_arithmetic(23) + bias).signed_to_f64()
    m = (u - (t & 0xFF80_0000)).from_bits().widen()
    z = m * f.writer.lookup(tables.RECIPROCAL, i) - 1.0  # exact
    series = [-1 / 2, 1 / 3, -1 / 4, 1 / 5, -1 / 6, 1 / 7, -1 / 8, 1 / 9, -1 / 10]
    return e, i, z, z * z * _horner(z, series)


def _finish_log(f: _Function, y: Term) -> F64Program:
    result = f.u.equals(_INFINITY).choose(f.x, y.narrow())
    result = f.a.equals(0).choose(f.constant(_INFINITY | _SIGN), result)
    # Defined for +0 .. +inf and for -0: without the sign, at most infinity; with it, only zero.
    in_domain = f.a.equals(0).choose(f.writer.word(0), f.u).below(_INFINITY + 1)
    return f.finish(result, defined=in_domain)


def _log(f: _Function) -> F64Program:
    e, i, z, p = _log_reduction(f)
    w = f.writer
    # ln2 in two parts: multiples of 2^-43 times e, plus multiples of 2^-44, add exactly.
    high = e * float.fromhex("0x1.62e42fefa3800p-1") + w.lookup(tables.LOG_HIGH, i)
    low = e * float.fromhex("0x1.ef35793c76730p-45") + w.lookup(tables.LOG_LOW, i)
    return _finish_log(f, high + (z + (p + low)))


def _log2(f: _Function) -> F64Program:
    e, i, z, p = _log_reduction(f)
    w = f.writer
    high = e + w.lookup(tables.LOG2_HIGH, i)
    # log2(e) in two parts, the upper one a multiple of 2^-27.
    z_high = z * float.fromhex("0x1.7154766000000p+0")
    z_low = z * float.fromhex("-0x1.a8fa03d1105e0p-29")
    return _finish_log(f, high + (z_high + (z_low + p * _LOG2_E + w.lookup(tables.LOG2_LOW, i))))


# ------------------------------------------------------------------------------ circular functions

# The first 384 bits of 2 / pi, after one word of zeros.
_TWO_OVER_PI: Final = Table(
    Kind.I32,
    (
        *(0x0000_0000, 0xA2F9_836E, 0x4E44_1529, 0xFC27_57D1, 0xF534_DDC0, 0xDB62_9599, 0x3C43_9041),
        *(0xFE51_63AB, 0xDEBB_C561, 0xB724_6E3A, 0x424D_D2E0, 0x0649_2EEA, 0x09D1_921C),
    ),
)
_SINE: Final = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COSINE: Final = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)


def _reduce_small(x: Term) -> tuple[Term, Term]:
    """Returns ``(r, k)`` with x = k * pi/2 + r by Cody-Waite reduction, for 0 <= x < 2^20."""
    t = x * float.fromhex("0x1.45f306dc9c883p-1") + _MAGIC  # 2 / pi
    k = t - _MAGIC
    # pi/2 in three parts: cut at 2^-32 and 2^-66, and the rest.
    r = x - k * float.fromhex("0x1.921fb54400000p+0")
    r = r - k * float.fromhex("0x1.0b4611a600000p-34")
    return r - k * float.fromhex("0x1.3198a2e037073p-69"), t.low_word()


def _reduce_large(a: Term) -> tuple[Term, Term]:
    """Returns ``(r, k)`` by Payne-Hanek reduction for 2^20 <= x < infinity, from the bits ``a`` of x; k is right
    modulo 4.

    With x = m * 2^e, the bits of 2/pi that matter to x * 2/pi modulo 4 begin at bit e + 30 of the table. Their
    product with m is kept to 160 bits: two for the quadrant, then a fraction of 64 bits, and 64 more.
    """
    w = a.writer
    mantissa = (a & 0x007F_FFFF) | 0x0080_0000
    position = (a >> 23) - (150 - 30)
    first, count = (position >> 5) & 7, position & 31  # the mask matters to x < 2^20 only, whose result is discarded
    words = [w.lookup(_TWO_OVER_PI, first + i) for i in range(6)]
    window = [w.funnel(words[i], words[i + 1], count) for i in range(5)]
    partial = mantissa.multiply_wide(window[4])
    digits = [partial.low_word()]
    for word in reversed(window[:4]):
        partial = mantissa.multiply_wide(word) + (partial >> 32)
        digits.append(partial.low_word())
    digits.reverse()

    def after_quadrant(i: int) -> Term:
        return w.funnel(digits[i], digits[i + 1], 2)

    def unsigned_to_f64(word: Term) -> Term:
        return w.pack(word, 0x4330_0000) - 2.0**52

    top = after_quadrant(0)
    quadrant = (digits[0] >> 30) + (top >> 31)  # to nearest: a fraction of a half or more is negative in the next
    fraction = top.signed_to_f64() * 2.0**32 + unsigned_to_f64(after_quadrant(1))
    rest = unsigned_to_f64(after_quadrant(2)) * 2.0**32 + unsigned_to_f64(after_quadrant(3))
    return (fraction * 2.0**-64 + rest * 2.0**-128) * _HALF_PI, quadrant


class _Circle:
    """The reduced argument of |x|: its quadrant k and the sine and cosine of the rest."""

    def __init__(self, f: _Function) -> None:
        is_small = f.a.below(f32_bits(2.0**20))
        (small, k_small), (large, k_large) = _reduce_small(f.magnitude), _reduce_large(f.a)
        r = is_small.choose(small, large)
        self.quadrant = is_small.choose(k_small, k_large)
        z = r * r
        self.sine = r + r * z * _horner(z, _SINE)
        self.cosine = (1.0 - z * 0.5) + z * z * _horner(z, _COSINE)
        self.is_odd = (self.quadrant & 1).equals(1)


def _finish_circular(f: _Function, y: Term, sign: Term) -> F64Program:
    """Returns the program, NaN for infinities, with the sign of ``y`` flipped where the top bit of ``sign`` is set."""
    return f.finish(_flip_sign(y.narrow(), sign), defined=f.a.below(_INFINITY))


def _sin(f: _Function) -> F64Program:
    c = _Circle(f)
    return _finish_circular(f, c.is_odd.choose(c.cosine, c.sine), c.quadrant << 30)


def _cos(f: _Function) -> F64Program:
    c = _Circle(f)
    return _finish_circular(f, c.is_odd.choose(c.sine, c.cosine), (c.quadrant + 1) << 30)


def _tan(f: _Function) -> F64Program:
    c = _Circle(f)
    quotient = c.is_odd.choose(c.cosine, c.sine) / c.is_odd.choose(c.sine, c.cosine)
    return _finish_circular(f, quotient, c.quadrant << 31)


# ------------------------------------------------------------------------------ inverse circular functions

_ASIN_P: Final = (
    1.66666666666666657415e-01,
    -3.25565818622400915405e-01,
    2.01212532134862925881e-01,
    -4.00555345006794114027e-02,
    7.91534994289814532176e-04,
    3.47933107596021167570e-05,
)
_ASIN_Q: Final = (
    1.0,
    -2.40339491173441421878e00,
    2.02094576023350569471e00,
    -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)
_ATAN: Final = (
    3.33333333333329318027e-01,
    -1.99999999998764832476e-01,
    1.42857142725034663711e-01,
    -1.11111104054623557880e-01,
    9.09088713343650656196e-02,
    -7.69187620504482999495e-02,
    6.66107313738753120669e-02,
    -5.83357013379057348645e-02,
    4.97687799461593236017e-02,
    -3.65315727442169155270e-02,
    1.62858201153657823623e-02,
)


def _asin_ratio(z: Term) -> Term:
    """Returns R(z) with asin(sqrt(z)) = sqrt(z) * (1 + R(z)), for 0 <= z <= 1/4."""
    return z * _horner(z, _ASIN_P) / _horner(z, _ASIN_Q)


def _twice_asin_of_half(f: _Function) -> Term:
    """Returns ``2 asin(sqrt((1 - |x|) / 2))``, which is acos |x|."""
    z = (1.0 - f.magnitude) * 0.5
    s = z.sqrt()
    return (s + s * _asin_ratio(z)) * 2.0


def _asin(f: _Function) -> F64Program:
    x = f.magnitude
    small = x + x * _asin_ratio(x * x)
    large = _HALF_PI - (_twice_asin_of_half(f) - _HALF_PI_LOW)
    y = f.a.above(f32_bits(0.5)).choose(large, small).narrow()
    return f.finish(y, defined=f.a.below(_ONE + 1))


def _acos(f: _Function) -> F64Program:
    x = f.x.widen()
    small = _HALF_PI - (x - (_HALF_PI_LOW - x * _asin_ratio(x * x)))
    t = _twice_asin_of_half(f)
    large = f.u.below(_SIGN).choose(t, _PI - (t - _PI_LOW))
    y = f.a.above(f32_bits(0.5)).choose(large, small).narrow()
    return f.finish(y, defined=f.a.below(_ONE + 1))


def _atan(f: _Function) -> F64Program:
    w, x = f.writer, f.magnitude
    # atan x = atan c + atan t, t = (x - c) / (1 + c x), by the first row whose bound is above x: (bound, numerator,
    # denominator, atan c in two parts).  A zero c, and -1/x for c = infinity, fit the same formula.
    rows = (
        (0.4375, x, w.f64(1.0), 0.0, 0.0),
        (0.6875, x * 2.0 - 1.0, x + 2.0, 4.63647609000806093515e-01, 2.26987774529616870924e-17),
        (1.1875, x - 1.0, x + 1.0, 7.85398163397448278999e-01, 3.06161699786838301793e-17),
        (2.4375, x - 1.5, x * 1.5 + 1.0, 9.82793723247329054082e-01, 1.39033110312309984516e-17),
    )
    numerator, denominator, high, low = w.f64(-1.0), x, w.f64(_HALF_PI), w.f64(_HALF_PI_LOW)
    for bound, n, d, c_high, c_low in reversed(rows):
        inside = f.a.below(f32_bits(bound))
        numerator, denominator = inside.choose(n, numerator), inside.choose(d, denominator)
        high, low = inside.choose(w.f64(c_high), high), inside.choose(w.f64(c_low), low)
    t = numerator / denominator
    z = t * t
    return f.finish((high - ((t * (z * _horner(z, _ATAN)) - low) - t)).narrow())


_BUILDERS: Final[dict[UnaryOp, Callable[[_Function], F64Program]]] = {
    UnaryOp.SIN: _sin,
    UnaryOp.COS: _cos,
    UnaryOp.TAN: _tan,
    UnaryOp.ASIN: _asin,
    UnaryOp.ACOS: _acos,
    UnaryOp.ATAN: _atan,
    UnaryOp.SINH: _sinh,
    UnaryOp.COSH: _cosh,
    UnaryOp.TANH: _tanh,
    UnaryOp.EXP: _exp,
    UnaryOp.EXP2: _exp2,
    UnaryOp.LOG: _log,
    UnaryOp.LOG2: _log2,
}


@cache
def transcendental(op: UnaryOp) -> F64Program:
    """Returns the program of ``op``, one of ``operators.TRANSCENDENTALS``."""
    return _BUILDERS[op](_Function(op))


def patched_inputs(op: UnaryOp) -> tuple[int, ...]:
    """Returns the bits of all inputs, of either sign, for which the program of ``op`` selects a stored result."""
    known = tuple(_PATCHES.get(op, ()))
    return (*known, *(x | _SIGN for x in known)) if op in _ODD | _EVEN else known
