/* standin.h - shared by the files of the stand-in driver. */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api.h"

#define API     __attribute__((visibility("default")))
#define DEVICES 2

/* The functions, as the plugin takes them. */
#define DECLARE(field, symbol, arguments) API cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)
RTC_FUNCTIONS(DECLARE)
API cu_result cuGraphExecUpdate_v2(cu_graph_exec exec, cu_graph graph,
                                   cu_update_info *info);
#undef DECLARE

/* A thing to do in a stream. */
typedef struct job {
  struct job *next;
  enum {
    JOB_LAUNCH,
    JOB_COPY,
    JOB_SET, /* width bytes of `pattern`, `count` times, `pitch` apart */
    JOB_HOST,
    JOB_RECORD,
    JOB_WAIT,
    JOB_FREE,
    JOB_GRAPH
  } kind;
  cu_function function;
  unsigned groups, group;
  unsigned char *arguments; /* copies, one behind the other */
  void *to;
  const void *from;
  size_t size, count, pitch, width;
  uint32_t pattern;
  cu_host_function call;
  void *context;
  cu_event event;
  uint64_t turn; /* of the event */
  struct job_list *graph;
} job;

/* The jobs of a graph, counted: launches that run keep it. */
typedef struct job_list {
  _Atomic int users;
  job *first, **end;
} job_list;

typedef struct cu_context_of {
  int device;
  cu_result broken; /* what every call says from then on */
  size_t used;
} context;

typedef struct cu_function_of {
  void (*run)(unsigned groups, unsigned group, void **arguments);
  const unsigned *sizes; /* of the arguments, up to 0 */
} function;

struct cu_graph_of {
  job_list *jobs;
};

extern context standin_contexts[DEVICES];
/* The calling thread's. CU_OK, or why a call fails: the context is broken, or this is
 * where a fault was asked for. */
cu_result standin_enter(const char *call, context **out_context);
/* Declares it as `here`, at a call's begin. */
#define ENTER(call)                                 \
  context *here = NULL;                             \
  do {                                              \
    cu_result entered = standin_enter(call, &here); \
    if (entered != CU_OK) return entered;           \
  } while (0)
/* Before a launch: waits where that is asked for, and breaks the context where the launch is
 * the one that is to. */
void standin_count_launch(context *of);
void standin_run(const job *what);

/* Before a copy: waits where that is asked for. */
void standin_slow_copy(size_t size);
/* Whether host memory is pinned. */
bool standin_pinned(const void *memory);

/* Whether the stream records. */
bool standin_records(cu_stream stream);

job *standin_job(int kind);
cu_result standin_push(cu_stream stream, job *j);

#endif /* STANDIN_H */
