/* lengths_test.c - numbers of keys and places in caches that lie outside of what there is. */
#include "on_devices.h"

#define GROUPED "com.microsoft::GroupQueryAttention"
#define HEADS   "com.microsoft::Attention"

static const float halves[1024];

static keel_tensor *filled(uint32_t rank, const int64_t *dims) {
  return create_tensor(context, KD_F32, rank, dims, halves);
}

/* What is always written with other ops is of plans alone. */
static way first_way(const call *c) {
  return strcmp(c->op, GROUPED) != 0 ? PLANNED : AT_ONCE;
}

/* Refused with these words: by the CPU always, by each device where all is known before a run. */
static void expect_refused(const call *c, const char *says) {
  for (size_t d = 0; d < sizeof device_names / sizeof *device_names; d++) {
    keel_device *device = NULL;
    if (keel_device_find(context, device_names[d], &device) != KD_OK) continue;
    for (way how = d ? FOLDED : first_way(c); how < WAYS; how++) {
      keel_tensor *out[MOST_OUT];
      keel_status got = call_on(c, device, how, out);
      if (got != KD_INVALID_ARGUMENT || !strstr(keel_message(), says))
        fail_msg("%s on %s, %s: status %d, \"%s\"", c->op, device_names[d],
                 way_names[how], (int)got, got ? keel_message() : "");
      release_all(out, c->out_count);
    }
  }
}

static void expect_taken(const call *c) {
  keel_device *device = find_device(context, "cpu:0");
  for (way how = first_way(c); how < WAYS; how++) {
    keel_tensor *out[MOST_OUT];
    expect_ok(call_on(c, device, how, out));
    release_all(out, c->out_count);
  }
}

/* says: NULL: it is taken; its inputs go. */
static void expect_end(call *c, const char *says) {
  if (says)
    expect_refused(c, says);
  else
    expect_taken(c);
  release_all(c->in, c->in_count);
}

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

static call grouped(int64_t rows, int64_t places, int32_t length,
                    int32_t total) {
  static const keel_attr attrs[] = {KEEL_INT("num_heads", 4),
                                    KEEL_INT("kv_num_heads", 2)};
  const int64_t q[] = {1, rows, 32}, k[] = {1, rows, 16};
  const int64_t past[] = {1, 2, places, 8}, one = 1;
  return (call){
      .op = GROUPED,
      .attrs = attrs,
      .attr_count = 2,
      .in = {filled(3, q), filled(3, k), filled(3, k), filled(4, past),
             filled(4, past), create_tensor(context, KD_I32, 1, &one, &length),
             create_tensor(context, KD_I32, 0, NULL, &total)},
      .in_count = 7,
      .out_count = 3};
}

TEST_THAT(grouped_lengths_fit_cache_and_rows) {
  static const struct {
    int64_t rows, places;
    int32_t length, total;
    const char *says; /* NULL: taken */
  } rows[] = {
      {4, 8, -5, 4, "seqlens_k[0] is -5, outside of 0..7"},
      {4, 8, 8, 4, "seqlens_k[0] is 8, outside of 0..7"},
      {4, 8, 2, 8, "seqlens_k[0] is 2, outside of 3..7"},
      {1, 8, 9, 9, "seqlens_k[0] is 9, outside of 0..8"},
      {4, 8, 100, 101, ""},
      {4, 8, 9, 10, "total_sequence_length is 10, and must be 12"},
      {4, 8, 0, 4, NULL},
      {4, 8, 7, 8, NULL},
      {4, 8, 11, 12, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    call c =
        grouped(rows[i].rows, rows[i].places, rows[i].length, rows[i].total);
    expect_end(&c, rows[i].says);
  }
}

/* ---- Attention ------------------------------------------------------------------------------- */

TEST_THAT(keys_that_count_are_there) {
  static const struct {
    int64_t count;
    const char *says;
  } rows[] = {
      {-1, "nonpad_kv_seqlen[0] is -1, outside of 0..6"},
      {7, "nonpad_kv_seqlen[0] is 7, outside of 0..6"},
      {INT64_C(1) << 62, "nonpad_kv_seqlen[0] is 4611686018427387904, outside"},
      {INT64_MIN, "nonpad_kv_seqlen[0] is -9223372036854775808, outside"},
      {0, NULL},
      {6, NULL},
  };
  const int64_t q[] = {1, 2, 4, 8}, k[] = {1, 2, 6, 8}, one = 1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    call c = {.op = "Attention",
              .in = {filled(4, q), filled(4, k), filled(4, k), NULL, NULL, NULL,
                     create_tensor(context, KD_I64, 1, &one, &rows[i].count)},
              .in_count = 7,
              .out_count = 1};
    expect_end(&c, rows[i].says);
  }
}

