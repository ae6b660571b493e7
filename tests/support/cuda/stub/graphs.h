/* Graphs, which run in the order in which their nodes were added. */

#pragma once

#include "code.h"
#include "memory.h"

typedef struct {
    size_t x, y, z, level;
    unsigned type;
    void *host;
    Address device;
    void *array, *reserved;
    size_t pitch, height;
} Copy_end;

typedef struct {
    Copy_end source, target;
    size_t width, height, depth;
} Copy_parameters;

typedef struct {
    Address target;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} Fill_parameters;

typedef struct {
    Object *function;
    Shape shape;
    void **parameters, **extra;
    Object *kernel, *context;
} Kernel_parameters;

enum { HOST_MEMORY = 1, DEVICE_MEMORY = 2 };

static Result copy_work(const char *call, Work *work, const Copy_parameters *given) {
    int up = given->source.type == HOST_MEMORY;
    *work = (Work){.duty = up ? UPLOAD : DOWNLOAD, .nbytes = given->width};
    work->source = up ? (Address)(uintptr_t)given->source.host : given->source.device;
    work->target = up ? given->target.device : (Address)(uintptr_t)given->target.host;
    int fine = up ? is_host(work->source, work->nbytes) && is_device(work->target, work->nbytes)
                  : is_device(work->source, work->nbytes) && is_host(work->target, work->nbytes);
    if (!fine || given->height != 1 || given->depth != 1) return refuse(call, INVALID_VALUE, "a range is invalid\n");
    return SUCCESS;
}

static Result fill_work(const char *call, Work *work, const Fill_parameters *given) {
    *work = (Work){.duty = FILL, .target = given->target, .source = given->value, .nbytes = given->width};
    if (given->element != 1 || given->height != 1 || given->value > 255 || !is_device(given->target, given->width))
        return refuse(call, INVALID_VALUE, "a range is invalid\n");
    return SUCCESS;
}

static Result launch_work(const char *call, Work *work, const Kernel_parameters *given, int cooperative) {
    Object *kernel = given->function ? given->function : given->kernel;
    if (!is(kernel, KERNEL)) return refuse(call, INVALID_HANDLE, "no kernel\n");
    Result code = check_launch(call, kernel, &given->shape, cooperative);
    if (code != SUCCESS) return code;
    *work = (Work){.duty = LAUNCH, .kernel = kernel, .shape = given->shape, .cooperative = cooperative};
    work->parameters = gather(kernel, given->parameters);
    return SUCCESS;
}

static Result add(const char *call, Object **node, Object *graph, Object *const *after, size_t count, Work work) {
    if (graph->work_count == MAX_NODES) return refuse(call, OUT_OF_MEMORY, "too many nodes\n");
    for (size_t i = 0; i < count; i++) {
        if (!is(after[i], NODE) || after[i]->owner != graph)
            return refuse(call, INVALID_VALUE, "no node of the graph\n");
        for (size_t j = 0; j < i; j++)
            if (after[i] == after[j]) return refuse(call, INVALID_VALUE, "a dependency twice\n");
    }
    *node = work.node = make(NODE, graph);
    graph->work[graph->work_count++] = work;
    return SUCCESS;
}

static Work *work_of(Object *holder, const Object *node) {
    for (int i = 0; i < holder->work_count; i++)
        if (holder->work[i].node == node) return &holder->work[i];
    return NULL;
}

static Result cuGraphCreate(Object **graph, unsigned flags) {
    ENTER(CURRENT, "%u", flags);
    *graph = make(GRAPH, current);
    (*graph)->work = calloc(MAX_NODES, sizeof(Work));
    return SUCCESS;
}

static Result cuGraphDestroy(Object *graph) {
    ENTER(CURRENT, "%p", (void *)graph);
    REQUIRE(is(graph, GRAPH), INVALID_VALUE);
    graph->kind = DEAD;
    return SUCCESS;
}

#define ADD(PREPARE)                                            \
    ENTER(CURRENT, "%p, after=%zu", (void *)graph, count);      \
    REQUIRE(is(graph, GRAPH), INVALID_VALUE);                   \
    Work work;                                                  \
    Result code = PREPARE;                                      \
    return code != SUCCESS ? code : add(__func__, node, graph, after, count, work)

static Result cuGraphAddMemcpyNode(Object **node, Object *graph, Object *const *after, size_t count,
                                   const Copy_parameters *given, Object *context) {
    (void)context;
    ADD(copy_work(__func__, &work, given));
}

