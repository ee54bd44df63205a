/* group.c - collectives of two devices. */
#include <math.h>

#include "rules/rules.h"

enum { N = 12 };

typedef struct member {
  kd_device *device;
  kd_stream *stream;
  kc_buffer *in, *out;
  float x[2 * N], y[2 * N];
} member;

static member members[2];
static kd_group *group;

static void set_up(void) {
  kc_need_two_devices();
  kd_device *devices[2];
  for (uint32_t i = 0; i < 2; i++) {
    member *m = &members[i];
    devices[i] = m->device = kc_device_at(i);
    m->stream = kc_claims(KC_ASYNC) ? kc_stream_make(m->device) : NULL;
    m->in = kc_buffer_in(m->device, 0, sizeof m->x);
    m->out = kc_buffer_in(m->device, 0, sizeof m->y);
    for (int k = 0; k < 2 * N; k++) {
      m->x[k] = (float)((int)i * 5 + k % 7 - 3);
      m->y[k] = -99;
    }
    kc_write(m->in, 0, m->x, sizeof m->x);
    kc_write(m->out, 0, m->y, sizeof m->y);
  }
  kd_status status = kp.g.create(devices, 2, &group);
  if (status == KD_UNIMPLEMENTED)
    kc_unclaimed("its devices can't work together");
  kc_ok(status, "collective.create");
}

static kd_tensor view(kc_buffer *buffer, const int64_t *dims) {
  return (kd_tensor){.buffer = buffer->handle,
                     .data = buffer->address,
                     .offset = buffer->offset,
                     .size = (uint64_t)dims[0] * 4,
                     .dims = dims,
                     .dtype = KD_F32,
                     .rank = 1};
}

static kd_status enqueue(uint32_t kind, uint32_t reduction, uint32_t root,
                         const int64_t *in_dims, const int64_t *out_dims) {
  kd_stream *const streams[] = {members[0].stream, members[1].stream};
  kd_tensor in[2], out[2];
  for (uint32_t i = 0; i < 2; i++) {
    in[i] = kind == KD_BROADCAST && i != root ? (kd_tensor){.dtype = KD_NONE}
                                              : view(members[i].in, in_dims);
    out[i] = view(members[i].out, out_dims);
  }
  const kd_collective what = {.struct_size = sizeof what,
                              .kind = kind,
                              .reduction = reduction,
                              .root = root,
                              .streams = streams,
                              .inputs = in,
                              .outputs = out};
  return KC_CALL(kd_status, kp.g.enqueue(group, &what),
                 "collective.enqueue(kind %u, reduction %u, root %u)", kind,
                 reduction, root);
}

/* What the device does not have the host does by itself. */
static void enqueue_known(uint32_t kind, uint32_t reduction, uint32_t root,
                          const int64_t *in_dims, const int64_t *out_dims) {
  kd_status status = enqueue(kind, reduction, root, in_dims, out_dims);
  if (status == KD_UNIMPLEMENTED)
    kc_unclaimed("it has not collective %u with reduction %u", kind, reduction);
  kc_ok(status, "collective.enqueue");
}

static void finish_all(void) {
  for (int i = 0; i < 2; i++) {
    kc_drain(members[i].stream);
    kc_read(members[i].out, 0, members[i].y, sizeof members[i].y);
  }
  kp.g.destroy(group);
}

static const int64_t once[1] = {N}, twice[1] = {2 * N};

static void all_reduce(void) {
  static const char *const names[] = {"sum", "product", "min", "max"};
  for (uint32_t kind = 0; kind < 4; kind++) {
    set_up();
    enqueue_known(KD_ALL_REDUCE, kind, 0, once, once);
    finish_all();
    for (int i = 0; i < 2; i++)
      for (int k = 0; k < N; k++) {
        float a = members[0].x[k], b = members[1].x[k];
        float want = kind == KD_REDUCE_SUM       ? a + b
                     : kind == KD_REDUCE_PRODUCT ? a * b
                     : kind == KD_REDUCE_MIN     ? fminf(a, b)
                                                 : fmaxf(a, b);
        kc_check(members[i].y[k] == want,
                 "all_reduce by %s: element %d of member %d is %g, expected %g",
                 names[kind], k, i, (double)members[i].y[k], (double)want);
      }
    kc_check(members[0].y[N] == -99, "all_reduce wrote behind its output");
  }
}

static void all_gather(void) {
  set_up();
  enqueue_known(KD_ALL_GATHER, 0, 0, once, twice);
  finish_all();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2 * N; k++)
      kc_check(members[i].y[k] == members[k / N].x[k % N],
               "all_gather: element %d of member %d is %g", k, i,
               (double)members[i].y[k]);
}

