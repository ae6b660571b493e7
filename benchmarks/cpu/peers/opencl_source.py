"""The jobs in OpenCL C.  The matrix product has the form that PoCL runs fastest: columns of eight elements a lane."""

from typing import Final

SOURCE: Final = r"""
#pragma OPENCL FP_CONTRACT OFF

kernel void saxpy(global float *out, global const float *x, global const float *y, float a, uint n) {
    uint i = get_global_id(0);
    if (i < n) out[i] = a * x[i] + y[i];
}

kernel void mandelbrot(global uint *counts, float left, float top, float step, uint width, uint rounds) {
    uint x = get_global_id(0), y = get_global_id(1);
    float cx = left + (float)x * step, cy = top + (float)y * step, zx = 0, zy = 0;
    uint n = 0;
    while (n < rounds && zx * zx + zy * zy <= 4.0f) {
        float next_x = zx * zx - zy * zy + cx;
        zy = 2.0f * zx * zy + cy;
        zx = next_x;
        n++;
    }
    counts[y * width + x] = n;
}

kernel void fnv1a(global uint *hashes, global const uchar *messages, uint lanes, uint length) {
    uint i = get_global_id(0);
    if (i >= lanes) return;
    uint h = 0x811C9DC5u;
    for (uint k = 0; k < length; k++) h = (h ^ messages[i * length + k]) * 0x01000193u;
    hashes[i] = h;
}

#define TILE 16
kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void matmul(global float *c, global const float *a, global const float *b, uint n) {
    local float tile_a[TILE * TILE], tile_b[TILE * TILE];
    uint x = get_local_id(0), y = get_local_id(1), col = get_global_id(0), row = get_global_id(1);
    float total = 0;
    for (uint first = 0; first < n; first += TILE) {
        tile_a[y * TILE + x] = a[row * n + first + x];
        tile_b[y * TILE + x] = b[(first + y) * n + col];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < TILE; k++) total += tile_a[y * TILE + k] * tile_b[k * TILE + x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + col] = total;
}

#define ROWS 8
kernel void matmul_rows(global float *restrict c, global const float *restrict a, global const float *restrict b,
                        uint n) {
    uint col = get_global_id(0), row = get_global_id(1) * ROWS;
    float total[ROWS];
    for (uint r = 0; r < ROWS; r++) total[r] = 0;
    for (uint k = 0; k < n; k++) {
        float right = b[k * n + col];
        #pragma unroll
        for (uint r = 0; r < ROWS; r++) total[r] += a[(row + r) * n + k] * right;
    }
    for (uint r = 0; r < ROWS; r++) c[(row + r) * n + col] = total[r];
}

kernel void sines(global float *y, global const float *x, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = sin(x[i]);
}

kernel void exponentials(global float *y, global const float *x, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = exp(x[i]);
}

kernel void cleared(global uint *words, uint n) {
    uint i = get_global_id(0);
    if (i < n) words[i] = 0;
}

kernel void histogram(global uint *counts, global const uint *words, uint n) {
    uint i = get_global_id(0);
    if (i < n) atomic_inc(&counts[words[i]]);
}

kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void reduction(global uint *sums, global const uint *x) {
    local uint shared[256];
    uint lane = get_local_id(0);
    shared[lane] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint width = 128; width; width /= 2) {
        if (lane < width) shared[lane] += shared[lane + width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0) sums[get_group_id(0)] = shared[0];
}

kernel void dfa_scan(global uint *visits, global const uchar *text, global const uint *table,
                     global const uint *accepting, uint n, uint warm_up, uint chunk) {
    uint start = get_global_id(0) * chunk, stop = min(start + chunk, n), state = 0;
    for (uint at = start > warm_up ? start - warm_up : 0; at < stop; at++) {
        state = table[state * 256 + text[at]];
        if (at >= start && accepting[state]) atomic_inc(&visits[state]);
    }
}

kernel void bfs_start(global uint *levels, global uint *changed, uint nodes, uint source) {
    uint node = get_global_id(0);
    if (node < nodes) levels[node] = node == source ? 0 : 0xFFFFFFFFu;
    if (node == 0) *changed = 0;
}

kernel void bfs_level(global uint *levels, global uint *changed, global const uint *row_ptr, global const uint *col,
                      uint nodes, uint depth) {
    uint node = get_global_id(0);
    if (node < nodes && levels[node] == depth)
        for (uint e = row_ptr[node]; e < row_ptr[node + 1]; e++)
            if (levels[col[e]] == 0xFFFFFFFFu) {
                levels[col[e]] = depth + 1;
                *changed = depth + 1;
            }
}

kernel void copied(global uint *to, global const uint *from, uint n) {
    uint i = get_global_id(0);
    if (i < n) to[i] = from[i];
}

kernel void compare_exchange(global uint *keys, uint block, uint stride) {
    uint pair = get_global_id(0), low = 2 * pair - (pair & (stride - 1)), high = low + stride;
    uint x = keys[low], y = keys[high];
    int ascending = (low & block) == 0;
    keys[low] = ascending ? min(x, y) : max(x, y);
    keys[high] = ascending ? max(x, y) : min(x, y);
}

kernel void spmv(global float *y, global const uint *row_ptr, global const uint *col, global const float *values,
                 global const float *x, uint rows) {
    uint row = get_global_id(0);
    if (row >= rows) return;
    float total = 0;
    for (uint k = row_ptr[row]; k < row_ptr[row + 1]; k++) total += values[k] * x[col[k]];
    y[row] = total;
}

#define LANES 64
kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void softmax(global float *out, global const float *x, uint width) {
    local float scratch[LANES];
    uint lane = get_local_id(0), base = get_group_id(0) * width;
    float most = -INFINITY;
    for (uint k = lane; k < width; k += LANES) most = fmax(most, x[base + k]);
    scratch[lane] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint stride = LANES / 2; stride; stride /= 2) {
        if (lane < stride) scratch[lane] = fmax(scratch[lane], scratch[lane + stride]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float peak = scratch[0], total = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = lane; k < width; k += LANES) {
        float e = exp(x[base + k] - peak);
        out[base + k] = e;
        total += e;
    }
    scratch[lane] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint stride = LANES / 2; stride; stride /= 2) {
        if (lane < stride) scratch[lane] += scratch[lane + stride];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float whole = scratch[0];
    for (uint k = lane; k < width; k += LANES) out[base + k] /= whole;
}
"""


