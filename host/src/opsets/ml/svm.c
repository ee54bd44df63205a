/* svm.c - ai.onnx.ml: support vector machines, in f64 as libsvm has them. */
#include "opsets/ml/ml.h"
#include "opsets/tables.h"

#define CLASSES_MOST 2000 /* each is a product of its own */

/* gamma, coef0 and degree */
static bool svm_read_params(keel_emit *all, double *out_params) {
  keel_ml_floats params = keel_ml_floats_of(all, "kernel_params");
  if (!keel_ml_check(all, !params.count || params.count == 3,
                     "kernel_params are gamma, coef0 and degree, not %lld"
                     " numbers",
                     (long long)params.count))
    return false;
  for (int i = 0; i < 3; i++)
    out_params[i] = params.count ? (double)params.at[i] : 0;
  return true;
}

/* |x - v|^2 of rows and vectors, by their products. */
static uint32_t distances(keel_emit *all, uint32_t x, uint32_t products,
                          keel_ml_floats vectors, int64_t count) {
  int64_t k = vectors.count / count;
  double *sums = keel_ml_take(all, count, sizeof *sums);
  if (!sums) return KEEL_ABSENT;
  for (int64_t i = 0; i < vectors.count; i++)
    sums[i / k] += (double)vectors.at[i] * (double)vectors.at[i];
  uint32_t of_vectors = keel_emit_constant(all, KD_F64, 1, &count, sums);
  free(sums);
  return keel_emit_text(all, "Max(ReduceSumSquare(%v, {-1}) + %v - %v * 2, 0)",
                        x, of_vectors, products);
}

/* The kernel function of each row and each of `count` vectors: [rows, count]. */
static uint32_t kernel(keel_emit *all, uint32_t x, keel_ml_floats vectors,
                       int64_t count) {
  const char *type = keel_attr_string(all->node.op, "kernel_type", "LINEAR");
  double params[3];
  if (!svm_read_params(all, params)) return KEEL_ABSENT;
  uint32_t products =
      keel_ml_product(all, x, KD_F64, count, vectors.count / count, vectors.at);
  if (!strcmp(type, "LINEAR")) return products;
  if (!strcmp(type, "RBF"))
    return keel_emit_text(all, "Exp(%v * %f)",
                          distances(all, x, products, vectors, count),
                          -params[0]);
  return keel_emit_text(all, "x = %v * %f + %f; %b ? Pow(x, %f) : Tanh(x)",
                        products, params[0], params[1], !strcmp(type, "POLY"),
                        params[2]);
}

static uint32_t svm_wide(keel_emit *all) {
  return keel_emit_cast(all, keel_emit_in(all, 0), KD_F64);
}

/* Whether there are as many numbers in a list as are wanted. */
static bool has_count(keel_emit *all, const char *name, int64_t have,
                      int64_t want) {
  return keel_ml_check(all, have == want, "%s has %lld numbers, not %lld", name,
                       (long long)have, (long long)want);
}

/* ---- SVMRegressor --------------------------------------------------------------- */

static void expand_svm_regressor(keel_emit *all) {
  keel_ml_floats vectors = keel_ml_floats_of(all, "support_vectors");
  keel_ml_floats weights = keel_ml_floats_of(all, "coefficients");
  keel_ml_floats rho = keel_ml_floats_of(all, "rho");
  int64_t count = keel_attr_int(all->node.op, "n_supports", 0);
  if (!keel_ml_check(all, rho.count, "rho is missing")) return;
  uint32_t x = svm_wide(all), score = KEEL_ABSENT;
  if (count) {
    if (!keel_ml_check_rows(all, "support_vectors", vectors, count,
                            "vectors") ||
        !has_count(all, "coefficients", weights.count, count))
      return;
    score = keel_ml_product(all, kernel(all, x, vectors, count), KD_F64, 1,
                            count, weights.at);
  } else {
    if (!keel_ml_check_rows(all, "coefficients", weights, 1, "scores")) return;
    score = keel_ml_product(all, x, KD_F64, 1, weights.count, weights.at);
  }
  score = keel_emit_text(
      all, "x = %v + %f; @one_class ? Where(x > 0, 1~x, (-1)~x) : x", score,
      (double)rho.at[0]);
  keel_ml_give_scores(all, 0, score);
}

