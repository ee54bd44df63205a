/* random.c - random numbers that are functions of a seed, a counter and a place in the
 * tensor: nothing is kept from call to call, and they are the same on every device.
 *
 * The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): key: the seed;
 * counter: the number of four words in the tensor, and the caller's counter. Normal
 * numbers are made in pairs by Box and Muller's formula (1958). */
#include "opsets/onnx/math/random.h"
#include "device/context.h"
#include "memory/access.h"
#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"

#include <math.h>
#include <sys/random.h>

#include "base/float.h"
#include "ops/runtime.h"
#include "threads/cancel.h"

#define WORK 20 /* nanoseconds of a number, about */

void keel_philox(const uint32_t key[2], const uint32_t counter[4],
                 uint32_t out_words[4]) {
  uint32_t k0 = key[0], k1 = key[1], c[4];
  memcpy(c, counter, sizeof c);
  for (int round = 0; round < 10; round++) {
    uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                              (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  memcpy(out_words, c, sizeof c);
}

/* Where numbers come from. */
typedef struct stream {
  uint64_t seed, counter;
} stream;

/* Two numbers in [0, 1) for places 2 * pair and the one behind it; 53 bits each. */
static void two_uniform(const stream *from, uint64_t pair, double out[2]) {
  const uint32_t key[2] = {(uint32_t)from->seed, (uint32_t)(from->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)pair, (uint32_t)(pair >> 32),
                               (uint32_t)from->counter,
                               (uint32_t)(from->counter >> 32)};
  uint32_t words[4];
  keel_philox(key, counter, words);
  for (int i = 0; i < 2; i++) {
    uint64_t bits = (uint64_t)words[2 * i] << 32 | words[2 * i + 1];
    out[i] = (double)(bits >> 11) * 0x1p-53;
  }
}

static void two_normal(const stream *from, uint64_t pair, double out[2]) {
  double u[2];
  two_uniform(from, pair, u);
  double size = sqrt(-2 * log(1 - u[0])); /* 1 - u is not 0 */
  double angle = 6.283185307179586477 * u[1];
  out[0] = size * cos(angle);
  out[1] = size * sin(angle);
}

/* The seed that is given: the same numbers in each call. Else a hidden seed, and other numbers in
 * each call. */
static stream stream_of(const keel_host_call *call) {
  /* relaxed: each number is taken by one update, and order does not matter */
  static _Atomic uint64_t process_seed, calls;
  const keel_node_attr *given = keel_attr_find(call->op, "seed");
  if (given) {
    uint32_t bits = 0;
    memcpy(&bits, &given->value.f, sizeof bits);
    return (stream){
        given->value.kind == KD_ATTR_INT ? (uint64_t)given->value.i : bits, 0};
  }
  uint64_t seed = atomic_load(&process_seed), none = 0;
  if (!seed) {
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = keel_now();
    seed |= 1;
    if (!atomic_compare_exchange_strong(&process_seed, &none, seed))
      seed = none;
  }
  return (stream){seed, atomic_fetch_add(&calls, 1)};
}

/* A tensor of `count` numbers a + b * x, x from `make` in pairs. */
static keel_status math_random_fill(keel_host_call *call, const stream *from,
                                    double a, double b,
                                    void (*make)(const stream *, uint64_t,
                                                 double *)) {
  const keel_type *type = call->types[0];
  uint32_t each = keel_dtype_size(type->dtype);
  KEEL_TRY(keel_tensor_on(&call->context->host, type, &call->outputs[0]));
  char *data = call->outputs[0]->data;
  double two[2] = {0, 0};
  uint64_t pace = 0;
  for (int64_t i = 0; i < type->elements; i++) {
    KEEL_TRY(keel_go_on(&pace, WORK));
    if (i % 2 == 0) make(from, (uint64_t)i / 2, two);
    if (!keel_float_encode(type->dtype, a + b * two[i % 2],
                           data + (uint64_t)i * each))
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "random numbers can't be %s: dtype is a float type",
                            keel_dtype_name(type->dtype));
  }
  return KD_OK;
}

static keel_status run_random_normal(keel_host_call *call) {
  const stream from = stream_of(call);
  return math_random_fill(
      call, &from, (double)keel_attr_float(call->op, "mean", 0),
      (double)keel_attr_float(call->op, "scale", 1), two_normal);
}

static keel_status run_random_uniform(keel_host_call *call) {
  const stream from = stream_of(call);
  double low = (double)keel_attr_float(call->op, "low", 0);
  double high = (double)keel_attr_float(call->op, "high", 1);
  return math_random_fill(call, &from, low, high - low, two_uniform);
}

/* One, or nothing, in any type. */
static void put_bit(kd_dtype dtype, bool one, char *out) {
  if (keel_float_encode(dtype, one, out)) return;
  memset(out, 0, keel_dtype_size(dtype));
  out[0] = one;
}

static keel_status run_bernoulli(keel_host_call *call) {
  const stream from = stream_of(call);
  const keel_type *type = call->types[0];
  uint32_t each = keel_dtype_size(type->dtype);
  keel_tensor *chances = NULL;
  if (!each || type->dtype == KD_C64 || type->dtype == KD_C128)
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "can't give %s",
                          keel_dtype_name(type->dtype));
  KEEL_TRY(keel_tensor_to_host(call->inputs[0], &chances));
  keel_status status =
      keel_tensor_on(&call->context->host, type, &call->outputs[0]);
  uint32_t in = keel_dtype_size(chances->type->dtype);
  uint64_t pace = 0;
  double two[2] = {0, 0};
  for (int64_t i = 0; status == KD_OK && i < type->elements; i++) {
    double chance = 0;
    uint64_t bits = 0;
    status = keel_go_on(&pace, WORK);
    if (i % 2 == 0) two_uniform(&from, (uint64_t)i / 2, two);
    keel_float_decode(chances->type->dtype,
                      (const char *)chances->data + (uint64_t)i * in, &chance,
                      &bits);
    put_bit(type->dtype, two[i % 2] < chance,
            (char *)call->outputs[0]->data + (uint64_t)i * each);
  }
  keel_tensor_release(chances);
  return status;
}

