/* scheduler_test.c - one thread or all: chosen by the times that runs would take, here
 * made up. */
#include "threads/scheduler.h"

#include "testing.h"

enum { STEPS = 1000, THREADS = 2, ADAPTED = 24, RUNS = 2000 };

/* Nanoseconds of a run of independent steps, or of a chain. */
typedef struct cost {
  uint64_t step;
  bool chain;
} cost;

static uint64_t time_of(cost cost, keel_run_mode mode) {
  uint64_t alone = STEPS * (cost.step + 3);
  if (mode == KEEL_SERIAL) return alone;
  return alone / (cost.chain ? 1 : THREADS) + STEPS * 50 + 2000;
}

static uint64_t run(keel_scheduler *scheduler, cost cost, uint64_t noise) {
  keel_schedule schedule = keel_scheduler_next(scheduler);
  uint64_t time = time_of(cost, schedule.mode) * noise;
  if (schedule.timed)
    keel_scheduler_note(scheduler, schedule.mode, time, STEPS, THREADS);
  return time;
}

static uint64_t best_of(cost cost) {
  uint64_t alone = time_of(cost, KEEL_SERIAL),
           shared = time_of(cost, KEEL_PARALLEL);
  return alone < shared ? alone : shared;
}

/* Runs of one cost: first some in which it is learnt, then all are near the best in sum. */
static void settles(keel_scheduler *scheduler, cost cost) {
  uint64_t sum = 0;
  for (int i = 0; i < ADAPTED; i++)
    run(scheduler, cost, 1);
  for (int i = 0; i < RUNS; i++)
    sum += run(scheduler, cost, 1);
  assert_true(sum * 100 <= best_of(cost) * RUNS * 103);
}

TEST_THAT(costs_that_change_are_followed) {
  const uint64_t phases[] = {0, 20000, 0, 1000, 50, 1000, 20000, 300, 0, 400};
  keel_scheduler scheduler = {0};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
    settles(&scheduler, (cost){phases[i], false});
}

TEST_THAT(short_phases_are_followed) {
  keel_scheduler scheduler = {0};
  for (int i = 0; i < 40; i++) {
    cost now = {i % 2 ? 20000 : 0, false};
    for (int k = 0; k < 12; k++)
      run(&scheduler, now, 1);
    assert_int_equal(atomic_load(&scheduler.mode),
                     i % 2 ? KEEL_PARALLEL : KEEL_SERIAL);
    for (int k = 0; k < 12; k++)
      run(&scheduler, now, 1);
  }
}

TEST_THAT(a_chain_is_one_threads) {
  const cost phases[] = {{20000, true}, {20000, false}, {20000, true},
                         {1000, true},  {1000, false},  {300, true}};
  keel_scheduler scheduler = {0};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    /* as long as before, but not to be shared: nothing shows it but a trial */
    for (int k = 0; k < 600; k++)
      run(&scheduler, phases[i], 1);
    settles(&scheduler, phases[i]);
  }
}

TEST_THAT(empty_steps_are_never_shared) {
  keel_scheduler scheduler = {0};
  for (int i = 0; i < RUNS; i++) {
    assert_int_equal(atomic_load(&scheduler.mode), KEEL_SERIAL);
    run(&scheduler, (cost){0}, i % 50 < 4 ? 5 : 1);
  }
}

TEST_THAT(a_slow_run_now_and_then_changes_little) {
  const uint64_t steps[] = {20000, 1000, 100};
  for (size_t i = 0; i < 3; i++) {
    keel_scheduler scheduler = {0};
    cost cost = {steps[i], false};
    uint64_t sum = 0, best = 0;
    for (int k = 0; k < RUNS; k++) {
      uint64_t noise = k % 9 == 5 || k % 40 < 2 ? 3 : 1;
      sum += run(&scheduler, cost, noise);
      best += best_of(cost) * noise;
    }
    assert_true(sum * 100 <= best * 108);
  }
}

/* The clock is read seldom where a run takes no longer than that. */
TEST_THAT(short_runs_are_seldom_timed) {
  keel_scheduler scheduler = {0};
  int timed = 0;
  for (int i = 0; i < RUNS; i++) {
    keel_schedule schedule = keel_scheduler_next(&scheduler);
    timed += schedule.timed;
    if (schedule.timed)
      keel_scheduler_note(&scheduler, schedule.mode, 100, 5, THREADS);
  }
  assert_true(timed < RUNS / 8);
}

TEST_THAT(pieces_take_about_as_long) {
  keel_scheduler scheduler = {0};
  for (int i = 0; i < 10; i++)
    run(&scheduler, (cost){20000, false}, 1);
  assert_int_equal(keel_scheduler_grain(&scheduler), 1);
  for (int i = 0; i < 10; i++)
    run(&scheduler, (cost){200, false}, 1);
  assert_in_range(keel_scheduler_grain(&scheduler), 32, 160);
}

TEST_THAT(what_is_fixed_stays) {
  keel_scheduler scheduler = {0};
  keel_scheduler_fix(&scheduler, KEEL_PARALLEL);
  for (int i = 0; i < 100; i++) {
    run(&scheduler, (cost){0}, 1);
    assert_int_equal(atomic_load(&scheduler.mode), KEEL_PARALLEL);
  }
}

RUN_TESTS(NULL, NULL)
