/* Code: libraries, kernels and launches. */

#pragma once

#include "state.h"

/* ---------------------------------------------------------------- code */
enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6 };

static Result load_failure(int count, const int *options, void **values, Result code, const char *why) {
    char *buffer = NULL;
    size_t nbytes = 0;
    for (int i = 0; i < count; i++) {
        if (options[i] == JIT_ERROR_LOG) buffer = values[i];
        if (options[i] == JIT_ERROR_LOG_BYTES) nbytes = (size_t)(uintptr_t)values[i];
    }
    if (buffer) snprintf(buffer, nbytes, "%s", why);
    return refuse("cuLibraryLoadData", code, "%s\n", why);
}

static Result cuLibraryLoadData(Object **library, const char *image, const int *jit_options, void **jit_values,
                                unsigned jit_count, void *options, void **values, unsigned count) {
    ENTER(CURRENT, "%zu bytes", strlen(image));
    (void)options, (void)values, (void)count;
    int major = 0, minor = 0, target = 0;
    const char *version = strstr(image, ".version"), *sm = strstr(image, ".target");
    if (!version || !sm || sscanf(version, ".version %d.%d", &major, &minor) != 2 ||
        sscanf(sm, ".target sm_%d", &target) != 1)
        return load_failure((int)jit_count, jit_options, jit_values, INVALID_IMAGE, "neither PTX nor machine code");
    if (10 * major + minor > PTX_VERSION)
        return load_failure((int)jit_count, jit_options, jit_values, UNSUPPORTED_PTX_VERSION, "newer than the driver");
    if (target > TARGET)
        return load_failure((int)jit_count, jit_options, jit_values, NO_BINARY_FOR_GPU, "for a newer device");
    *library = make(LIBRARY, NULL);
    (*library)->text = strdup(image);
    return SUCCESS;
}

static Result cuLibraryUnload(Object *library) {
    ENTER(CURRENT, "%p", (void *)library);
    REQUIRE(is(library, LIBRARY), INVALID_HANDLE);
    for (int i = 0; i < object_count; i++)
        if (objects[i]->owner == library) objects[i]->kind = DEAD;
    library->kind = DEAD;
    return SUCCESS;
}

/* Size and alignment of what follows ".param": " .u64 name" or " .align 16 .b8 name[40]". */
static void declared(const char *text, size_t *size, size_t *alignment) {
    int bits = 0;
    *alignment = 0;
    sscanf(text, " .align %zu", alignment);
    const char *type = *alignment ? strstr(text, " .b8") + 1 : text + strspn(text, " ");
    sscanf(type, ".%*[usbf]%d", &bits);
    *size = (size_t)bits / 8;
    if (!*alignment) *alignment = *size;
    const char *end = type + strcspn(type, ",)"), *bracket = strchr(type, '[');
    if (bracket && bracket < end) *size *= strtoul(bracket + 1, NULL, 10);
}

static void read_signature(Object *kernel, const char *text) {
    const char *body = text + strcspn(text, "{"), *end = text;
    if (*text == '(') end = text + strcspn(text, ")");
    int capacity = 0;
    for (const char *at = text; (at = strstr(at, ".param")) && at < end; at += 6) capacity++;
    kernel->offsets = calloc((size_t)capacity + 1, sizeof(size_t));
    kernel->sizes = calloc((size_t)capacity + 1, sizeof(size_t));
    for (const char *at = text; (at = strstr(at, ".param")) && at < end; at += 6) {
        size_t size, alignment, place = (size_t)kernel->parameter_count++;
        declared(at + 6, &size, &alignment);
        kernel->offsets[place] = (kernel->parameter_bytes + alignment - 1) / alignment * alignment;
        kernel->sizes[place] = size;
        kernel->parameter_bytes = kernel->offsets[place] + size;
    }
    const char *required = strstr(end, ".reqntid");
    if (required && required < body)
        sscanf(required, ".reqntid %u , %u , %u", &kernel->required[0], &kernel->required[1], &kernel->required[2]);
}

static Result cuLibraryGetKernel(Object **kernel, Object *library, const char *name) {
    ENTER(CURRENT, "%p, %s", (void *)library, name);
    REQUIRE(is(library, LIBRARY), INVALID_HANDLE);
    size_t length = strlen(name);
    for (const char *at = library->text; (at = strstr(at, ".entry ")); at++) {
        const char *found = at + 7, *after = found + length;
        if (strncmp(found, name, length) || !strchr("( \n{", *after)) continue;
        *kernel = make(KERNEL, library);
        (*kernel)->text = strdup(name);
        (*kernel)->shared_limit = STATIC_SHARED;
        read_signature(*kernel, after + strspn(after, " \n"));
        return SUCCESS;
    }
    return refuse(__func__, NOT_FOUND, "no entry %s\n", name);
}

static Result cuKernelGetAttribute(int *value, int attribute, Object *kernel, int device) {
    ENTER(CURRENT, "%d, %p, %d", attribute, (void *)kernel, device);
    REQUIRE(is(kernel, KERNEL), INVALID_HANDLE);
    const unsigned *block = kernel->required;
    const int values[] = {block[0] ? (int)(block[0] * block[1] * block[2]) : BLOCK_THREADS, 0,
                          (int)kernel->parameter_bytes, 0, REGISTERS, PTX_VERSION, TARGET, 0,
                          (int)kernel->shared_limit};
    REQUIRE(attribute >= 0 && attribute < LENGTH(values), INVALID_VALUE);
    *value = values[attribute];
    return SUCCESS;
}