/* ---- Multinomial ---------------------------------------------------------------------- */

/* sums[i]: how probable classes up to i are, by their scores, which are logarithms; of no fixed
 * total, which is returned: NaN or 0 where no class can be drawn. */
static double sum_chances(const keel_tensor *scores, int64_t row,
                          double *sums) {
  int64_t classes = scores->type->dims[1];
  uint32_t each = keel_dtype_size(scores->type->dtype);
  double most = -INFINITY, total = 0;
  uint64_t bits = 0;
  for (int64_t i = 0; i < classes; i++) {
    uint64_t at = (uint64_t)(row * classes + i) * each;
    keel_float_decode(scores->type->dtype, (const char *)scores->data + at,
                      &sums[i], &bits);
    most = fmax(most, sums[i]);
  }
  for (int64_t i = 0; i < classes; i++) {
    total += exp(sums[i] - most);
    sums[i] = total;
  }
  return total;
}

/* The first class whose sum is more than `at`. */
static int64_t class_at(const double *sums, int64_t classes, double at) {
  int64_t low = 0, high = classes - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (sums[middle] > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static keel_status draw_row(const stream *from, const double *sums,
                            int64_t classes, int64_t row, keel_tensor *out,
                            uint64_t *pace) {
  int64_t count = out->type->dims[1];
  double two[2] = {0, 0};
  for (int64_t i = row * count; i < (row + 1) * count; i++) {
    KEEL_TRY(keel_go_on(pace, WORK));
    if (i % 2 == 0 || i == row * count) two_uniform(from, (uint64_t)i / 2, two);
    int64_t drawn = class_at(sums, classes, two[i % 2] * sums[classes - 1]);
    if (out->type->dtype == KD_I64)
      ((int64_t *)out->data)[i] = drawn;
    else
      ((int32_t *)out->data)[i] = (int32_t)drawn;
  }
  return KD_OK;
}

static keel_status run_multinomial(keel_host_call *call) {
  const stream from = stream_of(call);
  keel_tensor *scores = NULL;
  KEEL_TRY(keel_tensor_to_host(call->inputs[0], &scores));
  int64_t classes = scores->type->dims[1];
  uint64_t pace = 0;
  double *sums = calloc((size_t)classes + 1, sizeof *sums);
  keel_status status = sums ? keel_tensor_on(&call->context->host,
                                             call->types[0], &call->outputs[0])
                            : keel_no_memory((uint64_t)classes * sizeof *sums);
  for (int64_t row = 0; status == KD_OK && row < scores->type->dims[0]; row++) {
    double total = sum_chances(scores, row, sums);
    if (total > 0 && isfinite(total) && classes <= INT32_MAX)
      status = draw_row(&from, sums, classes, row, call->outputs[0], &pace);
    else
      status = keel_call_fail(call, KD_INVALID_ARGUMENT,
                              "no class of row %lld can be drawn: of its %lld"
                              " scores one must be finite, and none NaN or"
                              " infinite",
                              (long long)row, (long long)classes);
  }
  free(sums);
  keel_tensor_release(scores);
  return status;
}

/* ---- Dropout -------------------------------------------------------------------------- */

/* One number of a float type, or one bool; not there: as it is. */
static keel_status random_read_number(const keel_host_call *call,
                                      uint32_t index, double *number) {
  keel_tensor *here = NULL;
  uint64_t bits = 0;
  if (index >= call->input_count || !call->inputs[index]) return KD_OK;
  KEEL_TRY(keel_tensor_to_host(call->inputs[index], &here));
  bool fits = here->type->elements == 1;
  if (fits && here->type->dtype == KD_BOOL)
    *number = *(const uint8_t *)here->data != 0;
  else if (fits)
    fits = keel_float_decode(here->type->dtype, here->data, number, &bits);
  keel_tensor_release(here);
  return fits ? KD_OK
              : keel_call_fail(call, KD_INVALID_ARGUMENT,
                               "input %u must be one number", (unsigned)index);
}

/* Each element of `x` is 0 by chance, or larger by what those that are 0 leave. mask: a byte for
 * each, or NULL. */
static keel_status random_drop(const stream *from, const keel_tensor *x,
                               double ratio, char *out, uint8_t *mask) {
  kd_dtype dtype = x->type->dtype;
  uint32_t each = keel_dtype_size(dtype);
  double two[2] = {0, 0};
  uint64_t pace = 0;
  for (int64_t i = 0; i < x->type->elements; i++) {
    KEEL_TRY(keel_go_on(&pace, WORK));
    uint64_t at = (uint64_t)i * each, bits = 0;
    double number = 0;
    if (i % 2 == 0) two_uniform(from, (uint64_t)i / 2, two);
    bool kept = two[i % 2] >= ratio;
    if (kept)
      keel_float_decode(dtype, (const char *)x->data + at, &number, &bits);
    keel_float_encode(dtype, number / (1 - ratio), out + at);
    if (mask) mask[i] = kept;
  }
  return KD_OK;
}

static keel_status keep_all(keel_host_call *call) {
  if (call->output_count > 1 && call->outputs[1])
    memset(call->outputs[1]->data, 1, call->types[1]->bytes);
  call->outputs[0] = keel_tensor_retain(call->inputs[0]);
  return KD_OK;
}

static keel_status drop_some(keel_host_call *call, double ratio) {
  const stream from = stream_of(call);
  keel_tensor *x = NULL;
  KEEL_TRY(keel_tensor_to_host(call->inputs[0], &x));
  keel_status status =
      keel_tensor_on(&call->context->host, x->type, &call->outputs[0]);
  if (status == KD_OK)
    status = random_drop(&from, x, ratio, call->outputs[0]->data,
                         call->output_count > 1 && call->outputs[1]
                             ? call->outputs[1]->data
                             : NULL);
  keel_tensor_release(x);
  return status;
}

/* Inference, and training with ratio 0, keep everything. */
static keel_status run_dropout(keel_host_call *call) {
  double ratio = 0.5, training = 0;
  KEEL_TRY(random_read_number(call, 2, &training));
  if (training != 0) KEEL_TRY(random_read_number(call, 1, &ratio));
  if (!(ratio >= 0 && ratio < 1))
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "ratio is %g, and must be at least 0 and less than 1",
                          ratio);
  if (call->output_count > 1 && call->types[1])
    KEEL_TRY(keel_tensor_on(&call->context->host, call->types[1],
                            &call->outputs[1]));
  return training != 0 && ratio != 0 ? drop_some(call, ratio) : keep_all(call);
}

/* keel::Uniform and keel::Normal: seed and counter are values. */
static keel_status counted(keel_host_call *call,
                           void (*make)(const stream *, uint64_t, double *)) {
  int64_t seed = 0, counter = 0;
  KEEL_TRY(keel_call_int(call, 0, 0, &seed));
  KEEL_TRY(keel_call_int(call, 1, 0, &counter));
  if (!call->types[0])
    return keel_call_fail(call, KD_INTERNAL, "the shape is not known");
  const stream from = {(uint64_t)seed, (uint64_t)counter};
  return math_random_fill(call, &from, 0, 1, make);
}

static keel_status run_uniform(keel_host_call *call) {
  return counted(call, two_uniform);
}

static keel_status run_normal(keel_host_call *call) {
  return counted(call, two_normal);
}

/* ---- rows ---- */

#define RANDOM(name, since, params, attrs, shape, function)         \
  {                                                                 \
    NULL, name, since, "any", params, attrs, keel_shape_##shape, 0, \
        KEEL_OP_RANDOM, KEEL_BY_HOST, run_##function                \
  }

/* ---- shapes and derivatives -------------------------------------------------- */

keel_status keel_shape_random_like(keel_infer *infer) {
  KEEL_TRY(keel_infer_dtype_attr(infer, "dtype", infer->in[0]->dtype));
  return keel_shape_same(infer);
}

keel_status keel_shape_multinomial(keel_infer *infer) {
  const keel_type *scores = infer->in[0];
  int64_t count = keel_attr_int(infer->op, "sample_size", 1);
  KEEL_TRY(keel_infer_dtype_attr(infer, "dtype", KD_I32));
  if (infer->dtypes[0] != KD_I32 && infer->dtypes[0] != KD_I64)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "dtype is %s, and must be i32 or i64",
                           keel_dtype_name(infer->dtypes[0]));
  if (scores->rank != 2 || count < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "input must be [batch,classes], and sample_size 1"
                           " or more");
  const int64_t dims[] = {scores->dims[0], count};
  return keel_infer_out(infer, 0, 2, dims);
}

