/* What the device is, what handles stand for, the log of calls, and the way into every call. */

#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_OUT_OF_RESOURCES = 701,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720,
};

typedef int Result;
typedef uint64_t Address;

/* ---------------------------------------------------------------- the device: an H200 */
enum { SM_COUNT = 132, SM_THREADS = 2048, SM_BLOCKS = 32, TARGET = 90, PTX_VERSION = 90, DRIVER_VERSION = 13000 };
enum { BLOCK_THREADS = 1024, STATIC_SHARED = 48 * 1024, MOST_SHARED = 232448, SM_SHARED = 233472, REGISTERS = 32 };
static const uint64_t TOTAL_MEMORY = 150754820096ull;
static const unsigned MOST_BLOCK[3] = {1024, 1024, 64}, MOST_GRID[3] = {2147483647, 65535, 65535};
static const int ATTRIBUTES[][2] = {
    {1, BLOCK_THREADS}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, STATIC_SHARED},
    {9, 65536}, {10, 32}, {12, 65536}, {13, 1980000}, {16, SM_COUNT}, {17, 0}, {18, 0}, {19, 1}, {20, 0}, {31, 1},
    {32, 1}, {36, 3201000}, {37, 6144}, {38, 62914560}, {39, SM_THREADS}, {40, 3}, {41, 1}, {75, TARGET / 10},
    {76, TARGET % 10}, {78, 1}, {81, SM_SHARED}, {82, 65536}, {83, 1}, {88, 0}, {95, 1}, {97, MOST_SHARED}, {99, 1},
    {106, SM_BLOCKS}, {111, 1024}, {115, 1},
};

/* ---------------------------------------------------------------- what is behind handles */
enum Kind { DEAD, CONTEXT, STREAM, EVENT, POOL, LIBRARY, KERNEL, GRAPH, NODE, EXECUTABLE };
enum Duty { NO_DUTY, UPLOAD, DOWNLOAD, FILL, LAUNCH, RECORD };
enum { MAX_OBJECTS = 1 << 16, MAX_ALLOCATIONS = 1 << 14, MAX_NODES = 256 };

typedef struct {
    unsigned grid[3], block[3], shared;
} Shape;

typedef struct Object Object;

typedef struct { /* what a node of a graph does; source is the value of a fill, the event of a record */
    enum Duty duty;
    Object *node, *kernel;
    uint64_t target, source, nbytes;
    Shape shape;
    int cooperative;
    unsigned char *parameters;
} Work;

struct Object {
    enum Kind kind;
    Object *owner;        /* the context of most, the library of a kernel, the graph of a node */
    int timing, recorded; /* of an event */
    double at_ms;
    uint64_t used, limit; /* bytes of a pool */
    char *text;           /* of a library, or a kernel's name */
    int parameter_count;
    size_t *offsets, *sizes, parameter_bytes;
    unsigned required[3], shared_limit;
    Work *work; /* of a graph and an executable: nodes in order; of none other */
    int work_count;
};

typedef struct {
    Address base;
    uint64_t nbytes;
    Object *pool;
    int host;
} Allocation;

static Object *objects[MAX_OBJECTS];
static Allocation allocations[MAX_ALLOCATIONS];
static int object_count, allocation_count, initialised, primary_users;
static uint64_t taken;
static double now_ms;
static Object *primary;
static __thread Object *current;

static Object *make(enum Kind kind, Object *owner) {
    if (object_count == MAX_OBJECTS) abort();
    Object *made = calloc(1, sizeof(Object));
    made->kind = kind;
    made->owner = owner;
    objects[object_count++] = made; /* never freed: a stale handle is told from a live one */
    return made;
}

static int is(const Object *handle, enum Kind kind) {
    for (int i = object_count - 1; i >= 0; i--)
        if (objects[i] == handle) return handle->kind == kind;
    return 0;
}

static Allocation *holding(Address address, uint64_t nbytes, int host) {
    for (int i = 0; i < allocation_count; i++) {
        Allocation *found = &allocations[i];
        if (found->host == host && found->base <= address && address + nbytes <= found->base + found->nbytes)
            return found;
    }
    return NULL;
}

/* ---------------------------------------------------------------- the log, failures to order, the way in */
typedef struct {
    char *text;
    size_t length, capacity;
} Log;

typedef struct {
    char name[64];
    int every, countdown; /* calls until it fails */
    Result code;
} Order;

static Log call_log, driver_log;
static Order orders[64];
static int order_count, log_reads, recording = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void append(Log *log, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    size_t more = (size_t)vsnprintf(NULL, 0, format, again) + 1;
    va_end(again);
    if (log->length + more > log->capacity) {
        log->capacity = 2 * (log->length + more);
        log->text = realloc(log->text, log->capacity);
    }
    log->length += (size_t)vsnprintf(log->text + log->length, more, format, arguments);
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(&call_log, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 3, 4))) static Result refuse(const char *call, Result code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(&driver_log, format, arguments);
    va_end(arguments);
    note("!%s=%d\n", call, code);
    return code;
}

enum Needs { NOTHING, INIT, CURRENT };

/* The call's line in the log, then what a call needs, then a failure to order. */
__attribute__((format(printf, 3, 4))) static Result enter(const char *call, enum Needs needs, const char *format, ...) {
    note("%s(", call);
    va_list arguments;
    va_start(arguments, format);
    append(&call_log, format, arguments);
    va_end(arguments);
    note(")\n");
    Result ordered = SUCCESS;
    for (int i = 0; i < order_count; i++)
        if (!strcmp(orders[i].name, call) && (orders[i].every || --orders[i].countdown == 0)) ordered = orders[i].code;
    if (ordered != SUCCESS) return refuse(call, ordered, "%s failed to order\n", call);
    if (needs >= INIT && !initialised) return refuse(call, NOT_INITIALIZED, "cuInit was not called\n");
    if (needs == CURRENT && !current) return refuse(call, INVALID_CONTEXT, "no context is current\n");
    return SUCCESS;
}

static int lock(void) { return pthread_mutex_lock(&mutex); }
static void unlock(const int *held) { (void)held, pthread_mutex_unlock(&mutex); }
#define ENTER(needs, ...)                                                  \
    __attribute__((cleanup(unlock), unused)) int held = lock();            \
    do {                                                                   \
        Result entered = enter(__func__, needs, __VA_ARGS__);              \
        if (entered != SUCCESS) return entered;                            \
    } while (0)
#define REQUIRE(condition, code)                                                          \
    do {                                                                                  \
        if (!(condition)) return refuse(__func__, code, "%s: " #condition "\n", __func__); \
    } while (0)
