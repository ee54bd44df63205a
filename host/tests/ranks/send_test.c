/* send_test.c - what one member of a group sends to another: in any order of their coming, through
 * programs of several stages, with gradients, and what goes wrong. */
#ifdef SIM_PLUGIN

#include <keel/group.h>

#define WORKERS 2
#define BESIDE  SIM_PLUGIN
#include "with_cpu.h"

enum { STAGES = 3, PIECES = 5, SIDE = 4 };

static const int64_t square[] = {SIDE, SIDE};

static keel_group *group;
static keel_tensor *members[STAGES];

SETUP(open_group) {
  keel_device *devices[] = {find_device(context, "cpu:0"),
                            find_device(context, "sim:0"),
                            find_device(context, "sim:1")};
  expect_ok(keel_group_create(devices, STAGES, &group));
  expect_ok(keel_group_members(group, members));
  return 0;
}

SETUP(close_group) {
  release_all(members, STAGES);
  keel_group_release(group);
  return 0;
}

/* Before the test ends. */
static void end_member(uint32_t rank) {
  keel_tensor_release(members[rank]);
  members[rank] = NULL;
}

static keel_tensor *filled(float from) {
  float data[SIDE * SIDE];
  for (int i = 0; i < SIDE * SIDE; i++)
    data[i] = from + (float)(i % 3);
  return create_tensor(context, KD_F32, 2, square, data);
}

static void expect_filled(keel_tensor *tensor, float scale, float from) {
  float data[SIDE * SIDE];
  expect_ok(keel_tensor_wait(tensor));
  expect_ok(keel_tensor_read(tensor, data, sizeof data));
  for (int i = 0; i < SIDE * SIDE; i++)
    if (data[i] != scale * (from + (float)(i % 3)))
      fail_msg("element %d is %g", i, (double)data[i]);
}

static keel_tensor *send(keel_tensor *member, int64_t to, keel_tensor *x) {
  const keel_attr attr = KEEL_INT("to", to);
  keel_tensor *in[] = {member, x},
              *y = call_op(context, "keel::Send", &attr, 1, in, 2);
  return y;
}

#define RECEIVED(peer)                                 \
  {                                                    \
    KEEL_INT("from", peer), KEEL_INT("dtype", KD_F32), \
        KEEL_INTS("shape", 2, square)                  \
  }

static keel_tensor *receive(keel_tensor *member, int64_t from) {
  const keel_attr attrs[] = RECEIVED(from);
  keel_tensor *y = call_op(context, "keel::Receive", attrs, 3, &member, 1);
  return y;
}

/* Either may come first, and messages keep their order. */
TEST_THAT(in_order) {
  for (int late = 0; late < 2; late++) {
    keel_tensor *sent[PIECES], *came[PIECES];
    for (int step = 0; step < 2; step++)
      for (int i = 0; i < PIECES; i++)
        if (step == late) {
          keel_tensor *x = filled((float)(10 * i));
          sent[i] = send(members[2], 0, x);
          keel_tensor_release(x);
        } else {
          came[i] = receive(members[0], 2);
        }
    for (int i = 0; i < PIECES; i++) {
      expect_filled(came[i], 1, (float)(10 * i));
      expect_filled(sent[i], 1, (float)(10 * i));
    }
    release_all(came, PIECES);
    release_all(sent, PIECES);
  }
}

/* What is sent before it is known comes when it is; what has failed fails. */
TEST_THAT(of_promises) {
  keel_tensor *promise = NULL, *x = filled(1);
  expect_ok(keel_tensor_promise(context, &promise));
  expect_ok(keel_tensor_fail(promise, KD_DATA_LOSS, "it went wrong"));
  keel_tensor *came = receive(members[1], 0);
  keel_tensor *sent = send(members[0], 1, promise);
  expect_fails(keel_tensor_wait(came), KD_DATA_LOSS, "it went wrong");
  RELEASE(sent, came);
  came = receive(members[1], 0);
  sent = send(members[0], 1, x); /* and the next goes on */
  expect_filled(came, 1, 1);
  RELEASE(sent, came, promise, x);
}

/* ---- stages ---------------------------------------------------------------------------- */

/* Doubles what comes from the rank before, and passes it on, piece by piece. The first takes
 * inputs, the last gives outputs. */
static keel_plan *stage(uint32_t rank, keel_device *device) {
  keel_builder *b = create_builder(context, "stage");
  const keel_value member = keel_builder_resource(b, "member");
  keel_value pieces[PIECES];
  for (int i = 0; i < PIECES; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    const keel_attr attrs[] = RECEIVED(rank - 1);
    pieces[i] = rank ? keel_builder_op(b, "keel::Receive", attrs, 3, &member, 1)
                     : keel_builder_input(b, name, KD_F32, 2, square);
  }
  for (int i = 0; i < PIECES; i++) {
    const keel_attr to = KEEL_INT("to", rank + 1);
    keel_value y = op(b, "Add", pieces[i], pieces[i]);
    if (rank + 1 < STAGES)
      keel_builder_op(b, "keel::Send", &to, 1, (keel_value[]){member, y}, 2);
    else
      keel_builder_output(b, "y", y);
  }
  if (rank + 1 < STAGES)
    keel_builder_output(b, "rank", op(b, "keel::Rank", member, KEEL_ABSENT));
  return finish_plan(b, PLAN_PARAMS(.device = device));
}

