/* linear.c - ai.onnx.ml: helpers for scores and labels, and linear models. */
#include "opsets/ml/ml.h"
#include "opsets/tables.h"

/* ---- attributes ----------------------------------------------------------------- */

static const keel_attr *linear_find(const keel_emit *all, const char *name,
                                    uint32_t kind) {
  const keel_node_attr *attr = keel_attr_find(all->node.op, name);
  return attr && attr->value.kind == kind ? &attr->value : NULL;
}

keel_ml_floats keel_ml_floats_of(const keel_emit *all, const char *name) {
  const keel_attr *attr = linear_find(all, name, KD_ATTR_FLOATS);
  return attr ? (keel_ml_floats){attr->floats, attr->count}
              : (keel_ml_floats){NULL, 0};
}

keel_ml_ints keel_ml_ints_of(const keel_emit *all, const char *name) {
  const keel_attr *attr = linear_find(all, name, KD_ATTR_INTS);
  return attr ? (keel_ml_ints){attr->ints, attr->count}
              : (keel_ml_ints){NULL, 0};
}

const keel_tensor *keel_ml_tensor_of(const keel_emit *all, const char *name) {
  const keel_attr *attr = linear_find(all, name, KD_ATTR_TENSOR);
  return attr ? attr->tensor : NULL;
}

bool keel_ml_has(const keel_emit *all, const char *name) {
  return keel_attr_find(all->node.op, name) != NULL;
}

const char *const *keel_ml_strings_of(const keel_emit *all, const char *name,
                                      int64_t *out_count) {
  const keel_attr *attr = linear_find(all, name, KD_ATTR_STRINGS);
  *out_count = attr ? (int64_t)attr->count : 0;
  return *out_count ? attr->strings : NULL;
}

keel_ml_labels keel_ml_labels_of(keel_emit *all, const char *name) {
  keel_ml_ints ints = keel_ml_ints_of(all, name);
  int64_t count = 0;
  const char *const *strings =
      keel_ml_strings_of(all, "classlabels_strings", &count);
  keel_ml_check(all, !ints.count != !count,
                "it has %s, and must have one of %s and classlabels_strings",
                count ? "labels of two kinds" : "no labels", name);
  return (keel_ml_labels){ints.at, strings, strings ? count : ints.count};
}

uint32_t keel_ml_label_list(keel_emit *all, keel_ml_labels labels) {
  return labels.strings
             ? keel_emit_strings(all, labels.strings, labels.count)
             : keel_emit_constant(all, KD_I64, 1, &labels.count, labels.ints);
}

bool keel_ml_check(keel_emit *all, bool holds, const char *format, ...) {
  if (!holds) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    keel_emit_fail(all, KD_INVALID_ARGUMENT, "%s", text);
  }
  return all->status == KD_OK;
}

int64_t keel_ml_features(const keel_emit *all, uint32_t input) {
  const keel_type *type = keel_emit_type(all, input);
  return type && type->rank ? type->dims[type->rank - 1] : -1;
}

void keel_ml_check_features(keel_emit *all, int64_t features) {
  int64_t have = keel_ml_features(all, 0);
  keel_ml_check(all, have < 0 || have == features,
                "X has %lld features, and its attributes are of %lld",
                (long long)have, (long long)features);
}

bool keel_ml_check_rows(keel_emit *all, const char *name, keel_ml_floats list,
                        int64_t count, const char *things) {
  if (!keel_ml_check(all, count > 0 && list.count && list.count % count == 0,
                     "%lld %s are not as many for each of %lld %s",
                     (long long)list.count, name, (long long)count, things))
    return false;
  keel_ml_check_features(all, list.count / count);
  return all->status == KD_OK;
}

void *keel_ml_take(keel_emit *all, int64_t count, size_t size) {
  if (all->status != KD_OK) return NULL;
  void *room = calloc((size_t)count + 1, size);
  if (!room) all->status = keel_no_memory((uint64_t)count * size);
  return room;
}