static Result cuKernelSetAttribute(int attribute, int value, Object *kernel, int device) {
    ENTER(CURRENT, "%d, %d, %p, %d", attribute, value, (void *)kernel, device);
    REQUIRE(is(kernel, KERNEL), INVALID_HANDLE);
    REQUIRE(attribute == 8 && value >= 0 && value <= MOST_SHARED, INVALID_VALUE);
    kernel->shared_limit = (unsigned)value;
    return SUCCESS;
}

static Result cuKernelGetParamInfo(Object *kernel, size_t index, size_t *offset, size_t *size) {
    ENTER(CURRENT, "%p, %zu", (void *)kernel, index);
    REQUIRE(is(kernel, KERNEL), INVALID_HANDLE);
    if (index >= (size_t)kernel->parameter_count) return INVALID_VALUE; /* how a caller learns that there are no more */
    *offset = kernel->offsets[index];
    *size = kernel->sizes[index];
    return SUCCESS;
}

static int resident(unsigned threads, size_t shared) {
    if (threads > BLOCK_THREADS || shared > MOST_SHARED) return 0;
    int by_threads = (int)(SM_THREADS / ((threads + 31) / 32 * 32)), by_shared = (int)(SM_SHARED / (shared + 1024));
    int least = by_threads < by_shared ? by_threads : by_shared;
    return least < SM_BLOCKS ? least : SM_BLOCKS;
}

static Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Object *kernel, int threads, size_t shared) {
    ENTER(CURRENT, "%p, %d, %zu", (void *)kernel, threads, shared);
    REQUIRE(is(kernel, KERNEL), INVALID_HANDLE);
    REQUIRE(threads > 0, INVALID_VALUE);
    *blocks = resident((unsigned)threads, shared);
    return SUCCESS;
}

/* ---------------------------------------------------------------- launches */
typedef struct {
    unsigned id, padding;
    union {
        int cooperative;
        unsigned char bytes[64];
    } value;
} Launch_attribute;

typedef struct {
    Shape shape;
    Object *stream;
    Launch_attribute *attributes;
    unsigned attribute_count;
} Launch_config;

enum { COOPERATIVE = 2 };

static Result check_launch(const char *call, const Object *kernel, const Shape *shape, int cooperative) {
    const unsigned *block = shape->block, *grid = shape->grid, *required = kernel->required;
    for (int i = 0; i < 3; i++)
        if (block[i] == 0 || block[i] > MOST_BLOCK[i] || grid[i] == 0 || grid[i] > MOST_GRID[i] ||
            (required[0] && required[i] != block[i]))
            return refuse(call, INVALID_VALUE, "dimension %d of grid or block\n", i);
    unsigned threads = block[0] * block[1] * block[2];
    if (threads > BLOCK_THREADS || shape->shared > kernel->shared_limit)
        return refuse(call, INVALID_VALUE, "%u threads, %u bytes of shared memory\n", threads, shape->shared);
    int fits = resident(threads, shape->shared) * SM_COUNT;
    if (fits == 0) return refuse(call, LAUNCH_OUT_OF_RESOURCES, "no block fits\n");
    if (cooperative && (uint64_t)grid[0] * grid[1] * grid[2] > (uint64_t)fits)
        return refuse(call, COOPERATIVE_LAUNCH_TOO_LARGE, "%d blocks fit\n", fits);
    return SUCCESS;
}

/* The block of parameters as the kernel sees it: gaps are 0. */
static unsigned char *gather(const Object *kernel, void **parameters) {
    unsigned char *block = calloc(1, kernel->parameter_bytes + 1);
    for (int i = 0; i < kernel->parameter_count; i++)
        memcpy(block + kernel->offsets[i], parameters[i], kernel->sizes[i]);
    return block;
}

static void note_launch(const Object *kernel, const Shape *shape, int cooperative, const unsigned char *parameters) {
    const unsigned *grid = shape->grid, *block = shape->block;
    note(" launch %s grid=%u,%u,%u block=%u,%u,%u shared=%u cooperative=%d parameters=", kernel->text, grid[0], grid[1],
         grid[2], block[0], block[1], block[2], shape->shared, cooperative);
    for (size_t i = 0; i < kernel->parameter_bytes; i++) note("%02x", parameters[i]);
    note("\n");
}

static Result cuLaunchKernelEx(const Launch_config *config, Object *kernel, void **parameters, void **extra) {
    if (!recording) return SUCCESS;
    ENTER(CURRENT, "%p, %p, extra=%s", (void *)kernel, (void *)config->stream, extra ? "given" : "null");
    REQUIRE(is(kernel, KERNEL) && is(config->stream, STREAM), INVALID_HANDLE);
    int cooperative = 0;
    for (unsigned i = 0; i < config->attribute_count; i++)
        if (config->attributes[i].id == COOPERATIVE) cooperative = config->attributes[i].value.cooperative;
    Result code = check_launch(__func__, kernel, &config->shape, cooperative);
    if (code != SUCCESS) return code;
    unsigned char *block = gather(kernel, parameters);
    note_launch(kernel, &config->shape, cooperative, block);
    free(block);
    return SUCCESS;
}