keel_status keel_shape_random(keel_infer *infer) {
  const int64_t *shape = NULL;
  KEEL_TRY(keel_infer_dtype_attr(infer, "dtype", KD_F32));
  int64_t rank = keel_attr_ints(infer->op, "shape", &shape);
  if (rank < 0) rank = 0;
  return keel_infer_out(infer, 0, (uint32_t)rank, shape);
}

keel_status keel_shape_random_bits(keel_infer *infer) {
  const keel_type *state = infer->in[0];
  const int64_t *shape = NULL;
  const char *by = keel_attr_string(infer->op, "algorithm", "philox");
  int64_t rank = keel_attr_ints(infer->op, "shape", &shape);
  int64_t to = keel_attr_int(infer->op, "dtype", 0);
  int64_t numbers = state->rank == 1 ? state->dims[0] : 0;
  if (numbers != 2 && (numbers != 3 || !strcmp(by, "threefry")))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "state must be two numbers, or three of philox");
  if (to <= 0 || to >= (int64_t)KD_DTYPE_COUNT ||
      !(KD_TYPES_INT & KD_TYPES((uint32_t)to)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "dtype must be an integer type");
  infer->dtypes[1] = (kd_dtype)to;
  KEEL_TRY(keel_infer_out(infer, 0, 1, state->dims));
  return keel_infer_out(infer, 1, (uint32_t)(rank < 0 ? 0 : rank), shape);
}

