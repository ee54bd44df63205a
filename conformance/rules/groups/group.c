/* group.c - collectives of two devices. */
#include <math.h>

#include "rules/groups/group.h"

group_member group_members[2];
static kd_group *group;

void group_fill(void) {
  kc_need_two_devices();
  for (uint32_t i = 0; i < 2; i++) {
    group_member *m = &group_members[i];
    m->device = kc_device_at(i);
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
}

static void set_up(void) {
  group_fill();
  kd_device *devices[] = {group_members[0].device, group_members[1].device};
  kd_status status = kp.g.create(devices, 2, &group);
  if (status == KD_UNIMPLEMENTED)
    kc_unclaimed("its devices can't work together");
  kc_ok(status, "collective.create");
}

kd_tensor group_view(kc_buffer *buffer, const int64_t *dims) {
  return (kd_tensor){.buffer = buffer->handle,
                     .data = buffer->address,
                     .offset = buffer->offset,
                     .size = (uint64_t)dims[0] * 4,
                     .dims = dims,
                     .dtype = KD_F32,
                     .rank = 1};
}

static kd_status rules_group_enqueue(uint32_t kind, uint32_t reduction,
                                     uint32_t root, const int64_t *in_dims,
                                     const int64_t *out_dims) {
  kd_stream *const streams[] = {group_members[0].stream,
                                group_members[1].stream};
  kd_tensor in[2], out[2];
  for (uint32_t i = 0; i < 2; i++) {
    in[i] = kind == KD_BROADCAST && i != root
                ? (kd_tensor){.dtype = KD_NONE}
                : group_view(group_members[i].in, in_dims);
    out[i] = group_view(group_members[i].out, out_dims);
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
  kd_status status =
      rules_group_enqueue(kind, reduction, root, in_dims, out_dims);
  if (status == KD_UNIMPLEMENTED)
    kc_unclaimed("it has not collective %u with reduction %u", kind, reduction);
  kc_ok(status, "collective.enqueue");
}

void group_read(void) {
  for (int i = 0; i < 2; i++) {
    kc_drain(group_members[i].stream);
    kc_read(group_members[i].out, 0, group_members[i].y,
            sizeof group_members[i].y);
  }
}

static void finish_all(void) {
  group_read();
  kp.g.destroy(group);
}

/* Element `k` of what member `i` gets. */
static float group_wanted(uint32_t kind, uint32_t reduction, uint32_t root,
                          int i, int k) {
  int at = kind == KD_REDUCE_SCATTER ? i * N + k : k;
  float a = group_members[0].x[at], b = group_members[1].x[at];
  switch (kind) {
    case KD_ALL_GATHER:
      return group_members[k / N].x[k % N];
    case KD_ALL_TO_ALL:
      return group_members[k / (N / 2)].x[i * (N / 2) + k % (N / 2)];
    case KD_BROADCAST:
      return group_members[root].x[k];
    default:
      return reduction == KD_REDUCE_SUM       ? a + b
             : reduction == KD_REDUCE_PRODUCT ? a * b
             : reduction == KD_REDUCE_MIN     ? fminf(a, b)
                                              : fmaxf(a, b);
  }
}

void group_check(uint32_t kind, uint32_t reduction, uint32_t root,
                 const char *what) {
  int count = kind == KD_ALL_GATHER ? 2 * N : N;
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < count; k++) {
      float want = group_wanted(kind, reduction, root, i, k);
      kc_check(group_members[i].y[k] == want,
               "%s: element %d of member %d is %g, expected %g", what, k, i,
               (double)group_members[i].y[k], (double)want);
    }
    if (count == N)
      kc_check(group_members[i].y[N] == -99, "%s wrote behind its output",
               what);
  }
}

const int64_t *group_dims(uint32_t kind, bool output) {
  static const int64_t once[1] = {N}, twice[1] = {2 * N};
  return kind == (output ? KD_ALL_GATHER : KD_REDUCE_SCATTER) ? twice : once;
}

static void group_check_kind(uint32_t kind, uint32_t reduction, uint32_t root,
                             const char *what) {
  set_up();
  enqueue_known(kind, reduction, root, group_dims(kind, false),
                group_dims(kind, true));
  finish_all();
  group_check(kind, reduction, root, what);
}

static void group_all_reduce(void) {
  static const char *const names[] = {"all_reduce by sum",
                                      "all_reduce by product",
                                      "all_reduce by min", "all_reduce by max"};
  for (uint32_t reduction = 0; reduction < 4; reduction++)
    group_check_kind(KD_ALL_REDUCE, reduction, 0, names[reduction]);
}

static void all_gather(void) {
  group_check_kind(KD_ALL_GATHER, 0, 0, "all_gather");
}

static void group_reduce_scatter(void) {
  group_check_kind(KD_REDUCE_SCATTER, KD_REDUCE_SUM, 0, "reduce_scatter");
}