/* ---- values --------------------------------------------------------------------- */

uint32_t keel_ml_wide(keel_emit *all) {
  uint32_t x = keel_emit_in(all, 0);
  switch (keel_emit_dtype(all, x)) {
    case KD_F32:
    case KD_F16:
    case KD_BF16:
    case KD_U8:
    case KD_I8:
    case KD_U16:
    case KD_I16:
      return keel_emit_cast(all, x, KD_F32);
    default:
      return keel_emit_cast(all, x, KD_F64);
  }
}

uint32_t keel_ml_numbers(keel_emit *all, kd_dtype dtype, uint32_t rank,
                         const int64_t *dims, const float *numbers) {
  if (dtype == KD_F32)
    return keel_emit_constant(all, KD_F32, rank, dims, numbers);
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  double *wide = keel_ml_take(all, count, sizeof *wide);
  if (!wide) return KEEL_ABSENT;
  for (int64_t i = 0; i < count; i++)
    wide[i] = (double)numbers[i];
  uint32_t value = keel_emit_constant(all, KD_F64, rank, dims, wide);
  free(wide);
  return value;
}

uint32_t keel_ml_list(keel_emit *all, kd_dtype dtype, keel_ml_floats numbers) {
  return keel_ml_numbers(all, dtype, 1, &numbers.count, numbers.at);
}

uint32_t keel_ml_product(keel_emit *all, uint32_t x, kd_dtype dtype,
                         int64_t count, int64_t k, const float *rows) {
  const int64_t dims[] = {k, count}, flat[] = {-1, count};
  float *transposed = keel_ml_take(all, k * count, sizeof *transposed);
  if (!transposed) return KEEL_ABSENT;
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < k; j++)
      transposed[j * count + i] = rows[i * k + j];
  uint32_t matrix = keel_ml_numbers(all, dtype, 2, dims, transposed);
  free(transposed);
  /* a single row becomes one of a matrix */
  return keel_emit_reshape(all, keel_emit_binary(all, "MatMul", x, matrix),
                           flat, 2);
}

/* ---- scores ---------------------------------------------------------------------- */

/* Softmax, of which what is zero stays zero. */
#define SOFTMAX_ZERO                                             \
  "x = %v; most = ReduceMax(x, {-1});"                           \
  "parts = Where(Abs(x) > 1e-7, Exp(x - most), x * Exp(-most));" \
  "sum = ReduceSum(parts, {-1});"                                \
  "Where(sum == 0, parts * 0 + 0.5, parts / sum)"

/* ONNX's probit is Winitzki's approximation of the inverse error function, of x = 2 y - 1, times the
 * root of 2: sign(x) sqrt(sqrt(v v - log / a) - v), a = 0.147, v = 2 / (pi a) + log / 2. At 0 and 1
 * the logarithm has no value, and the result is 0 by definition. */
#define PROBIT                                          \
  "x = %v * 2 - 1; rest = 1 - x * x; log = Log(rest);"  \
  "v = log * 0.5 + 2 / 3.14159265358979323846 / 0.147;" \
  "size = Sqrt(Sqrt(v * v - log * (1 / 0.147)) - v);"   \
  "Where(rest == 0, x * 0, Sign(x) * size * 1.41421356)"

uint32_t keel_ml_transform(keel_emit *all, uint32_t scores, const char *name) {
  if (!strcmp(name, "SOFTMAX")) return keel_emit_unary(all, "Softmax", scores);
  if (!strcmp(name, "LOGISTIC")) return keel_emit_unary(all, "Sigmoid", scores);
  if (!strcmp(name, "SOFTMAX_ZERO"))
    return keel_emit_text(all, SOFTMAX_ZERO, scores);
  return !strcmp(name, "PROBIT") ? keel_emit_text(all, PROBIT, scores) : scores;
}

