/* Start, devices, contexts, streams and events. */

#pragma once

#include "state.h"

/* ---------------------------------------------------------------- start and devices */
static Result cuInit(unsigned flags) {
    ENTER(NOTHING, "%u", flags);
    initialised = 1;
    return SUCCESS;
}

static Result cuDriverGetVersion(int *version) {
    ENTER(NOTHING, "%s", "");
    *version = DRIVER_VERSION;
    return SUCCESS;
}

static Result cuDeviceGetCount(int *count) {
    ENTER(INIT, "%s", "");
    *count = 1;
    return SUCCESS;
}

static Result cuDeviceGet(int *device, int ordinal) {
    ENTER(INIT, "%d", ordinal);
    REQUIRE(ordinal == 0, INVALID_DEVICE);
    *device = ordinal;
    return SUCCESS;
}

static Result cuDeviceGetName(char *name, int length, int device) {
    ENTER(INIT, "%d", device);
    REQUIRE(device == 0, INVALID_DEVICE);
    snprintf(name, (size_t)length, "Stub of an H200");
    return SUCCESS;
}

static Result cuDeviceGetUuid(unsigned char *uuid, int device) {
    ENTER(INIT, "%d", device);
    REQUIRE(device == 0, INVALID_DEVICE);
    memcpy(uuid, "vyre-stub-device", 16);
    return SUCCESS;
}

static Result cuDeviceTotalMem(size_t *nbytes, int device) {
    ENTER(INIT, "%d", device);
    REQUIRE(device == 0, INVALID_DEVICE);
    *nbytes = TOTAL_MEMORY;
    return SUCCESS;
}

static Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER(INIT, "%d, %d", attribute, device);
    REQUIRE(device == 0, INVALID_DEVICE);
    for (int i = 0; i < LENGTH(ATTRIBUTES); i++)
        if (ATTRIBUTES[i][0] == attribute) {
            *value = ATTRIBUTES[i][1];
            return SUCCESS;
        }
    return refuse(__func__, INVALID_VALUE, "no attribute %d\n", attribute);
}

/* ---------------------------------------------------------------- contexts */
static Result cuDevicePrimaryCtxRetain(Object **context, int device) {
    ENTER(INIT, "%d", device);
    REQUIRE(device == 0, INVALID_DEVICE);
    if (primary_users++ == 0) {
        if (!primary) primary = make(CONTEXT, NULL);
        primary->kind = CONTEXT;
    }
    *context = primary;
    return SUCCESS;
}

static void end_context(Object *context) {
    for (int i = 0; i < object_count; i++)
        if (objects[i]->owner == context && objects[i]->kind != POOL && objects[i]->kind != LIBRARY)
            objects[i]->kind = DEAD;
}

static Result cuDevicePrimaryCtxRelease(int device) {
    ENTER(INIT, "%d", device);
    REQUIRE(device == 0, INVALID_DEVICE);
    REQUIRE(primary_users > 0, INVALID_CONTEXT);
    if (--primary_users == 0) end_context(primary), primary->kind = DEAD;
    return SUCCESS;
}

static Result cuDevicePrimaryCtxReset(int device) {
    ENTER(INIT, "%d", device);
    REQUIRE(device == 0, INVALID_DEVICE);
    if (primary) end_context(primary);
    return SUCCESS;
}

static Result cuCtxCreate(Object **context, void *parameters, unsigned flags, int device) {
    ENTER(INIT, "%s, %u, %d", parameters ? "given" : "null", flags, device);
    REQUIRE(device == 0, INVALID_DEVICE);
    *context = current = make(CONTEXT, NULL);
    return SUCCESS;
}

static Result cuCtxDestroy(Object *context) {
    ENTER(INIT, "%p", (void *)context);
    REQUIRE(is(context, CONTEXT) && context != primary, INVALID_CONTEXT);
    end_context(context);
    context->kind = DEAD;
    if (current == context) current = NULL;
    return SUCCESS;
}

static Result cuCtxSetCurrent(Object *context) {
    ENTER(INIT, "%p", (void *)context);
    REQUIRE(!context || is(context, CONTEXT), INVALID_CONTEXT);
    current = context;
    return SUCCESS;
}

static Result cuCtxGetCurrent(Object **context) {
    ENTER(INIT, "%s", "");
    *context = current;
    return SUCCESS;
}

static Result cuCtxGetDevice(int *device) {
    ENTER(CURRENT, "%s", "");
    *device = 0;
    return SUCCESS;
}

static Result cuCtxSynchronize(void) {
    ENTER(CURRENT, "%s", "");
    return SUCCESS;
}

/* ---------------------------------------------------------------- streams and events */
static Result cuStreamCreateWithPriority(Object **stream, unsigned flags, int priority) {
    ENTER(CURRENT, "%u, %d", flags, priority);
    *stream = make(STREAM, current);
    return SUCCESS;
}

static Result cuStreamDestroy(Object *stream) {
    ENTER(CURRENT, "%p", (void *)stream);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    stream->kind = DEAD;
    return SUCCESS;
}

static Result cuStreamSynchronize(Object *stream) {
    ENTER(CURRENT, "%p", (void *)stream);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    return SUCCESS;
}

static Result cuStreamQuery(Object *stream) {
    ENTER(CURRENT, "%p", (void *)stream);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    return SUCCESS;
}

static Result cuStreamWaitEvent(Object *stream, Object *event, unsigned flags) {
    ENTER(CURRENT, "%p, %p, %u", (void *)stream, (void *)event, flags);
    REQUIRE(is(stream, STREAM) && is(event, EVENT), INVALID_HANDLE);
    return SUCCESS;
}

static Result cuEventCreate(Object **event, unsigned flags) {
    ENTER(CURRENT, "%u", flags);
    *event = make(EVENT, current);
    (*event)->timing = !(flags & 2);
    return SUCCESS;
}

static Result cuEventDestroy(Object *event) {
    ENTER(CURRENT, "%p", (void *)event);
    REQUIRE(is(event, EVENT), INVALID_HANDLE);
    event->kind = DEAD;
    return SUCCESS;
}

static void record(Object *event) {
    event->recorded = 1;
    event->at_ms = ++now_ms;
}

static Result cuEventRecord(Object *event, Object *stream) {
    ENTER(CURRENT, "%p, %p", (void *)event, (void *)stream);
    REQUIRE(is(event, EVENT) && is(stream, STREAM) && event->owner == stream->owner, INVALID_HANDLE);
    record(event);
    return SUCCESS;
}

static Result cuEventQuery(Object *event) {
    ENTER(CURRENT, "%p", (void *)event);
    REQUIRE(is(event, EVENT), INVALID_HANDLE);
    return SUCCESS;
}

static Result cuEventSynchronize(Object *event) {
    ENTER(CURRENT, "%p", (void *)event);
    REQUIRE(is(event, EVENT), INVALID_HANDLE);
    return SUCCESS;
}

static Result cuEventElapsedTime(float *elapsed_ms, Object *start, Object *end) {
    ENTER(CURRENT, "%p, %p", (void *)start, (void *)end);
    REQUIRE(is(start, EVENT) && is(end, EVENT), INVALID_HANDLE);
    REQUIRE(start->timing && end->timing && start->recorded && end->recorded, INVALID_HANDLE);
    *elapsed_ms = (float)(end->at_ms - start->at_ms);
    return SUCCESS;
}