static void all_to_all(void) {
  group_check_kind(KD_ALL_TO_ALL, 0, 0, "all_to_all");
}

static void group_broadcast(void) {
  group_check_kind(KD_BROADCAST, 0, 0, "broadcast from 0");
  group_check_kind(KD_BROADCAST, 0, 1, "broadcast from 1");
}

/* Member `late` is busy before: the other waits for it, and its input is overwritten by
 * what its stream does next. */
static void check_order(uint32_t late) {
  const group_member *slow = &group_members[late],
                     *quick = &group_members[1 - late];
  const int64_t *once = group_dims(KD_ALL_REDUCE, false);
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
      kc_check(group_members[i].y[k] == fresh[k] + quick->x[k],
               "member %u was late: element %d of member %d is %g, expected %g",
               late, k, i, (double)group_members[i].y[k],
               (double)(fresh[k] + quick->x[k]));
}

static void group_order(void) {
  if (!kc_claims(KC_ASYNC)) kc_unclaimed("it has no streams");
  check_order(0);
  check_order(1);
}

static void unknown(void) {
  const int64_t *once = group_dims(KD_ALL_REDUCE, false);
  set_up();
  for (uint32_t i = 0; i < 2; i++) {
    kd_status status =
        i ? rules_group_enqueue(KD_ALL_REDUCE, 1000, 0, once, once)
          : rules_group_enqueue(1000, 0, 0, once, once);
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

#define JOIN(id, check, names, sentence, why) \
  KC_RULE(MUST, COLLECTIVE, id, check, 0, "collective.h", sentence, names, why)

static const kc_rule rules[] = {
    RULE("group.all-reduce", group_all_reduce,
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
    RULE("group.reduce-scatter", group_reduce_scatter, "KD_REDUCE_SCATTER",
         "Each member's output is the reduction of its part of all inputs"),
    RULE("group.broadcast", group_broadcast, "KD_BROADCAST kd_collective.root",
         "Each member's output is the root's input"),
    RULE("group.all-to-all", all_to_all, "KD_ALL_TO_ALL",
         "Each member's output is the concatenation, in rank order, of its part"
         " of all inputs"),
    RULE("group.order", group_order, "kd_collective_table.enqueue",
         "The stream continues when the member's output is complete and"
         " its input is no longer read"),
    RULE("group.unknown", unknown, "kd_collective.flags",
         "KD_UNIMPLEMENTED (a kind, reduction or dtype that it does not"
         " support"),
    JOIN("group.id", group_id,
         "kd_collective_table.make_id kd_group_id.bytes KD_GROUP_MACHINES",
         "Each call gives another id",
         "Groups of two jobs on one machine would mix."),
    JOIN("group.join", group_join,
         "kd_collective_table.join kd_collective_table.status"
         " kd_join.struct_size kd_join.rank kd_join.size kd_join.id",
         "Makes an open device a member of a group, whose other members "
         "join"
         " in other processes, or in this one",
         "What one process does with its devices several do, each with its"
         " own."),
    JOIN("group.join-order", group_join_order, "kd_collective_table.enqueue",
         "In a group that was joined it is the work of one member",
         "The members' streams know nothing of each other."),
    JOIN("group.join-refused", group_join_refused, "kd_join.flags",
         "an id that make_id did not return, or an invalid size or rank",
         "A member that nobody counts on would wait for ever."),
    JOIN("group.abort", group_abort, "kd_collective_table.abort",
         "Aborts a group that was joined",
         "A process that was killed must not hang the others."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(reduce_sum_only, "group.all-reduce", "every reduction is a sum"),
    DEFECT(gather_order, "group.all-gather", "parts are gathered in the wrong order"),
    DEFECT(scatter_first, "group.reduce-scatter", "every member gets the first part"),
    DEFECT(root_zero, "group.broadcast", "the root is always member 0"),
    DEFECT(group_hurries, "group.order", "a group does not wait for what its members do before"),
    DEFECT(group_leaves, "group.order", "members go on before the others have read their inputs"),
    DEFECT(turned_own, "group.all-to-all", "each member keeps its own parts"),
    DEFECT(id_same, "group.id", "all ids are the same"),
    DEFECT(status_early, "group.join", "a group counts as whole before all have joined"),
    DEFECT(join_ranks, "group.join", "members that join get other ranks"),
    DEFECT(joined_hurries, "group.join-order", "a joined group does not wait for what its member does before"),
    DEFECT(join_any, "group.join-refused", "a member joins whose rank is none"),
    DEFECT(abort_nothing, "group.abort", "work that waits for others goes on when its group is given up"),
    DEFECT(abort_succeeds, "group.abort", "work of a group that was given up counts as done"),
    DEFECT(status_forgets, "group.abort", "a group that was given up counts as sound"),
    DEFECT(group_any, "group.unknown", "a kind of collective that is not known is taken"),
};
/* clang-format on */

KC_AREA(group, "Collectives");
