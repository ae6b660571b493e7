// Helpers of all kernels.  Every function is total: no operand has undefined behaviour.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#pragma OPENCL FP_CONTRACT OFF

// ---- integers
// Quotients and remainders: unsigned x/0 is all ones, signed x/0 is 0, MIN/-1 is MIN, x%0 and MIN%-1 are 0.
#define VY_DIVIDE(NAME, S, U) \
    static U vy_udiv_##NAME(U a, U b) { return b == 0 ? ~(U)0 : a / b; } \
    static U vy_umod_##NAME(U a, U b) { return b == 0 ? (U)0 : a % b; } \
    static S vy_sdiv_##NAME(S a, S b) { return b == 0 ? (S)0 : b == -1 ? (S)((U)0 - (U)a) : a / b; } \
    static S vy_smod_##NAME(S a, S b) { return b == 0 || b == -1 ? (S)0 : a % b; }
VY_DIVIDE(32, int, uint)
VY_DIVIDE(64, long, ulong)

// The count is below the width.
#define VY_ROTATE(NAME, U, BITS) \
    static U vy_rotl_##NAME(U a, uint n) { return n == 0 ? a : (a << n) | (a >> (BITS - n)); } \
    static U vy_rotr_##NAME(U a, uint n) { return n == 0 ? a : (a >> n) | (a << (BITS - n)); }
VY_ROTATE(32, uint, 32u)
VY_ROTATE(64, ulong, 64u)

static uint vy_reverse_32(uint x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    return x >> 16 | x << 16;
}
static ulong vy_reverse_64(ulong x) {
    return (ulong)vy_reverse_32((uint)x) << 32 | vy_reverse_32((uint)(x >> 32));
}

static uint vy_satmul_u32(uint a, uint b) {
    ulong p = (ulong)a * b;
    return p > 0xffffffffu ? 0xffffffffu : (uint)p;
}
static int vy_satmul_i32(int a, int b) {
    long p = (long)a * b;
    return p > 2147483647l ? 2147483647 : p < -2147483648l ? -2147483647 - 1 : (int)p;
}
static ulong vy_satmul_u64(ulong a, ulong b) {
    return mul_hi(a, b) != 0 ? ~0ul : a * b;
}
static long vy_satmul_i64(long a, long b) {
    long low = (long)((ulong)a * (ulong)b), high = mul_hi(a, b);
    if (high == low >> 63) return low;
    return (a < 0) != (b < 0) ? (long)(1ul << 63) : (long)~(1ul << 63);
}

// ---- floats
// A NaN has one bit pattern in memory; negation and absolute value act on the sign bit of a NaN as well.
static uint vy_bits_f32(float x) { return isnan(x) ? 0x7fc00000u : as_uint(x); }
static ulong vy_bits_f64(double x) { return isnan(x) ? 0x7ff8000000000000ul : as_ulong(x); }

// The smaller and the larger number: -0 is below +0, and the result is NaN only if both operands are.
static float vy_min_f32(float a, float b) {
    if (isnan(a)) return b;
    if (isnan(b)) return a;
    return a == b ? as_float(as_uint(a) | as_uint(b)) : a < b ? a : b;
}
static float vy_max_f32(float a, float b) {
    if (isnan(a)) return b;
    if (isnan(b)) return a;
    return a == b ? as_float(as_uint(a) & as_uint(b)) : a > b ? a : b;
}
static double vy_min_f64(double a, double b) {
    if (isnan(a)) return b;
    if (isnan(b)) return a;
    return a == b ? as_double(as_ulong(a) | as_ulong(b)) : a < b ? a : b;
}
static double vy_max_f64(double a, double b) {
    if (isnan(a)) return b;
    if (isnan(b)) return a;
    return a == b ? as_double(as_ulong(a) & as_ulong(b)) : a > b ? a : b;
}

// Whole numbers near a number.  From 2^23 or 2^52 on every number is whole; a NaN stays.  PoCL's own functions convert such
// operands to an int first, which is undefined, so that its compiler may drop what follows once it knows the operand.
#define VY_WHOLE(NAME) \
    static float vy_##NAME##_f32(float x) { return fabs(x) < 8388608.0f ? NAME(x) : x; } \
    static double vy_##NAME##_f64(double x) { return fabs(x) < 4503599627370496.0 ? NAME(x) : x; }
