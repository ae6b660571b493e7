/* Calls two entry points of a bundle.  Nothing of Python or of vyre runs here; build.py says how it is built. */
#include "kernels.h"

#include <stdio.h>

enum { COUNT = 100, MORE = 30 };

int main(void) {
    float x[COUNT], y[COUNT + MORE];
    uint32_t values[COUNT], bins[8];
    uint32_t groups[3] = {3, 1, 1}; /* 192 lanes, more than there are elements */
    vyre_trap trap;
    vyre_status status;
    int wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        values[i] = (uint32_t)(i * i % 8);
    }
    for (int i = 0; i < COUNT + MORE; i++)
        y[i] = 1.0f;

    status = saxpy(2.0f, x, COUNT, y, COUNT, groups, &trap);
    for (int i = 0; i < COUNT + MORE; i++)
        wrong += y[i] != (i < COUNT ? 2.0f * (float)i + 1.0f : 1.0f);
    printf("saxpy: status %d, %d wrong, y[99] = %g\n", (int)status, wrong, (double)y[COUNT - 1]);

    groups[0] = 4;
    status = histogram(values, COUNT, bins, groups, &trap);
    printf("histogram: status %d:", (int)status);
    for (int i = 0; i < 8; i++)
        printf(" %u", (unsigned)bins[i]);
    printf("\n");

    values[41] = 9;
    status = histogram(values, COUNT, bins, groups, &trap);
    printf("trap: status %d, lane %u, value %u, %s\n", (int)status, (unsigned)trap.global_id[0],
           (unsigned)trap.address, trap.tag);
    return wrong != 0;
}