static void reduce_scatter(void) {
  set_up();
  enqueue_known(KD_REDUCE_SCATTER, KD_REDUCE_SUM, 0, twice, once);
  finish_all();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < N; k++)
      kc_check(
          members[i].y[k] == members[0].x[i * N + k] + members[1].x[i * N + k],
          "reduce_scatter: element %d of member %d is %g", k, i,
          (double)members[i].y[k]);
}

static void broadcast(void) {
  for (uint32_t root = 0; root < 2; root++) {
    set_up();
    enqueue_known(KD_BROADCAST, 0, root, once, once);
    finish_all();
    for (int i = 0; i < 2; i++)
      kc_check(!memcmp(members[i].y, members[root].x, N * sizeof(float)),
               "broadcast from %u: member %d has something else", root, i);
  }
}

/* Member `late` is busy before: the other waits for it, and its input is overwritten by
 * what its stream does next. */
static void check_order(uint32_t late) {
  const member *slow = &members[late], *quick = &members[1 - late];
  float fresh[N], after[N];
  set_up();
  for (int k = 0; k < N; k++) {
    fresh[k] = (float)(100 + k);
    after[k] = -1000;
  }
  kc_busy(slow->stream, 20000000);
  kc_copy_in(slow->stream, slow->in, 0, fresh, sizeof fresh);
  enqueue_known(KD_ALL_REDUCE, KD_REDUCE_SUM, 0, once, once);
  kc_copy_in(quick->stream, quick->in, 0, after, sizeof after);
  finish_all();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < N; k++)
      kc_check(members[i].y[k] == fresh[k] + quick->x[k],
               "member %u was late: element %d of member %d is %g, expected %g",
               late, k, i, (double)members[i].y[k],
               (double)(fresh[k] + quick->x[k]));
}

static void order(void) {
  if (!kc_claims(KC_ASYNC)) kc_unclaimed("it has no streams");
  check_order(0);
  check_order(1);
}

static void unknown(void) {
  set_up();
  for (uint32_t i = 0; i < 2; i++) {
    kd_status status = i ? enqueue(KD_ALL_REDUCE, 1000, 0, once, once)
                         : enqueue(1000, 0, 0, once, once);
    kc_check(status == KD_UNIMPLEMENTED, "%s 1000 gave %s",
             i ? "a reduction" : "a collective", kd_status_name(status));
    if (status != KD_OK) kc_said(status, "collective.enqueue");
  }
  finish_all();
}

#define RULE(id, check, names, sentence)                                      \
  KC_RULE(MUST, COLLECTIVE, id, check, 0, "collective.h", sentence, names,    \
          "The semantics are MPI's: ranks, order and sizes are where they go" \
          " wrong.")

static const kc_rule rules[] = {
    RULE("group.all-reduce", all_reduce,
         "kd_collective_table.create kd_collective_table.destroy"
         " kd_collective_table.enqueue kd_collective.struct_size"
         " kd_collective.kind kd_collective.reduction kd_collective.streams"
         " kd_collective.inputs kd_collective.outputs kd_collective.reserved"
         " KD_ALL_REDUCE KD_REDUCE_SUM KD_REDUCE_PRODUCT KD_REDUCE_MIN"
         " KD_REDUCE_MAX",
         "Each member's output is the reduction of all inputs"),
    RULE("group.all-gather", all_gather, "KD_ALL_GATHER",
         "Each member's output is the concatenation of all inputs in"
         " rank order"),
    RULE("group.reduce-scatter", reduce_scatter, "KD_REDUCE_SCATTER",
         "Each member's output is the reduction of its part of all inputs"),
    RULE("group.broadcast", broadcast, "KD_BROADCAST kd_collective.root",
         "Each member's output is the root's input"),
    RULE("group.order", order, "kd_collective_table.enqueue",
         "The stream continues when the member's output is complete and"
         " its input is no longer read"),
    RULE("group.unknown", unknown, "kd_collective.flags",
         "KD_UNIMPLEMENTED (a kind, reduction or dtype that it does not"
         " support"),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(reduce_sum_only, "group.all-reduce", "every reduction is a sum"),
    DEFECT(gather_order, "group.all-gather", "parts are gathered in the wrong order"),
    DEFECT(scatter_first, "group.reduce-scatter", "every member gets the first part"),
    DEFECT(root_zero, "group.broadcast", "the root is always member 0"),
    DEFECT(group_hurries, "group.order", "a group does not wait for what its members do before"),
    DEFECT(group_leaves, "group.order", "members go on before the others have read their inputs"),
    DEFECT(group_any, "group.unknown", "a kind of collective that is not known is taken"),
};
/* clang-format on */

KC_AREA(group, "Collectives");