VY_WHOLE(floor)
VY_WHOLE(ceil)
VY_WHOLE(trunc)
VY_WHOLE(round)
VY_WHOLE(rint)

// Floats to integers: truncated and saturated, NaN is 0.  Each f32 is an f64, so one function serves both.
static uint vy_sat_u32(double x) { return !(x > 0.0) ? 0u : x >= 4294967296.0 ? 0xffffffffu : (uint)x; }
static int vy_sat_i32(double x) {
    return isnan(x) ? 0 : x >= 2147483648.0 ? 0x7fffffff : x <= -2147483648.0 ? (int)0x80000000u : (int)x;
}
static ulong vy_sat_u64(double x) { return !(x > 0.0) ? 0ul : x >= 18446744073709551616.0 ? ~0ul : (ulong)x; }
static long vy_sat_i64(double x) {
    return isnan(x) ? 0l : x >= 9223372036854775808.0 ? (long)~(1ul << 63)
        : x <= -9223372036854775808.0 ? (long)(1ul << 63) : (long)x;
}
// Truncated, modulo 2^64; infinities and NaN are 0.
static ulong vy_wrap(double x) {
    ulong bits = as_ulong(x), significand = (bits & 0xffffffffffffful) | 1ul << 52;
    int exponent = (int)(bits >> 52 & 0x7fful) - 1023;
    if (exponent < 0 || exponent >= 52 + 64) return 0;
    ulong whole = exponent <= 52 ? significand >> (52 - exponent) : significand << (exponent - 52);
    return bits >> 63 ? 0 - whole : whole;
}

// ---- f32 operations that a device need not round correctly
// In f64, with more than twice the bits and 2: quotients and roots rounded twice are as if rounded once.
#ifdef VY_DIVIDE_IN_F64
static float vy_div_f32(float a, float b) { return (float)((double)a / (double)b); }
static float vy_sqrt_f32(float x) { return (float)sqrt((double)x); }
#else
static float vy_div_f32(float a, float b) { return a / b; }
static float vy_sqrt_f32(float x) { return sqrt(x); }
#endif
// The product is exact in f64; the sum is rounded to odd where it is not, which keeps the second rounding right.
#ifdef VY_FMA_IN_F64
static float vy_fma_f32(float a, float b, float c) {
    double product = (double)a * (double)b, addend = (double)c, sum = product + addend;
    double part = sum - product, lost = (product - (sum - part)) + (addend - part);
    ulong bits = as_ulong(sum);
    if ((lost > 0.0 || lost < 0.0) && (bits & 1ul) == 0) bits = (lost > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
    return (float)as_double(bits);
}
#else
static float vy_fma_f32(float a, float b, float c) { return fma(a, b, c); }
#endif

// ---- narrow floats, by integer arithmetic: a device needs no half-precision arithmetic
static uint vy_pack_bf16(float x) {
    uint bits = as_uint(x);
    return isnan(x) ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
static float vy_unpack_bf16(uint w) { return as_float(w << 16); }
static uint vy_pack_f16(float x) {
    uint bits = as_uint(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return 0x7e00u;
    if (a >= 0x477ff000u) return sign | 0x7c00u; // rounds to 65536 or beyond
    if (a <= 0x33000000u) return sign;           // at most half of the least subnormal
    uint exponent = a >> 23, significand = (a & 0x7fffffu) | 0x800000u;
    uint shift = exponent < 113u ? 126u - exponent : 13u; // a subnormal result loses more bits
    uint kept = significand >> shift, rest = significand & ((1u << shift) - 1u), half_place = 1u << (shift - 1u);
    kept += rest > half_place || (rest == half_place && (kept & 1u)) ? 1u : 0u;
    return sign | (exponent < 113u ? kept : ((exponent - 113u) << 10) + kept);
}
static float vy_unpack_f16(uint w) {
    uint sign = (w & 0x8000u) << 16, exponent = w >> 10 & 31u, fraction = w & 0x3ffu;
    if (exponent == 31u) return as_float(fraction ? 0x7fc00000u : sign | 0x7f800000u);
    if (exponent) return as_float(sign | (exponent + 112u) << 23 | fraction << 13);
    return as_float(sign | as_uint((float)fraction * 5.9604644775390625e-8f)); // 2^-24
}
