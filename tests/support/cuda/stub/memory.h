/* Memory: of the device, which is memory of the host here, and pinned. */

#pragma once

#include "state.h"

typedef struct {
    int allocation_type, handle_types, location_type, location;
    void *security;
    size_t most;
    unsigned char reserved[56];
} Pool_properties;

static Result allocate(const char *call, Address *address, uint64_t nbytes, Object *pool, int host) {
    if (nbytes == 0) return refuse(call, INVALID_VALUE, "no bytes\n");
    uint64_t left = pool && pool->limit ? pool->limit - pool->used : TOTAL_MEMORY - taken;
    void *memory = NULL;
    if ((!host && (nbytes > left || nbytes > TOTAL_MEMORY - taken)) || allocation_count == MAX_ALLOCATIONS ||
        posix_memalign(&memory, 4096, nbytes))
        return refuse(call, OUT_OF_MEMORY, "%llu bytes\n", (unsigned long long)nbytes);
    *address = (Address)(uintptr_t)memory;
    allocations[allocation_count++] = (Allocation){*address, nbytes, pool, host};
    if (pool) pool->used += nbytes;
    if (!host) taken += nbytes;
    return SUCCESS;
}

static Result release(const char *call, Address address, int host) {
    Allocation *found = holding(address, 0, host);
    if (!found || found->base != address) return refuse(call, INVALID_VALUE, "no allocation begins there\n");
    if (found->pool) found->pool->used -= found->nbytes;
    if (!host) taken -= found->nbytes;
    free((void *)(uintptr_t)address);
    *found = allocations[--allocation_count];
    return SUCCESS;
}

static Result cuMemGetInfo(size_t *left, size_t *total) {
    ENTER(CURRENT, "%s", "");
    *total = TOTAL_MEMORY;
    *left = TOTAL_MEMORY - taken;
    return SUCCESS;
}

static Result cuMemPoolCreate(Object **pool, const Pool_properties *properties) {
    ENTER(INIT, "device=%d, most=%zu", properties->location, properties->most);
    REQUIRE(properties->allocation_type == 1 && properties->location_type == 1, INVALID_VALUE);
    REQUIRE(properties->location == 0, INVALID_DEVICE);
    *pool = make(POOL, NULL);
    (*pool)->limit = properties->most;
    return SUCCESS;
}

static Result cuMemPoolDestroy(Object *pool) {
    ENTER(INIT, "%p", (void *)pool);
    REQUIRE(is(pool, POOL), INVALID_VALUE);
    pool->kind = DEAD;
    return SUCCESS;
}

static Result cuMemPoolTrimTo(Object *pool, size_t keep) {
    ENTER(INIT, "%p, %zu", (void *)pool, keep);
    REQUIRE(is(pool, POOL), INVALID_VALUE);
    return SUCCESS;
}

static Result cuMemPoolSetAttribute(Object *pool, int attribute, const uint64_t *value) {
    ENTER(INIT, "%p, %d, %llu", (void *)pool, attribute, (unsigned long long)*value);
    REQUIRE(is(pool, POOL), INVALID_VALUE);
    return SUCCESS;
}

static Result cuMemPoolGetAttribute(Object *pool, int attribute, uint64_t *value) {
    ENTER(INIT, "%p, %d", (void *)pool, attribute);
    REQUIRE(is(pool, POOL), INVALID_VALUE);
    REQUIRE(attribute == 5 || attribute == 7, INVALID_VALUE); /* reserved, used */
    *value = pool->used;
    return SUCCESS;
}

static Result cuMemAllocFromPoolAsync(Address *address, size_t nbytes, Object *pool, Object *stream) {
    ENTER(CURRENT, "%zu, %p, %p", nbytes, (void *)pool, (void *)stream);
    REQUIRE(is(pool, POOL), INVALID_VALUE);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    return allocate(__func__, address, nbytes, pool, 0);
}

static Result cuMemFreeAsync(Address address, Object *stream) {
    ENTER(CURRENT, "%#llx, %p", (unsigned long long)address, (void *)stream);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    return release(__func__, address, 0);
}