/* keel::Uniform, keel::Normal: input 2 is the shape. */
keel_status keel_shape_counted(keel_infer *infer) {
  int64_t dims[KD_MAX_RANK];
  KEEL_TRY(keel_infer_dtype_attr(infer, "dtype", KD_F32));
  int64_t rank = keel_infer_ints(infer, 2, dims, KD_MAX_RANK);
  if (rank < 0) return KD_INVALID_ARGUMENT;
  return keel_infer_out(infer, 0, (uint32_t)rank, dims);
}

keel_status keel_shape_dropout(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  return keel_infer_dims(infer, 1, &dims);
}

/* y = x mask / (1 - ratio): what is kept is larger by that. */
static void dropout(keel_gradient *g) {
  if (!keel_node_is_random(g->all->function, &g->node)) {
    keel_gradient_text(g, "$0 = ^0");
    return;
  }
  if (keel_gradient_out(g, 1) == KEEL_ABSENT) {
    keel_gradient_refuse(g,
                         "needs its second output, the mask, to have a"
                         " gradient; give it a name");
    return;
  }
  keel_gradient_text(g,
                     "ratio = $1 ? CastLike($1, ^0) : 0.5~^0;"
                     "chance = Where($2, ratio, 0~^0);"
                     "$0 = ^0 / (1 - chance) * CastLike(%1, ^0)");
}

