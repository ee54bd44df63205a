/* capture.c - recordings: lists of commands, which become a CUDA graph at the first launch
 * after a change. Commands stand in it in the order in which they were recorded, that of
 * their streams among it. Where only buffers change, the graph is updated in place, at the
 * second launch with them: an update costs more than to enqueue the commands one by one, and
 * pays only where the same buffers come again. What the driver can't record is enqueued
 * command by command each time. */
#include <string.h>

#include "cudev.h"

struct kd_capture {
  fam_recording recording; /* first */
  cu_graph_exec exec;      /* NULL: not made yet */
  cuda_scratch scratch; /* of calls of libraries in it, one after the other */
  bool changed;         /* since `exec` was made */
  bool rebound;         /* since the last launch */
  bool listed;          /* the driver can't record it: launches enqueue it */
};

/* ---- what is recorded ---------------------------------------------------------------- */

static kd_status cuda_capture_added(kd_capture *c, fam_command *m) {
  (void)c;
  if (m->kind == FAM_LAUNCH) cuda_program_take(m->program);
  return KD_OK;
}

static void rebound(kd_capture *c) {
  c->changed = true;
  c->rebound = true;
}

static void cuda_capture_destroy(kd_capture *c) {
  kd_device *d = c->recording.device;
  cuda_lane lane = {d->lane.queue, c->scratch};
  if (!cuda_enter_anyhow(d)) return;
  if (c->exec) cu.GraphExecDestroy(c->exec);
  cuda_lane_release(d, &lane);
  cuda_leave();
}

/* ---- launches ------------------------------------------------------------------------ */

/* Memory for the calls of libraries, as there is none to be had while a stream records. In
 * the context. */
static kd_status reserve(kd_capture *c, cuda_lane *lane) {
  const fam_recording *r = &c->recording;
  size_t most = 0;
  for (uint32_t i = 0; i < r->count; i++) {
    const cuda_program *p = r->commands[i].program;
    if (r->commands[i].kind == FAM_LAUNCH && p->call &&
        p->call->workspace > most)
      most = p->call->workspace;
  }
  lane->scratch = c->scratch;
  kd_status status = cuda_lane_reserve(r->device, lane, most);
  c->scratch = lane->scratch;
  if (status == KD_OK && most)
    CU_TRY(r->device, "cuStreamSynchronize", cu.StreamSynchronize(lane->queue));
  return status;
}

/* The commands as a graph: a stream that nobody else knows records them. */
static kd_status draw(kd_capture *c, cu_graph *out_graph) {
  const fam_recording *r = &c->recording;
  kd_device *d = r->device;
  cuda_lane lane = {0};
  CU_TRY(d, "cuStreamCreateWithPriority",
         cu.StreamCreateWithPriority(&lane.queue, CU_NON_BLOCKING, 0));
  kd_status reserved = reserve(c, &lane);
  if (reserved != KD_OK) {
    cu.StreamDestroy(lane.queue);
    return reserved;
  }
  cu_result code = cu.StreamBeginCapture(lane.queue, CU_CAPTURE_RELAXED);
  kd_status status =
      code == CU_OK ? KD_OK : cuda_failed(d, code, "cuStreamBeginCapture");
  if (status == KD_OK) {
    for (uint32_t i = 0; status == KD_OK && i < r->count; i++)
      status = cuda_enqueue(d, &lane, &r->commands[i]);
    code = cu.StreamEndCapture(lane.queue, out_graph);
    if (status != KD_OK && code == CU_OK && *out_graph)
      cu.GraphDestroy(*out_graph);
    if (status == KD_OK && code != CU_OK)
      status = cuda_failed(d, code, "cuStreamEndCapture");
  }
  cu.StreamDestroy(lane.queue);
  return status;
}

/* Under the lock, in the context. Launches that run keep what they were launched with. */
static kd_status capture_prepare(kd_capture *c) {
  kd_device *d = c->recording.device;
  cu_graph graph = NULL;
  if (c->exec && !c->changed) return KD_OK;
  kd_status status = draw(c, &graph);
  if (status != KD_OK) return status;
  cu_update_info info;
  memset(&info, 0, sizeof info);
  bool updated = c->exec && cu.GraphExecUpdate &&
                 cu.GraphExecUpdate(c->exec, graph, &info) == CU_OK;
  cu_graph_exec fresh = NULL;
  if (!updated) {
    cu_result code = cu.GraphInstantiate(&fresh, graph, 0);
    if (code != CU_OK)
      status = cuda_failed(d, code, "cuGraphInstantiateWithFlags");
  }
  cu.GraphDestroy(graph);
  if (status != KD_OK) return status;
  if (fresh) {
    if (c->exec) cu.GraphExecDestroy(c->exec); /* kept while it runs */
    c->exec = fresh;
  }
  c->changed = false;
  return KD_OK;
}

/* Under the lock, in the context. */
static kd_status launch_here(kd_capture *c, kd_stream *stream) {
  fam_recording *r = &c->recording;
  kd_status status = KD_OK;
  if (!r->count) return KD_OK;
  bool profiling =
      atomic_load_explicit(&r->device->profiling, memory_order_relaxed);
  bool listed = profiling || c->listed || c->rebound;
  c->rebound = false;
  if (!listed) {
    status = capture_prepare(c);
    if (status == KD_DEVICE_LOST || status == KD_OUT_OF_MEMORY) return status;
    if (status != KD_OK) {
      cuda_host->log(cuda_host, KD_LOG_WARNING,
                     "a recording is not a graph, and is enqueued each time");
      c->listed = listed = true;
    }
  }
  if (listed) {
    status = KD_OK;
    for (uint32_t i = 0; status == KD_OK && i < r->count; i++)
      status = cuda_enqueue_noted(r->device, stream, &r->commands[i], 0);
    return status;
  }
  CU_TRY(r->device, "cuGraphLaunch",
         cu.GraphLaunch(c->exec, stream->lane.queue));
  return KD_OK;
}

static kd_status cuda_capture_launch(kd_capture *c, kd_stream *stream) {
  CU_ENTER(c->recording.device);
  kd_status status = launch_here(c, stream);
  cuda_leave();
  return status;
}

const fam_recorder cuda_recorder = {
    .size = sizeof(kd_capture),
    .added = cuda_capture_added,
    .rebound = rebound,
    .launch = cuda_capture_launch,
    .destroy = cuda_capture_destroy,
};