static Result cuMemAlloc(Address *address, size_t nbytes) {
    ENTER(CURRENT, "%zu", nbytes);
    return allocate(__func__, address, nbytes, NULL, 0);
}

static Result cuMemFree(Address address) {
    ENTER(CURRENT, "%#llx", (unsigned long long)address);
    return release(__func__, address, 0);
}

static Result cuMemHostAlloc(void **memory, size_t nbytes, unsigned flags) {
    ENTER(CURRENT, "%zu, %u", nbytes, flags);
    Address address = 0;
    Result code = allocate(__func__, &address, nbytes, NULL, 1);
    *memory = (void *)(uintptr_t)address;
    return code;
}

static Result cuMemHostGetDevicePointer(Address *address, void *memory, unsigned flags) {
    ENTER(CURRENT, "%p, %u", memory, flags);
    REQUIRE(holding((Address)(uintptr_t)memory, 1, 1), INVALID_VALUE);
    *address = (Address)(uintptr_t)memory;
    return 0;
}

static Result cuMemFreeHost(void *memory) {
    ENTER(CURRENT, "%p", memory);
    return release(__func__, (Address)(uintptr_t)memory, 1);
}

/* A host range must not leave a pinned block that it begins in. */
static int is_host(Address address, uint64_t nbytes) {
    return address && (!holding(address, 1, 1) || holding(address, nbytes, 1));
}

static int is_device(Address address, uint64_t nbytes) { return nbytes == 0 || holding(address, nbytes, 0); }

static void copy(Address target, Address source, uint64_t nbytes) {
    memmove((void *)(uintptr_t)target, (const void *)(uintptr_t)source, nbytes);
}

static Result cuMemcpyHtoDAsync(Address target, Address source, size_t nbytes, Object *stream) {
    ENTER(CURRENT, "%#llx, %#llx, %zu", (unsigned long long)target, (unsigned long long)source, nbytes);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    REQUIRE(is_device(target, nbytes) && is_host(source, nbytes), INVALID_VALUE);
    copy(target, source, nbytes);
    return SUCCESS;
}

static Result cuMemcpyDtoHAsync(Address target, Address source, size_t nbytes, Object *stream) {
    ENTER(CURRENT, "%#llx, %#llx, %zu", (unsigned long long)target, (unsigned long long)source, nbytes);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    REQUIRE(is_device(source, nbytes) && is_host(target, nbytes), INVALID_VALUE);
    copy(target, source, nbytes);
    return SUCCESS;
}

static Result cuMemcpyDtoDAsync(Address target, Address source, size_t nbytes, Object *stream) {
    ENTER(CURRENT, "%#llx, %#llx, %zu", (unsigned long long)target, (unsigned long long)source, nbytes);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    REQUIRE(is_device(source, nbytes) && is_device(target, nbytes), INVALID_VALUE);
    copy(target, source, nbytes);
    return SUCCESS;
}

static Result cuMemsetD8Async(Address target, unsigned char value, size_t nbytes, Object *stream) {
    ENTER(CURRENT, "%#llx, %u, %zu", (unsigned long long)target, value, nbytes);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    REQUIRE(is_device(target, nbytes), INVALID_VALUE);
    memset((void *)(uintptr_t)target, value, nbytes);
    return SUCCESS;
}

static Result cuPointerGetAttribute(void *value, int attribute, Address address) {
    ENTER(CURRENT, "%d, %#llx", attribute, (unsigned long long)address);
    const Allocation *found = holding(address, 1, 0);
    REQUIRE(found, INVALID_VALUE);
    switch (attribute) {
    case 8: *(int *)value = 0; return SUCCESS;                  /* managed */
    case 9: *(int *)value = 0; return SUCCESS;                  /* ordinal of the device */
    case 11: *(Address *)value = found->base; return SUCCESS;   /* start */
    case 12: *(size_t *)value = found->nbytes; return SUCCESS;  /* size */
    }
    return refuse(__func__, INVALID_VALUE, "no attribute %d\n", attribute);
}