/* ---- SVMClassifier -------------------------------------------------------------- */

typedef struct machine {
  keel_ml_labels labels;
  keel_ml_ints sizes; /* vectors of each class */
  keel_ml_floats vectors, weights, rho, prob_a, prob_b;
  int64_t classes, count, pairs; /* count: of vectors */
} machine;

static bool read_machine(keel_emit *all, machine *m) {
  m->sizes = keel_ml_ints_of(all, "vectors_per_class");
  m->vectors = keel_ml_floats_of(all, "support_vectors");
  m->weights = keel_ml_floats_of(all, "coefficients");
  m->rho = keel_ml_floats_of(all, "rho");
  m->prob_a = keel_ml_floats_of(all, "prob_a");
  m->prob_b = keel_ml_floats_of(all, "prob_b");
  m->labels = keel_ml_labels_of(all, "classlabels_ints");
  m->classes = m->labels.count;
  m->pairs = m->classes * (m->classes - 1) / 2;
  if (all->status != KD_OK) return false;
  if (!keel_ml_check(all, m->classes >= 1 && m->classes <= CLASSES_MOST,
                     "it has %lld labels, and must have 1 to %d",
                     (long long)m->classes, CLASSES_MOST))
    return false;
  for (int64_t i = 0; i < m->sizes.count; i++) {
    int64_t size = m->sizes.at[i];
    if (!keel_ml_check(all, size >= 0 && size <= m->vectors.count - m->count,
                       "vectors_per_class[%lld] is %lld, more than there"
                       " are, or negative",
                       (long long)i, (long long)size))
      return false;
    m->count += size;
  }
  return keel_ml_check(all, !m->sizes.count || m->count,
                       "vectors_per_class are all 0; a linear model has none");
}

static bool check_machine(keel_emit *all, const machine *m) {
  bool likely = m->prob_a.count || m->prob_b.count;
  return has_count(all, "vectors_per_class", m->sizes.count, m->classes) &&
         keel_ml_check_rows(all, "support_vectors", m->vectors, m->count,
                            "vectors") &&
         has_count(all, "coefficients", m->weights.count,
                   (m->classes - 1) * m->count) &&
         has_count(all, "rho", m->rho.count, m->pairs) &&
         (!likely || (has_count(all, "prob_a", m->prob_a.count, m->pairs) &&
                      has_count(all, "prob_b", m->prob_b.count, m->pairs)));
}

/* The decisions of class i's vectors against each other class, from column i (classes - 1) on. */
static uint32_t sides(keel_emit *all, const machine *m, uint32_t values) {
  int64_t others = m->classes - 1, from = 0;
  uint32_t parts[CLASSES_MOST];
  float *block = keel_ml_take(all, others * m->count, sizeof *block);
  if (!block) return KEEL_ABSENT;
  for (int64_t i = 0; i < m->classes; i++) {
    int64_t size = m->sizes.at[i];
    for (int64_t o = 0; o < others; o++)
      for (int64_t v = 0; v < size; v++)
        block[o * size + v] = m->weights.at[o * m->count + from + v];
    uint32_t own = keel_emit_slice(all, values, 1, from, from + size, 1);
    parts[i] = keel_ml_product(all, own, KD_F64, others, size, block);
    from += size;
  }
  free(block);
  return keel_emit_concat(all, 1, parts, (uint32_t)m->classes);
}

/* A constant list of a number for each pair of classes i < j. */
static uint32_t of_pairs(keel_emit *all, const machine *m,
                         int64_t (*number)(const machine *m, int64_t i,
                                           int64_t j)) {
  int64_t *list = keel_ml_take(all, m->pairs, sizeof *list), at = 0;
  if (!list) return KEEL_ABSENT;
  for (int64_t i = 0; i < m->classes; i++)
    for (int64_t j = i + 1; j < m->classes; j++)
      list[at++] = number(m, i, j);
  uint32_t value = keel_emit_constant(all, KD_I64, 1, &m->pairs, list);
  free(list);
  return value;
}

static int64_t first_side(const machine *m, int64_t i, int64_t j) {
  return i * (m->classes - 1) + j - 1;
}

