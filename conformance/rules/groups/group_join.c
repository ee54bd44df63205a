/* group_join.c - groups of two devices that each join by themselves, as processes do. */
#include "rules/groups/group.h"

static kd_group *groups[2];

static void need_join(void) {
  if (!kp.g.join) kc_unclaimed("its devices join no groups");
  if (!kc_claims(KC_ASYNC)) kc_unclaimed("it has no streams");
}

static kd_group_id new_id(kd_device *device) {
  kd_group_id id;
  kd_status status = kp.g.make_id(device, 0, &id);
  if (status == KD_UNIMPLEMENTED)
    kc_unclaimed("its devices can't work together");
  kc_ok(status, "collective.make_id");
  return id;
}

static kd_status group_join_join(uint32_t rank, const kd_group_id *id) {
  const kd_join what = {
      .struct_size = sizeof what, .rank = rank, .size = 2, .id = id};
  return kp.g.join(group_members[rank].device, &what, &groups[rank]);
}

/* A group's status, as soon as it is another one than KD_BUSY. */
static kd_status await_status(kd_group *group) {
  uint64_t until = kc_now() + (uint64_t)(20 * kc_patience()) * KC_S;
  kd_status status = KD_BUSY;
  while ((status = kp.g.status(group)) == KD_BUSY && kc_now() < until)
    kc_sleep(KC_MS);
  return status;
}

static void join_first(void) {
  need_join();
  group_fill();
  kd_group_id id = new_id(group_members[0].device);
  kc_ok(group_join_join(0, &id), "collective.join");
  kd_status status = kp.g.status(groups[0]);
  kc_check(status == KD_BUSY, "one of two has joined, and status gives %s",
           kd_status_name(status));
  kc_ok(group_join_join(1, &id), "collective.join");
}

static void join_both(void) {
  join_first();
  for (int i = 0; i < 2; i++)
    kc_ok(await_status(groups[i]), "collective.status");
}

static void destroy_both(void) {
  for (int i = 0; i < 2; i++)
    kp.g.destroy(groups[i]);
}

/* One member's part. */
static kd_status group_join_enqueue(uint32_t rank, uint32_t kind,
                                    uint32_t reduction, uint32_t root) {
  const group_member *m = &group_members[rank];
  kd_tensor in = kind == KD_BROADCAST && rank != root
                     ? (kd_tensor){.dtype = KD_NONE}
                     : group_view(m->in, group_dims(kind, false));
  kd_tensor out = group_view(m->out, group_dims(kind, true));
  const kd_collective what = {.struct_size = sizeof what,
                              .kind = kind,
                              .reduction = reduction,
                              .root = root,
                              .streams = &m->stream,
                              .inputs = &in,
                              .outputs = &out};
  return kp.g.enqueue(groups[rank], &what);
}

/* Whether both do it: both or none know it. While members connect, the calls are made again. */
static bool enqueue_both(uint32_t kind, uint32_t reduction, uint32_t root) {
  uint64_t until = kc_now() + (uint64_t)(20 * kc_patience()) * KC_S;
  kd_status first = KD_BUSY, second = KD_BUSY;
  while ((first == KD_BUSY || second == KD_BUSY) && kc_now() < until) {
    if (first == KD_BUSY) first = group_join_enqueue(0, kind, reduction, root);
    if (second == KD_BUSY)
      second = group_join_enqueue(1, kind, reduction, root);
  }
  if (first != KD_UNIMPLEMENTED) kc_ok(first, "collective.enqueue");
  KC_NEED(first == second, "of collective %u a member gives %s, and one %s",
          kind, kd_status_name(first), kd_status_name(second));
  return first == KD_OK;
}

/* ---- rules ------------------------------------------------------------------------------- */

void group_id(void) {
  need_join();
  kc_need_two_devices();
  kd_group_id a = new_id(kc_device_at(0)), b = new_id(kc_device_at(0)),
              c = new_id(kc_device_at(1));
  kc_check(memcmp(&a, &b, sizeof a) != 0 && memcmp(&b, &c, sizeof a) != 0 &&
               memcmp(&a, &c, sizeof a) != 0,
           "two ids are the same");
  kd_status status = kp.g.make_id(kc_device_at(0), 0x00800000u, &a);
  kc_check(status == KD_UNIMPLEMENTED, "an unknown flag gave %s",
           kd_status_name(status));
  status = kp.g.make_id(kc_device_at(0), KD_GROUP_MACHINES, &a);
  if (status != KD_OK) kc_said(status, "collective.make_id");
}