static Result cuGraphAddMemsetNode(Object **node, Object *graph, Object *const *after, size_t count,
                                   const Fill_parameters *given, Object *context) {
    (void)context;
    ADD(fill_work(__func__, &work, given));
}

static Result cuGraphAddKernelNode(Object **node, Object *graph, Object *const *after, size_t count,
                                   const Kernel_parameters *given) {
    ADD(launch_work(__func__, &work, given, 0));
}

static Result cuGraphAddEventRecordNode(Object **node, Object *graph, Object *const *after, size_t count,
                                        Object *event) {
    ADD((work = (Work){.duty = RECORD, .source = (Address)(uintptr_t)event},
         is(event, EVENT) ? SUCCESS : refuse(__func__, INVALID_HANDLE, "no event\n")));
}

static Result cuGraphKernelNodeSetAttribute(Object *node, unsigned id, const void *value) {
    ENTER(CURRENT, "%p, %u", (void *)node, id);
    Work *work = is(node, NODE) ? work_of(node->owner, node) : NULL;
    REQUIRE(work && work->duty == LAUNCH && id == COOPERATIVE, INVALID_VALUE);
    Result code = check_launch(__func__, work->kernel, &work->shape, *(const int *)value);
    if (code == SUCCESS) work->cooperative = *(const int *)value;
    return code;
}

static Result cuGraphInstantiateWithFlags(Object **executable, Object *graph, unsigned long long flags) {
    ENTER(CURRENT, "%p, %llu", (void *)graph, flags);
    REQUIRE(is(graph, GRAPH), INVALID_VALUE);
    *executable = make(EXECUTABLE, current);
    (*executable)->work = malloc(MAX_NODES * sizeof(Work));
    memcpy((*executable)->work, graph->work, MAX_NODES * sizeof(Work));
    (*executable)->work_count = graph->work_count;
    return SUCCESS;
}

static Result cuGraphUpload(Object *executable, Object *stream) {
    ENTER(CURRENT, "%p, %p", (void *)executable, (void *)stream);
    REQUIRE(is(executable, EXECUTABLE), INVALID_VALUE);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    return SUCCESS;
}

static Result cuGraphExecDestroy(Object *executable) {
    ENTER(CURRENT, "%p", (void *)executable);
    REQUIRE(is(executable, EXECUTABLE), INVALID_VALUE);
    executable->kind = DEAD;
    return SUCCESS;
}

/* Replace what a node does by work of the same duty. */
#define UPDATE(PREPARE)                                                                  \
    ENTER(CURRENT, "%p, %p", (void *)executable, (void *)node);                          \
    REQUIRE(is(executable, EXECUTABLE), INVALID_VALUE);                                  \
    Work *old = work_of(executable, node), work = {0};                                   \
    REQUIRE(old, INVALID_VALUE);                                                         \
    Result code = PREPARE;                                                               \
    if (code != SUCCESS) return code;                                                    \
    REQUIRE(work.duty == old->duty && work.cooperative == old->cooperative, INVALID_VALUE); \
    work.node = old->node;                                                               \
    *old = work;                                                                         \
    return SUCCESS

static Result cuGraphExecMemcpyNodeSetParams(Object *executable, Object *node, const Copy_parameters *given,
                                             Object *context) {
    (void)context;
    UPDATE(copy_work(__func__, &work, given));
}

static Result cuGraphExecMemsetNodeSetParams(Object *executable, Object *node, const Fill_parameters *given,
                                             Object *context) {
    (void)context;
    UPDATE(fill_work(__func__, &work, given));
}

static Result cuGraphExecKernelNodeSetParams(Object *executable, Object *node, const Kernel_parameters *given) {
    UPDATE(launch_work(__func__, &work, given, old->cooperative));
}

static Result cuGraphLaunch(Object *executable, Object *stream) {
    if (!recording) return SUCCESS;
    ENTER(CURRENT, "%p, %p", (void *)executable, (void *)stream);
    REQUIRE(is(executable, EXECUTABLE), INVALID_VALUE);
    REQUIRE(is(stream, STREAM), INVALID_HANDLE);
    for (int i = 0; i < executable->work_count; i++) {
        const Work *work = &executable->work[i];
        switch (work->duty) {
        case UPLOAD:
        case DOWNLOAD: copy(work->target, work->source, work->nbytes); break;
        case FILL: memset((void *)(uintptr_t)work->target, (int)work->source, work->nbytes); break;
        case LAUNCH: note_launch(work->kernel, &work->shape, work->cooperative, work->parameters); break;
        case RECORD: record((Object *)(uintptr_t)work->source); break;
        case NO_DUTY: break;
        }
    }
    return SUCCESS;
}
