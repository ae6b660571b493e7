"""The jobs in plain C, as one would write them without thought of vectors."""

from typing import Final

SOURCE: Final = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>

void saxpy(float *restrict out, const float *restrict x, const float *restrict y, float a, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = a * x[i] + y[i];
}

void mandelbrot(uint32_t *restrict counts, float left, float top, float step, int64_t width, int64_t height,
                uint32_t rounds) {
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            float cx = left + (float)x * step, cy = top + (float)y * step, zx = 0, zy = 0;
            uint32_t n = 0;
            while (n < rounds && zx * zx + zy * zy <= 4.0f) {
                float next_x = zx * zx - zy * zy + cx;
                zy = 2.0f * zx * zy + cy;
                zx = next_x;
                n++;
            }
            counts[y * width + x] = n;
        }
}

void fnv1a(uint32_t *restrict hashes, const uint8_t *restrict messages, int64_t lanes, int64_t length) {
    for (int64_t i = 0; i < lanes; i++) {
        uint32_t h = 0x811C9DC5u;
        for (int64_t k = 0; k < length; k++) h = (h ^ messages[i * length + k]) * 0x01000193u;
        hashes[i] = h;
    }
}

void matmul(float *restrict c, const float *restrict a, const float *restrict b, int64_t n) {
    memset(c, 0, n * n * sizeof *c);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            float left = a[i * n + k];
            for (int64_t j = 0; j < n; j++) c[i * n + j] += left * b[k * n + j];
        }
}

void sines(float *restrict y, const float *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = sinf(x[i]);
}

void exponentials(float *restrict y, const float *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = expf(x[i]);
}

void histogram(uint32_t *restrict counts, const uint32_t *restrict words, int64_t n) {
    memset(counts, 0, 256 * sizeof *counts);
    for (int64_t i = 0; i < n; i++) counts[words[i]]++;
}

void sum(uint32_t *restrict total, const uint32_t *restrict x, int64_t n) {
    uint32_t t = 0;
    for (int64_t i = 0; i < n; i++) t += x[i];
    *total = t;
}

void dfa_scan(uint32_t *restrict visits, const uint8_t *restrict text, const uint32_t *restrict table,
              const uint32_t *restrict accepting, int64_t n, int64_t states) {
    memset(visits, 0, states * sizeof *visits);
    uint32_t state = 0;
    for (int64_t i = 0; i < n; i++) {
        state = table[state * 256 + text[i]];
        if (accepting[state]) visits[state]++;
    }
}

void bfs(uint32_t *restrict levels, uint32_t *restrict queue, const uint32_t *restrict row_ptr,
         const uint32_t *restrict col, int64_t nodes, uint32_t source) {
    memset(levels, 0xFF, nodes * sizeof *levels);
    int64_t head = 0, tail = 0;
    levels[source] = 0;
    queue[tail++] = source;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t e = row_ptr[node]; e < row_ptr[node + 1]; e++)
            if (levels[col[e]] == 0xFFFFFFFFu) {
                levels[col[e]] = levels[node] + 1;
                queue[tail++] = col[e];
            }
    }
}

void bitonic_sort(uint32_t *restrict keys, const uint32_t *restrict unsorted, int64_t n) {
    memcpy(keys, unsorted, n * sizeof *keys);
    for (int64_t block = 2; block <= n; block *= 2)
        for (int64_t stride = block / 2; stride; stride /= 2)
            for (int64_t first = 0; first < n; first += 2 * stride) {
                uint32_t *restrict low = keys + first, *restrict high = low + stride;
                if (first & block)
                    for (int64_t k = 0; k < stride; k++) {
                        uint32_t x = low[k], y = high[k];
                        low[k] = x > y ? x : y;
                        high[k] = x > y ? y : x;
                    }
                else
                    for (int64_t k = 0; k < stride; k++) {
                        uint32_t x = low[k], y = high[k];
                        low[k] = x > y ? y : x;
                        high[k] = x > y ? x : y;
                    }
            }
}

void spmv(float *restrict y, const uint32_t *restrict row_ptr, const uint32_t *restrict col,
          const float *restrict values, const float *restrict x, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        float total = 0;
        for (uint32_t k = row_ptr[row]; k < row_ptr[row + 1]; k++) total += values[k] * x[col[k]];
        y[row] = total;
    }
}

void softmax(float *restrict out, const float *restrict x, int64_t rows, int64_t width) {
    for (int64_t row = 0; row < rows; row++, x += width, out += width) {
        float most = -INFINITY, total = 0;
        for (int64_t k = 0; k < width; k++) most = x[k] > most ? x[k] : most;
        for (int64_t k = 0; k < width; k++) total += out[k] = expf(x[k] - most);
        for (int64_t k = 0; k < width; k++) out[k] /= total;
    }
}
"""