_ORDER: Final = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_LANES: Final = "0 4 8 12, 1 5 9 13, 2 6 10 14, 3 7 11 15, 0 5 10 15, 1 6 11 12, 2 7 8 13, 3 4 9 14"


def _rounds() -> str:
    """Returns the seven rounds of the compression function of BLAKE3, unrolled."""
    words, lines = list(range(16)), []
    for _ in range(7):
        for k, lanes in enumerate(_LANES.split(", ")):
            state = ", ".join(f"s{q}" for q in lanes.split())
            lines.append(f"    G({state}, m{words[2 * k]}, m{words[2 * k + 1]})")
        words = [words[k] for k in _ORDER]
    return "\n".join(lines)


BLAKE3_SOURCE: Final = (
    r"""
constant uint IV[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
#define G(a, b, c, d, x, y)                                                             \
    a += b + x; d = rotate(d ^ a, 16u); c += d; b = rotate(b ^ c, 20u);                 \
    a += b + y; d = rotate(d ^ a, 24u); c += d; b = rotate(b ^ c, 25u);

static void compress(uint *h, global const uint *text, uint counter, uint length, uint flags) {
    uint s0 = h[0], s1 = h[1], s2 = h[2], s3 = h[3], s4 = h[4], s5 = h[5], s6 = h[6], s7 = h[7];
    uint s8 = IV[0], s9 = IV[1], s10 = IV[2], s11 = IV[3], s12 = counter, s13 = 0, s14 = length, s15 = flags;
"""
    + "\n".join(f"    uint m{q} = text[{q}];" for q in range(16))
    + "\n"
    + _rounds()
    + r"""
    h[0] = s0 ^ s8; h[1] = s1 ^ s9; h[2] = s2 ^ s10; h[3] = s3 ^ s11;
    h[4] = s4 ^ s12; h[5] = s5 ^ s13; h[6] = s6 ^ s14; h[7] = s7 ^ s15;
}

kernel void blake3_chunks(global uint *values, global const uint *text, uint chunks) {
    uint chunk = get_global_id(0);
    if (chunk >= chunks) return;
    uint h[8];
    for (uint q = 0; q < 8; q++) h[q] = IV[q];
    for (uint block = 0; block < 16; block++)
        compress(h, text + chunk * 256 + block * 16, chunk, 64, (block == 0 ? 1 : 0) | (block == 15 ? 2 : 0));
    for (uint q = 0; q < 8; q++) values[chunk * 8 + q] = h[q];
}

kernel void blake3_parents(global uint *parents, global const uint *nodes, uint count) {
    uint i = get_global_id(0);
    if (2 * i >= count) return;
    uint h[8];
    if (2 * i + 1 < count) {
        for (uint q = 0; q < 8; q++) h[q] = IV[q];
        compress(h, nodes + i * 16, 0, 64, count == 2 ? 4 | 8 : 4);
    } else
        for (uint q = 0; q < 8; q++) h[q] = nodes[i * 16 + q];
    for (uint q = 0; q < 8; q++) parents[i * 8 + q] = h[q];
}
"""
)
"""Whole chunks only, and at least two."""