void group_join(void) {
  static const char *const names[] = {
      "a joined all_reduce", "a joined all_gather", "a joined reduce_scatter",
      "a joined broadcast", "a joined all_to_all"};
  for (uint32_t kind = 0; kind <= KD_ALL_TO_ALL; kind++)
    for (uint32_t root = 0; root < (kind == KD_BROADCAST ? 2u : 1u); root++) {
      join_both();
      bool done = enqueue_both(kind, KD_REDUCE_SUM, root);
      group_read();
      destroy_both();
      if (done) group_check(kind, KD_REDUCE_SUM, root, names[kind]);
    }
}

/* Each member in turn is busy before, and its input is written then; the other overwrites its
 * own afterwards. */
void group_join_order(void) {
  float fresh[N], after[N];
  for (int k = 0; k < N; k++) {
    fresh[k] = (float)(100 + k);
    after[k] = -1000;
  }
  for (uint32_t late = 0; late < 2; late++) {
    join_both();
    const group_member *slow = &group_members[late],
                       *quick = &group_members[1 - late];
    kc_busy(slow->stream, 20000000);
    kc_copy_in(slow->stream, slow->in, 0, fresh, sizeof fresh);
    bool done = enqueue_both(KD_ALL_REDUCE, KD_REDUCE_SUM, 0);
    kc_copy_in(quick->stream, quick->in, 0, after, sizeof after);
    group_read();
    destroy_both();
    for (int i = 0; done && i < 2; i++)
      for (int k = 0; k < N; k++)
        kc_check(group_members[i].y[k] == fresh[k] + quick->x[k],
                 "member %u was late: element %d of member %d is %g", late, k,
                 i, (double)group_members[i].y[k]);
  }
}

static void group_join_refuse(const kd_join *what, kd_status want,
                              const char *how) {
  kd_group *none = NULL;
  kd_status status = kp.g.join(kc_device_at(0), what, &none);
  kc_check(status == want, "%s gave %s", how, kd_status_name(status));
  if (status == KD_OK)
    kp.g.destroy(none);
  else
    kc_said(status, "collective.join");
}

void group_join_refused(void) {
  need_join();
  kc_need_two_devices();
  kd_group_id id = new_id(kc_device_at(0)), other;
  memset(&other, 0xa5, sizeof other);
  kd_join what = {.struct_size = sizeof what, .rank = 2, .size = 2, .id = &id};
  group_join_refuse(&what, KD_INVALID_ARGUMENT, "rank 2 of 2");
  what.rank = what.size = 0;
  group_join_refuse(&what, KD_INVALID_ARGUMENT, "a group of none");
  what.size = 2;
  what.id = &other;
  group_join_refuse(&what, KD_INVALID_ARGUMENT, "an id of no make_id");
  what.id = &id;
  what.flags = 0x00800000u;
  group_join_refuse(&what, KD_UNIMPLEMENTED, "an unknown flag");
}

static void abort_from(void *context, uint32_t index) {
  (void)index;
  kp.g.abort(context);
}

static void check_aborted(kd_group *group, const char *when) {
  kd_status status = kp.g.status(group);
  if (status == KD_DEVICE_LOST) return;
  kc_check(status == KD_ABORTED, "%s, status gives %s", when,
           kd_status_name(status));
  if (status != KD_OK) kc_said(status, "collective.status");
}

/* Before the other has come; and then while work waits for the other's. */
void group_abort(void) {
  need_join();
  group_fill();
  kd_group_id id = new_id(group_members[0].device);
  kc_ok(group_join_join(0, &id), "collective.join");
  kp.g.abort(groups[0]);
  check_aborted(groups[0], "given up before all have joined");
  kp.g.destroy(groups[0]);
  join_both();
  kd_event *end = kc_event_make(group_members[0].device);
  kd_status status = KD_BUSY; /* it may be, as the other makes no call */
  for (int i = 0; i < 20 && status == KD_BUSY; i++) {
    status = group_join_enqueue(0, KD_ALL_REDUCE, KD_REDUCE_SUM, 0);
    if (status == KD_BUSY) kc_sleep(KC_MS);
  }
  if (status == KD_OK)
    kc_ok(kp.e.record(end, group_members[0].stream), "event.record");
  if (status == KD_OK && kp.s.flush) kp.s.flush(group_members[0].stream);
  kc_sleep(20 * KC_MS);
  kc_threads(1, abort_from, groups[0]);
  kp.g.abort(groups[0]); /* also twice */
  check_aborted(groups[0], "given up at work");
  if (status == KD_OK) {
    status = kp.e.wait(end, (uint64_t)(5 * kc_patience()) * KC_S);
    kc_check(status != KD_DEADLINE_EXCEEDED, "it still waits for the other");
    kc_check(status != KD_OK, "work that was given up is done well");
    kc_check(group_join_enqueue(0, KD_ALL_REDUCE, KD_REDUCE_SUM, 0) != KD_OK,
             "a group that was given up takes work");
  }
  kp.g.abort(groups[1]);
  destroy_both();
}