/* Of lengths and begins, as ONNX Runtime has it: those alone, and not above the keys. */
TEST_THAT(lengths_of_masks_are_not_negative) {
  static const struct {
    int32_t mask[2];
    int64_t size;
    const char *says;
  } rows[] = {
      {{-100}, 1, "mask_index[0] is -100, outside of 0..2147483647"},
      {{-1, 0}, 2, "mask_index[0] is -1, outside of 0..2147483647"},
      {{4, -1}, 2, NULL},
      {{100}, 1, NULL},
  };
  const int64_t x[] = {1, 4, 16}, w[] = {16, 48};
  const keel_attr heads = KEEL_INT("num_heads", 2);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    call c = {
        .op = HEADS,
        .attrs = &heads,
        .attr_count = 1,
        .in = {filled(3, x), filled(2, w), NULL,
               create_tensor(context, KD_I32, 1, &rows[i].size, rows[i].mask)},
        .in_count = 4,
        .out_count = 1};
    expect_end(&c, rows[i].says);
  }
}

/* ---- TensorScatter --------------------------------------------------------------------------- */

/* Other devices cannot say so in a run, and write nothing. */
static void check_untouched(void *want, keel_tensor *const *out,
                            const char *where) {
  const call *c = want;
  float got[32], had[32];
  expect_ok(keel_tensor_read(out[0], got, sizeof got));
  expect_ok(keel_tensor_read(c->in[0], had, sizeof had));
  if (memcmp(got, had, sizeof got) != 0) fail_msg("%s: written", where);
}

static void expect_untouched(call *c) {
  for (size_t d = 1; d < sizeof device_names / sizeof *device_names; d++) {
    keel_device *device = NULL;
    if (keel_device_find(context, device_names[d], &device) != KD_OK) continue;
    for (way how = AT_ONCE; how < FOLDED; how++) {
      keel_tensor *out[MOST_OUT];
      if (call_on(c, device, how, out) == KD_OK)
        check_untouched(c, out, device_names[d]);
      release_all(out, 1);
    }
  }
}

TEST_THAT(updates_lie_in_the_cache) {
  static const struct {
    int64_t begin;
    const char *mode, *says;
  } rows[] = {
      {-1, "linear", "write_indices[0] is -1, outside of 0..2"},
      {3, "linear", "write_indices[0] is 3, outside of 0..2"},
      {INT64_MIN, "linear", "write_indices[0] is -9223372036854775808"},
      {-1, "circular", "write_indices[0] is -1, outside of 0.."},
      {INT64_MIN, "circular", "write_indices[0] is -9223372036854775808"},
      {2, "linear", NULL},
      {5, "circular", NULL},
  };
  const int64_t x[] = {1, 2, 4, 4}, u[] = {1, 2, 2, 4}, one = 1;
  float ones[16];
  for (int i = 0; i < 16; i++)
    ones[i] = 1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const keel_attr mode = KEEL_STRING("mode", rows[i].mode);
    call c = {.op = "TensorScatter",
              .attrs = &mode,
              .attr_count = 1,
              .in = {filled(4, x), create_tensor(context, KD_F32, 4, u, ones),
                     create_tensor(context, KD_I64, 1, &one, &rows[i].begin)},
              .in_count = 3,
              .out_count = 1};
    if (rows[i].says) expect_untouched(&c);
    expect_end(&c, rows[i].says);
  }
}

RUN_TESTS(open_all_devices, close_context)