void keel_ml_give_labels(keel_emit *all, uint32_t scores,
                         keel_ml_labels labels) {
  if (keel_emit_wants(all, 0))
    keel_emit_text(all, "%0 = Gather(%v, ArgMax[axis=-1, keepdims=0](%v))",
                   keel_ml_label_list(all, labels), scores);
}

void keel_ml_give_scores(keel_emit *all, uint32_t output, uint32_t scores) {
  if (!keel_emit_wants(all, output)) return;
  uint32_t result = keel_ml_transform(
      all, scores, keel_attr_string(all->node.op, "post_transform", "NONE"));
  if (all->status == KD_OK)
    keel_emit_give(all, output, keel_emit_cast(all, result, KD_F32));
}

uint32_t keel_ml_both(keel_emit *all, uint32_t second, double one) {
  return keel_emit_text(all, "x = %v; Concat[axis=-1](%b ? %f - x : -x, x)",
                        second, one > 0, one);
}

/* ---- linear models ---------------------------------------------------------------- */

/* X times the coefficients of each of `count` rows of scores, and the intercepts. */
static uint32_t linear_scores(keel_emit *all, int64_t count) {
  keel_ml_floats weights = keel_ml_floats_of(all, "coefficients");
  keel_ml_floats bias = keel_ml_floats_of(all, "intercepts");
  if (!keel_ml_check_rows(all, "coefficients", weights, count, "scores") ||
      !keel_ml_check(all, !bias.count || bias.count == count,
                     "%lld intercepts for %lld scores", (long long)bias.count,
                     (long long)count))
    return KEEL_ABSENT;
  uint32_t x = keel_ml_wide(all);
  kd_dtype dtype = keel_emit_dtype(all, x);
  uint32_t scores =
      keel_ml_product(all, x, dtype, count, weights.count / count, weights.at);
  return bias.count ? keel_emit_binary(all, "Add", scores,
                                       keel_ml_list(all, dtype, bias))
                    : scores;
}

static void expand_linear_regressor(keel_emit *all) {
  int64_t targets = keel_attr_int(all->node.op, "targets", 1);
  keel_ml_give_scores(all, 0, linear_scores(all, targets));
}

/* Rows of coefficients: one, for two classes, where neither features nor intercepts say more. */
static int64_t count_scores(const keel_emit *all, int64_t labels) {
  int64_t weights = keel_ml_floats_of(all, "coefficients").count;
  int64_t bias = keel_ml_floats_of(all, "intercepts").count;
  if (bias) return bias;
  return weights && weights == keel_ml_features(all, 0) ? 1 : labels;
}

static void expand_linear_classifier(keel_emit *all) {
  keel_ml_labels labels = keel_ml_labels_of(all, "classlabels_ints");
  if (all->status != KD_OK) return;
  int64_t count = count_scores(all, labels.count);
  if (!keel_ml_check(all,
                     count == labels.count || (count == 1 && labels.count == 2),
                     "%lld labels for the scores of %lld classes",
                     (long long)labels.count, (long long)count))
    return;
  uint32_t scores = linear_scores(all, count);
  if (count < labels.count) scores = keel_ml_both(all, scores, 0);
  keel_ml_give_labels(all, scores, labels);
  keel_ml_give_scores(all, 1, scores);
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    ML("LinearClassifier", 1, "num", "X:T -> Y:any Z:f32",
       "classlabels_ints:I classlabels_strings:S coefficients:F! intercepts:F"
       " multi_class:i=0 " TRANSFORM,
       ml_classes),
    ML("LinearRegressor", 1, "num", "X:T -> Y:f32",
       "coefficients:F intercepts:F targets:i=1 " TRANSFORM, ml_targets),
};

static const keel_op_rule rules[] = {
    {"ai.onnx.ml::LinearClassifier", .expand = expand_linear_classifier},
    {"ai.onnx.ml::LinearRegressor", .expand = expand_linear_regressor},
};

const keel_op_table keel_ops_ml_linear = {KEEL_TABLE_ROWS(rows),
                                          KEEL_TABLE_RULES(rules)};