static int64_t second_side(const machine *m, int64_t i, int64_t j) {
  return j * (m->classes - 1) + i;
}

static int64_t first_class(const machine *m, int64_t i, int64_t j) {
  (void)m;
  (void)j;
  return i;
}

static int64_t second_class(const machine *m, int64_t i, int64_t j) {
  (void)m;
  (void)i;
  return j;
}

/* Above 0 where the first class of a pair wins: [rows, pairs]. */
static uint32_t decide(keel_emit *all, const machine *m) {
  uint32_t values = kernel(all, svm_wide(all), m->vectors, m->count);
  return keel_emit_text(
      all, "x = %v; Gather[axis=1](x, %v) + Gather[axis=1](x, %v) + %v",
      sides(all, m, values), of_pairs(all, m, first_side),
      of_pairs(all, m, second_side), keel_ml_list(all, KD_F64, m->rho));
}

/* Pairs that each class wins: [rows, classes]. */
static uint32_t votes(keel_emit *all, const machine *m, uint32_t scores) {
  return keel_emit_text(
      all,
      "winner = Where(%v > 0, %v, %v); hot = OneHot(winner, %v, f32({0, 1}));"
      "ReduceSum[keepdims=0](hot, {1})",
      scores, of_pairs(all, m, first_class), of_pairs(all, m, second_class),
      keel_emit_constant(all, KD_I64, 0, NULL, &m->classes));
}

static uint32_t probabilities(keel_emit *all, const machine *m,
                              uint32_t scores) {
  return keel_emit_text(all,
                        "x = Sigmoid(-(%v * %v + %v));"
                        "keel::Couple[classes=%i](Min(Max(x, 1e-7), 1 - 1e-7))",
                        scores, keel_ml_list(all, KD_F64, m->prob_a),
                        keel_ml_list(all, KD_F64, m->prob_b), m->classes);
}

/* One score for each class, without support vectors. */
static void classify_linear(keel_emit *all, const machine *m) {
  if (!keel_ml_check_rows(all, "coefficients", m->weights, m->classes,
                          "labels") ||
      !keel_ml_check(all, m->rho.count, "rho is missing"))
    return;
  uint32_t scores =
      keel_ml_product(all, svm_wide(all), KD_F64, m->classes,
                      m->weights.count / m->classes, m->weights.at);
  scores = keel_emit_text(all, "%v + %f", scores, (double)m->rho.at[0]);
  keel_ml_give_labels(all, scores, m->labels);
  keel_ml_give_scores(all, 1, scores);
}

static void expand_svm_classifier(keel_emit *all) {
  machine m = {0};
  if (!read_machine(all, &m)) return;
  if (!m.count) {
    classify_linear(all, &m);
    return;
  }
  if (!keel_ml_check(all, m.classes > 1,
                     "it has support vectors, and only one label") ||
      !check_machine(all, &m))
    return;
  uint32_t scores = decide(all, &m);
  keel_ml_give_labels(all, votes(all, &m, scores), m.labels);
  if (m.prob_a.count)
    scores = probabilities(all, &m, scores);
  else if (m.classes == 2)
    scores = keel_ml_both(all, scores, 0);
  keel_ml_give_scores(all, 1, scores);
}

/* ---- rows ---- */

#define SVM                                                              \
  "coefficients:F kernel_params:F kernel_type:s=LINEAR|POLY|RBF|SIGMOID" \
  " rho:F support_vectors:F " TRANSFORM

static const keel_schema_row rows[] = {
    ML("SVMClassifier", 1, "num", "X:T -> Y:any Z:f32",
       "classlabels_ints:I classlabels_strings:S prob_a:F prob_b:F"
       " vectors_per_class:I " SVM,
       ml_classes),
    ML("SVMRegressor", 1, "num", "X:T -> Y:f32",
       "n_supports:i=0 one_class:i=0 " SVM, ml_targets),
};

static const keel_op_rule rules[] = {
    {"ai.onnx.ml::SVMClassifier", .expand = expand_svm_classifier},
    {"ai.onnx.ml::SVMRegressor", .expand = expand_svm_regressor},
};

const keel_op_table keel_ops_ml_svm = {KEEL_TABLE_ROWS(rows),
                                       KEEL_TABLE_RULES(rules)};