/* ---- older opsets ----------------------------------------------------------- */

static keel_status old_dropout(keel_draft *draft) {
  keel_upgrade_drop(draft, "ratio"); /* inference keeps everything */
  return KD_OK;
}

/* It was training where is_test did not say otherwise. */
static keel_status older_dropout(keel_draft *draft) {
  const keel_attr *test = keel_upgrade_attr(draft, "is_test", KD_ATTR_INT);
  const keel_attr *ratio = keel_upgrade_attr(draft, "ratio", KD_ATTR_FLOAT);
  if ((!test || !test->i) && !(ratio && ratio->f == 0))
    return keel_upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "training (is_test = 0) before opset 12 is not supported");
  keel_upgrade_drop(draft, "is_test");
  return old_dropout(draft);
}

static const keel_schema_row rows[] = {
    /* numbers at random */
    RANDOM("RandomNormal", 1, "-> output:any",
           "dtype:i=1 mean:f=0 scale:f=1 seed:f shape:I!", random,
           random_normal),
    RANDOM("RandomUniform", 1, "-> output:any",
           "dtype:i=1 high:f=1 low:f=0 seed:f shape:I!", random,
           random_uniform),
    RANDOM("RandomNormalLike", 1, "input:plain -> output:any",
           "dtype:i mean:f=0 scale:f=1 seed:f", random_like, random_normal),
    RANDOM("RandomUniformLike", 1, "input:plain -> output:any",
           "dtype:i high:f=1 low:f=0 seed:f", random_like, random_uniform),
    RANDOM("Multinomial", 7, "input:float -> output:any",
           "dtype:i=6 sample_size:i=1 seed:f", multinomial, multinomial),
    RANDOM("Bernoulli", 15, "input:float -> output:any", "dtype:i seed:f",
           random_like, bernoulli),
    RUNTIME("Dropout", 13,
            "data:T=float ratio:float? training_mode:bool? -> output:T"
            " mask:bool",
            "seed:i", dropout, 0, run_dropout),
    /* numbers in [0, 1), and normal ones: functions of seed and counter */
    {"keel", "Uniform", 1, "any", "seed:i64 counter:i64 shape:i64 -> Y:any",
     "dtype:i=1", keel_shape_counted, 4, 0, KEEL_BY_HOST, run_uniform},
    {"keel", "Normal", 1, "any", "seed:i64 counter:i64 shape:i64 -> Y:any",
     "dtype:i=1", keel_shape_counted, 4, 0, KEEL_BY_HOST, run_normal},
};

static const keel_op_upgrade upgrades[] = {
    {"Dropout", 1, 7, older_dropout},
    {"Dropout", 7, 12, old_dropout},
};

static const keel_op_rule rules[] = {
    {"RandomNormalLike", .slopes = ""},
    {"RandomUniformLike", .slopes = ""},
    {"Bernoulli", .slopes = ""},
    {"Dropout", .gradient = dropout, .traits = KEEL_OP_DROPS},
};

const keel_op_table keel_ops_random = {KEEL_TABLE_ROWS(rows),
                                       KEEL_TABLE_RULES(rules),
                                       KEEL_TABLE_UPGRADES(upgrades)};