TEST_THAT(a_pipe) {
  keel_tensor *rank[STAGES] = {NULL}, *y[PIECES];
  keel_plan *plans[STAGES];
  for (int run = 0; run < 50; run++) {
    for (uint32_t r = 0; r < STAGES; r++) {
      keel_tensor *in[PIECES + 1] = {members[r]};
      uint32_t count = r ? 1 : PIECES + 1;
      for (uint32_t i = 1; i < count; i++)
        in[i] = filled((float)(10 * i));
      if (!run) plans[r] = stage(r, keel_group_device(group, r));
      expect_ok(keel_plan_begin(plans[r], NULL, in, count,
                                r + 1 < STAGES ? &rank[r] : y,
                                r + 1 < STAGES ? 1 : PIECES));
      release_all(in, count);
      members[r] = NULL;
    }
    for (int i = 0; i < PIECES; i++) {
      expect_filled(y[i], 8, (float)(10 * (i + 1)));
      keel_tensor_release(y[i]);
    }
    for (int r = 0; r + 1 < STAGES; r++)
      expect_ok(keel_tensor_wait(rank[r]));
    release_all(rank, STAGES - 1);
    close_group(state);
    open_group(state);
  }
  for (int r = 0; r < STAGES; r++)
    keel_plan_release(plans[r]);
}

/* Rank 0 first waits for what rank 1 makes of what rank 0 sends behind it. Its rank is asked
 * between. */
TEST_THAT(a_wait_holds_nobody_up) {
  keel_tensor *x = filled(2), *y[2], *rank = NULL;
  keel_plan *plans[2];
  for (uint32_t r = 0; r < 2; r++) {
    keel_builder *b = create_builder(context, "crossing");
    const keel_value member = keel_builder_resource(b, "member");
    const keel_attr from[] = RECEIVED(1 - r), to = KEEL_INT("to", 1 - r);
    const keel_value got =
        keel_builder_op(b, "keel::Receive", from, 3, &member, 1);
    keel_builder_output(b, "y", got);
    if (!r)
      keel_builder_output(b, "rank", op(b, "keel::Rank", member, KEEL_ABSENT));
    const keel_value give = r ? op(b, "Add", got, got)
                              : keel_builder_input(b, "x", KD_F32, 2, square);
    keel_builder_op(b, "keel::Send", &to, 1, (keel_value[]){member, give}, 2);
    plans[r] =
        finish_plan(b, PLAN_PARAMS(.device = keel_group_device(group, r)));
    keel_tensor *in[] = {members[r], x}, *out[2] = {NULL};
    expect_ok(keel_plan_begin(plans[r], NULL, in, r ? 1 : 2, out, r ? 1 : 2));
    y[r] = out[0];
    if (!r) rank = out[1];
  }
  expect_filled(y[0], 2, 2);
  expect_filled(y[1], 1, 2);
  expect_ok(keel_tensor_wait(rank));
  release_all(y, 2);
  RELEASE(rank, x, plans[0], plans[1]);
}

/* A run that waits for a message, which comes later, has nothing to compute meanwhile. */
TEST_THAT(a_profile) {
  keel_tensor *out[PIECES];
  keel_profile_exchanges times;
  keel_plan *plan = stage(STAGES - 1, keel_group_device(group, STAGES - 1));
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor *member = members[STAGES - 1];
  expect_ok(keel_plan_begin(plan, NULL, &member, 1, out, PIECES));
  for (int i = 0; i < PIECES; i++) {
    keel_tensor *x = filled(1);
    keel_tensor_release(send(members[STAGES - 2], STAGES - 1, x));
    keel_tensor_release(x);
    expect_filled(out[i], 2, 1);
  }
  keel_plan_profile(plan, 0);
  keel_plan_profile_exchanges(plan, &times);
  assert_true(times.calls >= 1 && times.calls <= PIECES);
  assert_true(times.bare > 0 && times.bare <= times.time);
  keel_plan_profile(plan, KEEL_PROFILE_OPS); /* from zero */
  keel_plan_profile(plan, 0);
  keel_plan_profile_exchanges(plan, &times);
  assert_true(!times.calls && !times.time && !times.bare);
  release_all(out, PIECES);
  keel_plan_release(plan);
}

/* ---- gradients --------------------------------------------------------------------------- */

