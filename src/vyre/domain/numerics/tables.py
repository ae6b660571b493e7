"""Lookup tables of the exponential and logarithm programs, as exact hexadecimal floats.

Every entry follows from the formula above its table (the unit tests derive them again with arbitrary-precision
arithmetic).  ``RN_k(v)`` is ``v`` rounded to the nearest multiple of ``2**-k``, ``RN(v)`` is ``v`` rounded to
binary64.

The logarithms divide the reals by the bits of an f32: interval ``i`` holds the ``2**18`` floats with patterns from
``LOG_ORIGIN + (i << 18)`` on, and ``c`` is the midpoint of its ends.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.numerics.f64_program import Kind, Table, f64_bits


def _table(text: str) -> Table:
    return Table(Kind.F64, tuple(f64_bits(float.fromhex(word)) for word in text.split()))


LOG_ORIGIN: Final = 0x3F33_0000

# RN(2 ** (j / 32))
EXP2_THIRTY_SECONDS: Final = _table(
    """
    0x1.0000000000000p+0 0x1.059b0d3158574p+0 0x1.0b5586cf9890fp+0 0x1.11301d0125b51p+0
    0x1.172b83c7d517bp+0 0x1.1d4873168b9aap+0 0x1.2387a6e756238p+0 0x1.29e9df51fdee1p+0
    0x1.306fe0a31b715p+0 0x1.371a7373aa9cbp+0 0x1.3dea64c123422p+0 0x1.44e086061892dp+0
    0x1.4bfdad5362a27p+0 0x1.5342b569d4f82p+0 0x1.5ab07dd485429p+0 0x1.6247eb03a5585p+0
    0x1.6a09e667f3bcdp+0 0x1.71f75e8ec5f74p+0 0x1.7a11473eb0187p+0 0x1.82589994cce13p+0
    0x1.8ace5422aa0dbp+0 0x1.93737b0cdc5e5p+0 0x1.9c49182a3f090p+0 0x1.a5503b23e255dp+0
    0x1.ae89f995ad3adp+0 0x1.b7f76f2fb5e47p+0 0x1.c199bdd85529cp+0 0x1.cb720dcef9069p+0
    0x1.d5818dcfba487p+0 0x1.dfc97337b9b5fp+0 0x1.ea4afa2a490dap+0 0x1.f50765b6e4540p+0
    """
)

# 1 / c with a significand of 16 bits, so that m * RECIPROCAL is exact; 1 in the interval of 1.0.
RECIPROCAL: Final = _table(
    """
    0x1.6a14000000000p+0 0x1.6240000000000p+0 0x1.5ac0000000000p+0 0x1.5390000000000p+0
    0x1.4cac000000000p+0 0x1.460c000000000p+0 0x1.3fb0000000000p+0 0x1.3992000000000p+0
    0x1.33ae000000000p+0 0x1.2e02000000000p+0 0x1.288c000000000p+0 0x1.2346000000000p+0
    0x1.1e2e000000000p+0 0x1.1946000000000p+0 0x1.1486000000000p+0 0x1.0ff0000000000p+0
    0x1.0b7e000000000p+0 0x1.0732000000000p+0 0x1.030a000000000p+0 0x1.0000000000000p+0
    0x1.ecc0000000000p-1 0x1.de5e000000000p-1 0x1.d0cc000000000p-1 0x1.c3f8000000000p-1
    0x1.b7d6000000000p-1 0x1.ac58000000000p-1 0x1.a16e000000000p-1 0x1.970e000000000p-1
    0x1.8d30000000000p-1 0x1.83ca000000000p-1 0x1.7ad2000000000p-1 0x1.7242000000000p-1
    """
)

# RN_44(-ln RECIPROCAL)
LOG_HIGH: Final = _table(
    """
    -0x1.6300c0b3a0c00p-2 -0x1.4c9f09e152c00p-2 -0x1.36b5776bc1000p-2 -0x1.214296d089800p-2
    -0x1.0c444675d4000p-2 -0x1.ef563e4c79800p-3 -0x1.c6ff3c6efd000p-3 -0x1.9f6dd07062800p-3
    -0x1.7897085410000p-3 -0x1.527bee49bc800p-3 -0x1.2d1cf0c574000p-3 -0x1.085dbb58cb000p-3
    -0x1.c877e015f8000p-4 -0x1.81a342f003000p-4 -0x1.3be03a7d19000p-4 -0x1.eec11bf25c000p-5
    -0x1.67bc0f2a8e000p-5 -0x1.c625aebcfc000p-6 -0x1.82b58a06a8000p-7 0x0p+0
    0x1.39f07ba0ec000p-5 0x1.164e8eeaf6000p-4 0x1.8c2e9d6422000p-4 0x1.fed1932001000p-4
    0x1.37235202b4000p-3 0x1.6d5c3e7306000p-3 0x1.a23811ff05000p-3 0x1.d5c3a6b523000p-3
    0x1.0402994b4f000p-2 0x1.1c882416d9000p-2 0x1.347e31a98b800p-2 0x1.4be77157bc800p-2
    """
)

# RN(-ln RECIPROCAL - LOG_HIGH)
LOG_LOW: Final = _table(
    """
    0x1.b6b54ce7cfcfdp-46 -0x1.e2218f1fd2207p-49 -0x1.169785a9c223fp-46 -0x1.a4eb3fcda09aep-47
    -0x1.c81dba5bec16cp-47 -0x1.eed02e2e3d000p-46 0x1.1ecc81aef8128p-48 0x1.4dcda24e9b063p-46
    -0x1.b95f7596cba76p-46 0x1.ba1d5d761d30cp-46 0x1.558a7d08a115cp-46 -0x1.0ca71aebfba9ep-47
    0x1.c452484941dcap-46 -0x1.0762a0bf9bf91p-47 0x1.cde68d33e9b6fp-47 0x1.bdebfdb4a12dbp-47
    0x1.167b932e892b4p-46 0x1.d1f597abf44dep-46 -0x1.47fd0c9dab52bp-47 0x0p+0
    -0x1.4ed629bd1a888p-48 -0x1.90c0c28b5ab05p-47 0x1.8e7fe18d63d66p-47 -0x1.4e229dd002a1bp-46
    0x1.e0016b63aa4bdp-49 0x1.09cf818d9389ep-46 -0x1.a11476272fd67p-47 -0x1.b72986c8ac76dp-46
    0x1.0370df44d82d4p-48 -0x1.85f18732f8c06p-46 0x1.d4d9bcbcde742p-46 0x1.21e9ac3914a33p-46
    """
)

# RN_44(-log2 RECIPROCAL)
LOG2_HIGH: Final = _table(
    """
    -0x1.00149b0b9a000p-1 -0x1.dfdefb29cf000p-2 -0x1.c04214498b400p-2 -0x1.a1506aee3bc00p-2
    -0x1.8306ebf51cc00p-2 -0x1.654f5e853dc00p-2 -0x1.483602143d000p-2 -0x1.2bab2cbe9e800p-2
    -0x1.0fa6f94f9a000p-2 -0x1.e8544f94f7800p-3 -0x1.b26a0fb83f800p-3 -0x1.7d6653fd16800p-3
    -0x1.4945b227f8800p-3 -0x1.162dc7a5e4000p-3 -0x1.c7b66be0ee000p-4 -0x1.64e3caa931000p-4
    -0x1.037e60eb1e000p-4 -0x1.47991391ec000p-5 -0x1.16f3a120c4000p-6 0x0p+0
    0x1.c4eb3635ce000p-5 0x1.91830e69b5000p-4 0x1.1dc8f3a33d800p-3 0x1.707a4ef788000p-3
    0x1.c0e0909b9f800p-3 0x1.078d40936e800p-2 0x1.2dae66d1bc800p-2 0x1.52dd004ee2000p-2
    0x1.771d87fd10400p-2 0x1.9a7e1c3377000p-2 0x1.bd0fad9387400p-2 0x1.ded61bb894c00p-2
    """
)

# RN(-log2 RECIPROCAL - LOG2_HIGH)
LOG2_LOW: Final = _table(
    """
    0x1.a67452e86699dp-48 -0x1.5c3675f82da80p-47 -0x1.de90bd7f13c77p-46 0x1.80361226b9c00p-46
    0x1.1becc8dbfd34fp-46 0x1.9c7fb9dac6ac4p-46 -0x1.09c599a327932p-49 0x1.e171789839867p-46
    -0x1.f403791a0e1d7p-47 -0x1.3a8eee990f4a4p-46 -0x1.2dccf48fb4dbfp-46 0x1.469f1ef7c4be9p-47
    -0x1.2d63e1c4d63c5p-47 0x1.07cc0637ccc2cp-47 0x1.8ba1b54c969e8p-47 -0x1.aad2031e3ecabp-48
    0x1.75da9284b9186p-49 0x1.1c63362702095p-52 0x1.cf99593262d0cp-47 0x0p+0
    0x1.40c95ee56b04dp-46 -0x1.4bd165025e32cp-46 -0x1.5339aa4945d9ap-46 -0x1.e4569b88641f5p-49
    -0x1.282d9b5959621p-46 -0x1.c3827dfb69bf5p-46 -0x1.b21f2ed1c522bp-47 0x1.2aa293f0e448dp-47
    -0x1.4eaa19c592248p-46 0x1.a33c24e685993p-46 -0x1.bfe4bdc76fbccp-46 0x1.6a96c4e4ba9adp-48
    """
)
