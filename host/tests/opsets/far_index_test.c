/* far_index_test.c - indices whose lower 32 bits alone would be inside of a dimension. */
#include "on_devices.h"

enum { ROWS = 4, COLUMNS = 3, ALL = ROWS * COLUMNS };

static const float numbers[ALL] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const float nines[COLUMNS] = {9, 9, 9};
static const int64_t far[] = {(INT64_C(1) << 32) + 1, -(INT64_C(1) << 32) + 1,
                              INT64_MIN, INT64_MAX, INT64_C(1) << 32};

/* An error, or nothing: zeros where `scatters` is false, else what was there. */
static void expect_nothing(const char *name, const call *c, bool scatters) {
  for (size_t d = 0; d < sizeof device_names / sizeof *device_names; d++) {
    keel_device *device = NULL;
    if (keel_device_find(context, device_names[d], &device) != KD_OK) continue;
    for (way how = AT_ONCE; how < WAYS; how++) {
      keel_tensor *out[MOST_OUT];
      float got[ALL];
      keel_status status = call_on(c, device, how, out);
      if (status == KD_OK) {
        uint64_t size = keel_tensor_size(out[0]);
        assert_true(size <= sizeof got);
        expect_ok(keel_tensor_read(out[0], got, size));
        for (size_t i = 0; i < size / sizeof *got; i++)
          if (got[i] != (scatters ? numbers[i] : 0))
            fail_msg("%s on %s, %s: element %zu is %g", name, device_names[d],
                     way_names[how], i, (double)got[i]);
      } else if (status != KD_OUT_OF_RANGE) {
        fail_msg("%s: %s", name, keel_message());
      }
      release_all(out, 1);
    }
  }
}

TEST_THAT(far_indices_pick_and_write_nothing) {
  static const struct {
    const char *op;
    uint32_t rank;
    int64_t dims[2];
    bool scatters;
  } rows[] = {
      {"Gather", 1, {1}, false},
      {"GatherElements", 2, {1, COLUMNS}, false},
      {"GatherND", 2, {1, 1}, false},
      {"ScatterElements", 2, {1, COLUMNS}, true},
      {"ScatterND", 2, {1, 1}, true},
  };
  const int64_t x_dims[] = {ROWS, COLUMNS}, update_dims[] = {1, COLUMNS};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
      const int64_t index[COLUMNS] = {far[k], far[k], far[k]};
      call c = {.op = rows[i].op,
                .in = {create_tensor(context, KD_F32, 2, x_dims, numbers),
                       create_tensor(context, KD_I64, rows[i].rank,
                                     rows[i].dims, index),
                       create_tensor(context, KD_F32, 2, update_dims, nines)},
                .in_count = rows[i].scatters ? 3 : 2,
                .out_count = 1};
      expect_nothing(rows[i].op, &c, rows[i].scatters);
      release_all(c.in, 3);
    }
}

TEST_THAT(one_hot_of_far_indices_is_off) {
  const int64_t count = sizeof far / sizeof *far, two = 2, depth = ROWS;
  const float values[] = {0, 1}, off[sizeof far / sizeof *far * ROWS] = {0};
  known want = {KD_F32, 2, {count, ROWS}, off};
  call c = {.op = "OneHot",
            .in = {create_tensor(context, KD_I64, 1, &count, far),
                   create_tensor(context, KD_I64, 0, NULL, &depth),
                   create_tensor(context, KD_F32, 1, &two, values)},
            .in_count = 3,
            .out_count = 1};
  call_everywhere(&c, check_known, &want);
  release_all(c.in, 3);
}

RUN_TESTS(open_all_devices, close_context)