/* Rank 0 has x, and sends 2 x; rank 1 has w, and the loss w * 2 x. */
TEST_THAT(gradients) {
  keel_plan *plans[2];
  keel_tensor *out[2], *x = filled(1), *w = filled(5);
  for (uint32_t r = 0; r < 2; r++) {
    keel_builder *b = create_builder(context, "gradient");
    const keel_value member = keel_builder_resource(b, "member");
    const keel_value v =
        keel_builder_input(b, r ? "w" : "x", KD_F32, 2, square);
    keel_value y = KEEL_ABSENT;
    if (r == 0) {
      const keel_attr to = KEEL_INT("to", 1);
      y = keel_builder_op(b, "keel::Send", &to, 1,
                          (keel_value[]){member, op(b, "Add", v, v)}, 2);
    } else {
      const keel_attr attrs[] = RECEIVED(0);
      y = op(b, "Mul", v,
             keel_builder_op(b, "keel::Receive", attrs, 3, &member, 1));
    }
    keel_builder_output(b, "d", gradient_of(b, r ? "w" : "x", v, "y", y));
    plans[r] =
        finish_plan(b, PLAN_PARAMS(.device = keel_group_device(group, r)));
    keel_tensor *in[] = {members[r], r ? w : x};
    expect_ok(keel_plan_begin(plans[r], NULL, in, 2, &out[r], 1));
  }
  /* of the sum of both ranks' y: 2 x itself, and w * 2 x */
  float dx[SIDE * SIDE], given[SIDE * SIDE];
  expect_ok(keel_tensor_wait(out[0]));
  expect_ok(keel_tensor_read(out[0], dx, sizeof dx));
  expect_ok(keel_tensor_read(w, given, sizeof given));
  for (int i = 0; i < SIDE * SIDE; i++)
    assert_true(dx[i] == 2 + 2 * given[i]);
  expect_filled(out[1], 2, 1);
  release_all(out, 2);
  RELEASE(x, w, plans[0], plans[1]);
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

TEST_THAT(nobody_sends) {
  keel_tensor *came = receive(members[0], 2);
  end_member(1); /* it was not to */
  assert_int_equal(keel_tensor_query(came), KD_BUSY);
  end_member(2);
  expect_fails(
      keel_tensor_wait(came), KD_ABORTED,
      "rank 2 (sim:1) has ended before it has sent the value that rank 0"
      " (cpu:0) waits for in Receive");
  keel_tensor_release(came);
  keel_tensor *late = NULL;
  const keel_attr attrs[] = RECEIVED(1);
  assert_int_equal(
      keel_call(context, "keel::Receive", attrs, 3, members, 1, &late, 1),
      KD_ABORTED);
}

TEST_THAT(nobody_receives) {
  keel_tensor *x = filled(1), *y = NULL;
  const keel_attr to = KEEL_INT("to", 1);
  keel_tensor_release(send(members[2], 1, x)); /* lost with rank 1 */
  end_member(1);
  keel_tensor *in[] = {members[0], x};
  expect_fails(keel_call(context, "keel::Send", &to, 1, in, 2, &y, 1),
               KD_ABORTED, "rank 1 (sim:0) has ended without receiving");
  keel_tensor_release(x);
}

TEST_THAT(other_types) {
  keel_tensor *x = NULL, *y = NULL;
  const float data[SIDE] = {0};
  const keel_attr to = KEEL_INT("to", 1);
  keel_tensor *came = receive(members[1], 0);
  x = create_tensor(context, KD_F32, DIMS(SIDE), data);
  keel_tensor *in[] = {members[0], x};
  expect_fails(keel_call(context, "keel::Send", &to, 1, in, 2, &y, 1),
               KD_INVALID_ARGUMENT,
               "rank 0 sends f32[4] (Send), and rank 1 receives f32[4,4]");
  assert_int_equal(keel_tensor_wait(came), KD_INVALID_ARGUMENT);
  RELEASE(x, came);
}

static void expect_refused(keel_tensor *member, int64_t from, int64_t dim,
                           const char *part) {
  const int64_t dims[] = {dim};
  const keel_attr attrs[] = {KEEL_INT("from", from),
                             KEEL_INTS("shape", 1, dims)};
  keel_tensor *y = NULL;
  expect_fails(keel_call(context, "keel::Receive", attrs, 2, &member, 1, &y, 1),
               KD_INVALID_ARGUMENT, part);
}

TEST_THAT(what_is_refused) {
  keel_tensor *x = filled(1);
  expect_refused(members[0], 0, 1, "names rank 0, which is this one");
  expect_refused(members[0], 3, 1, "names rank 3, and the group has 3 members");
  expect_refused(members[0], -1, 1, "names rank -1");
  expect_refused(members[0], 1, -1, "Receive");
  expect_refused(x, 1, 1, "takes a member, and got");
  keel_tensor_release(x);
}

int main(void) {
  around_each(open_group, close_group);
  return tests_run(open_cpu, close_context);
}

#else
int main(void) {
  return 77;
}
#endif
