/* collective.c - what several simulated devices do together. */
#include "mutants/group.h"

float *sim_floats(const arg *a) {
  return (float *)(void *)(a->buffer ? sim_at(a->buffer, a->offset) : a->data);
}

int64_t sim_count_of(const arg *a) {
  int64_t n = 1;
  for (uint32_t i = 0; i < a->rank; i++)
    n *= a->dims[i];
  return n;
}

float sim_reduce(uint32_t kind, float a, float b) {
  if (BUG(reduce_sum_only)) return a + b;
  return kind == KD_REDUCE_SUM       ? a + b
         : kind == KD_REDUCE_PRODUCT ? a * b
         : kind == KD_REDUCE_MIN     ? (a < b ? a : b)
                                     : (a > b ? a : b);
}

/* Of element `k` of all inputs. */
static float reduced(const round *r, int64_t k) {
  float all = sim_floats(&r->members[0].in)[k];
  for (uint32_t i = 1; i < r->size; i++)
    all = sim_reduce(r->reduction, all, sim_floats(&r->members[i].in)[k]);
  return all;
}

/* Which member's part of its input is element `k` of an output of `n` elements. */
static uint32_t from_of(const round *r, int64_t k, int64_t n) {
  int64_t part = n / r->size, from = part ? k / part : 0;
  return (uint32_t)(BUG(gather_order) && part ? r->size - 1 - from : from);
}

/* Element `k` of member `i`'s output, which has `n`. */
static float collective_element(const round *r, uint32_t i, int64_t k,
                                int64_t n) {
  int64_t part = n / r->size ? n / r->size : 1;
  uint32_t from = from_of(r, k, n), root = BUG(root_zero) ? 0 : r->root;
  switch (r->kind) {
    case KD_ALL_REDUCE:
      return reduced(r, k);
    case KD_ALL_GATHER:
      return sim_floats(&r->members[from].in)[k % part];
    case KD_REDUCE_SCATTER:
      return reduced(r, (BUG(scatter_first) ? 0 : (int64_t)i * n) + k);
    case KD_ALL_TO_ALL:
      return sim_floats(
          &r->members[BUG(turned_own) ? i : from].in)[i * part + k % part];
    default:
      return sim_floats(&r->members[root].in)[k];
  }
}

/* All outputs, one behind the other: inputs may be outputs, too. */
static float *run_members(const round *r) {
  int64_t n = sim_count_of(&r->members[0].out), at = 0;
  float *all = malloc((size_t)n * r->size * sizeof *all + 1);
  for (uint32_t i = 0; all && i < r->size; i++)
    for (int64_t k = 0; k < n; k++)
      all[at++] = collective_element(r, i, k, n);
  return all;
}

static kd_status run_round(job *j) {
  const round *r = j->context;
  float *all = run_members(r);
  size_t size = (size_t)sim_count_of(&r->members[0].out) * sizeof *all;
  for (uint32_t i = 0; all && i < r->size; i++)
    memcpy(sim_floats(&r->members[i].out), (char *)all + i * size, size);
  free(all);
  return KD_OK;
}

void sim_round_free(void *context) {
  round *r = context;
  for (uint32_t i = 0; i < r->size; i++)
    point_drop(r->members[i].ready);
  point_drop(r->done);
  joined_drop(r->joined);
  free(r->early);
  free(r);
}

void sim_round_failed(void *context) {
  const round *r = context;
  if (r->joined) joined_fail(r->joined);
}

static kd_status group_create(kd_device *const *members, uint32_t size,
                              kd_group **out_group) {
  kd_group *group = calloc(1, sizeof *group + size * sizeof(kd_device *));
  if (!group) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  group->size = size;
  memcpy(group->devices, members, size * sizeof(kd_device *));
  *out_group = group;
  return KD_OK;
}

static void group_destroy(kd_group *group) {
  if (group->joined) joined_leave(group->joined);
  free(group);
}

/* A stream's work waits until all have come, and goes on when the first has done it. */
static void push_round(round *r, kd_stream *const *streams) {
  for (uint32_t i = 0; i < r->size; i++)
    sim_push(streams[i], &(job){.kind = JOB_RECORD,
                                .point = point_hold(r->members[i].ready)});
  point *done = point_hold(r->done);
  for (uint32_t i = 1; i < r->size && !BUG(group_hurries); i++)
    sim_push(streams[0], &(job){.kind = JOB_WAIT,
                                .point = point_hold(r->members[i].ready)});
  uint32_t size = r->size; /* it may be gone when it was pushed */
  sim_push(streams[0],
           &(job){.kind = JOB_COLLECT, .run = run_round, .context = r});
  sim_push(streams[0], &(job){.kind = JOB_RECORD, .point = point_hold(done)});
  for (uint32_t i = 1; i < size && !BUG(group_leaves); i++)
    sim_push(streams[i], &(job){.kind = JOB_WAIT, .point = point_hold(done)});
  point_drop(done);
}

/* The others are elsewhere: it waits for them when it runs. */
static kd_status push_joined(round *r, kd_stream *stream) {
  const arg *in = &r->members[0].in;
  size_t size = (size_t)sim_count_of(in) * sizeof(float);
  if (BUG(joined_hurries) && in->present && (r->early = malloc(size + 1)))
    memcpy(r->early, sim_floats(in), size);
  kd_status status = sim_push(
      stream, &(job){.kind = JOB_COLLECT, .run = joined_run, .context = r});
  if (status != KD_OK) sim_round_free(r);
  return status;
}

static kd_status check_round(const kd_group *group, const kd_collective *what) {
  if (group->joined && joined_is_aborted(group->joined))
    return FAIL(KD_ABORTED, "the group has been given up");
  for (uint32_t i = 0; i < group->size; i++) {
    SIM_TRY(sim_check(group->devices[i]));
    /* a record, and the waits behind it */
    if (!sim_has_room(what->streams[i], i ? 2 : group->size))
      return FAIL(KD_BUSY, "no more fits into the queue of the stream");
    if (what->outputs[i].dtype != KD_F32)
      return FAIL(KD_UNIMPLEMENTED, "groups work on f32 only");
  }
  if (BUG(group_any)) return KD_OK;
  return what->kind <= KD_ALL_TO_ALL && what->reduction <= KD_REDUCE_MAX &&
                 !what->flags
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED, "no collective %u with reduction %u",
                    what->kind, what->reduction);
}

static kd_status group_enqueue(kd_group *group, const kd_collective *what) {
  SIM_TRY(check_round(group, what));
  round *r = calloc(1, sizeof *r + group->size * sizeof *r->members);
  if (!r) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  r->kind = what->kind;
  r->reduction = what->reduction;
  r->root = what->root;
  r->size = group->size;
  r->done = point_new();
  r->joined = group->joined ? joined_hold(group->joined) : NULL;
  for (uint32_t i = 0; i < group->size; i++)
    r->members[i] = (member){sim_arg(&what->inputs[i]),
                             sim_arg(&what->outputs[i]), point_new()};
  if (r->joined) return push_joined(r, what->streams[0]);
  push_round(r, what->streams);
  return KD_OK;
}

kd_collective_table sim_collectives = {
    .struct_size = sizeof(kd_collective_table),
    .create = group_create,
    .destroy = group_destroy,
    .enqueue = group_enqueue,
    .make_id = joined_make_id,
    .join = joined_join,
    .status = joined_status,
    .abort = joined_abort,
};
