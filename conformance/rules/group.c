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
  kc_ok(kc_open(), "open");
  if (KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count") < 2)
    kc_unclaimed("there is one device");
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
  kd_status status =
      KC_CALL(kd_status, kp.g.create(devices, 2, &group), "collective.create");
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

static void finish_all(void) {
  for (int i = 0; i < 2; i++) {
    if (members[i].stream) kc_ok(kc_finish(members[i].stream), "waiting");
    kc_read(members[i].out, 0, members[i].y, sizeof members[i].y);
  }
  KC_DO(kp.g.destroy(group), "collective.destroy");
}

static void all_reduce(void) {
  static const char *const names[] = {"sum", "product", "min", "max"};
  static const int64_t dims[1] = {N};
  if (!kp.g.all_reduce) kc_unclaimed("all_reduce is NULL");
  for (uint32_t kind = 0; kind < 4; kind++) {
    set_up();
    for (uint32_t i = 0; i < 2; i++) {
      kd_tensor in = view(members[i].in, dims),
                out = view(members[i].out, dims);
      kc_ok(
          KC_CALL(kd_status,
                  kp.g.all_reduce(group, i, members[i].stream, kind, &in, &out),
                  "collective.all_reduce(%s)", names[kind]),
          "all_reduce");
    }
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
  static const int64_t one[1] = {N}, two[1] = {2 * N};
  if (!kp.g.all_gather) kc_unclaimed("all_gather is NULL");
  set_up();
  for (uint32_t i = 0; i < 2; i++) {
    kd_tensor in = view(members[i].in, one), out = view(members[i].out, two);
    kc_ok(KC_CALL(kd_status,
                  kp.g.all_gather(group, i, members[i].stream, &in, &out),
                  "collective.all_gather"),
          "all_gather");
  }
  finish_all();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2 * N; k++)
      kc_check(members[i].y[k] == members[k / N].x[k % N],
               "all_gather: element %d of member %d is %g", k, i,
               (double)members[i].y[k]);
}

static void reduce_scatter(void) {
  static const int64_t half[1] = {N}, whole[1] = {2 * N};
  if (!kp.g.reduce_scatter) kc_unclaimed("reduce_scatter is NULL");
  set_up();
  for (uint32_t i = 0; i < 2; i++) {
    kd_tensor in = view(members[i].in, whole), out = view(members[i].out, half);
    kc_ok(KC_CALL(kd_status,
                  kp.g.reduce_scatter(group, i, members[i].stream,
                                      KD_REDUCE_SUM, &in, &out),
                  "collective.reduce_scatter"),
          "reduce_scatter");
  }
  finish_all();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < N; k++)
      kc_check(
          members[i].y[k] == members[0].x[i * N + k] + members[1].x[i * N + k],
          "reduce_scatter: element %d of member %d is %g", k, i,
          (double)members[i].y[k]);
}

static void broadcast(void) {
  static const int64_t dims[1] = {N};
  if (!kp.g.broadcast) kc_unclaimed("broadcast is NULL");
  for (uint32_t root = 0; root < 2; root++) {
    set_up();
    for (uint32_t i = 0; i < 2; i++) {
      kd_tensor tensor = view(members[i].in, dims);
      kc_ok(KC_CALL(kd_status,
                    kp.g.broadcast(group, i, members[i].stream, root, &tensor),
                    "collective.broadcast(root %u)", root),
            "broadcast");
    }
    finish_all();
    for (int i = 0; i < 2; i++) {
      float back[N];
      kc_read(members[i].in, 0, back, sizeof back);
      kc_check(!memcmp(back, members[root].x, sizeof back),
               "broadcast from %u: member %d has something else", root, i);
    }
  }
}

static void send_receive(void) {
  static const int64_t dims[1] = {N};
  if (!kp.g.send || !kp.g.receive) kc_unclaimed("send or receive is NULL");
  set_up();
  kd_tensor from = view(members[0].in, dims), to = view(members[1].out, dims);
  kc_ok(KC_CALL(kd_status, kp.g.send(group, 0, members[0].stream, 1, &from),
                "collective.send"),
        "send");
  kc_ok(KC_CALL(kd_status, kp.g.receive(group, 1, members[1].stream, 0, &to),
                "collective.receive"),
        "receive");
  finish_all();
  for (int k = 0; k < N; k++)
    kc_check(members[1].y[k] == members[0].x[k], "element %d is %g", k,
             (double)members[1].y[k]);
}

#define RULE(id, check, names, sentence)                                      \
  KC_RULE(MUST, COLLECTIVE, id, check, 0, "collective.h", sentence, names,    \
          "The semantics are MPI's: ranks, order and sizes are where they go" \
          " wrong.")

static const kc_rule rules[] = {
    RULE("group.all-reduce", all_reduce,
         "kd_collective_table.all_reduce kd_collective_table.create"
         " kd_collective_table.destroy KD_REDUCE_SUM KD_REDUCE_PRODUCT"
         " KD_REDUCE_MIN KD_REDUCE_MAX",
         "Gives each member the reduction of all members' inputs"),
    RULE("group.all-gather", all_gather, "kd_collective_table.all_gather",
         "Gives each member all members' inputs, one behind the other by rank"),
    RULE("group.reduce-scatter", reduce_scatter,
         "kd_collective_table.reduce_scatter",
         "gives each member the part of its rank"),
    RULE("group.broadcast", broadcast, "kd_collective_table.broadcast",
         "Gives the root's tensor to all members"),
    RULE("group.send-receive", send_receive,
         "kd_collective_table.send kd_collective_table.receive",
         "the calls never block"),
};

KC_AREA(group, "Collectives");
