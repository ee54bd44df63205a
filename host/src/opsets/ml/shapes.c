/* shapes.c - shapes of ai.onnx.ml: models of scikit-learn and its like. Attributes are looked at more
 * closely where the ops are written with simpler ones. */
#include "opsets/shapes.h"

/* Numbers in a list that is an attribute; 0: there is none. */
static int64_t length_of(const keel_infer *infer, const char *name) {
  const keel_node_attr *attr = keel_attr_find(infer->op, name);
  if (!attr) return 0;
  return attr->value.kind == KD_ATTR_TENSOR ? attr->value.tensor->type->elements
                                            : (int64_t)attr->value.count;
}

static bool is(const keel_infer *infer, const char *name) {
  return !strcmp(infer->op->schema->name, name);
}

static keel_status shapes_give(keel_infer *infer, uint32_t output, int64_t rows,
                               int64_t columns) {
  const int64_t dims[] = {rows, columns};
  return keel_infer_out(infer, output, 2, dims);
}

/* ---- regressors ----------------------------------------------------------------- */

keel_status keel_shape_ml_targets(keel_infer *infer) {
  const char *name = is(infer, "LinearRegressor") ? "targets" : "n_targets";
  int64_t rows = 0, targets = 1;
  KEEL_TRY(keel_infer_rows(infer, &rows));
  if (!is(infer, "SVMRegressor")) targets = keel_attr_int(infer->op, name, 0);
  if (targets < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s is %lld, and must be 1 or more", name,
                           (long long)targets);
  return shapes_give(infer, 0, rows, targets);
}

/* ---- classifiers ---------------------------------------------------------------- */

keel_status keel_shape_ml_classes(keel_infer *infer) {
  bool trees = is(infer, "TreeEnsembleClassifier");
  int64_t rows = 0, columns = 0;
  int64_t strings = length_of(infer, "classlabels_strings");
  int64_t labels =
      length_of(infer, trees ? "classlabels_int64s" : "classlabels_ints");
  KEEL_TRY(keel_infer_rows(infer, &rows));
  infer->dtypes[0] = strings ? KD_STRING : KD_I64;
  if (!labels) labels = strings;
  if (!labels)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "it has no labels");
  if (labels > INT32_MAX)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many labels");
  columns = labels;
  /* without probabilities a vector machine gives a score for each pair, and two for one pair */
  if (is(infer, "SVMClassifier") && length_of(infer, "vectors_per_class") &&
      !length_of(infer, "prob_a") && labels > 2)
    columns = labels * (labels - 1) / 2;
  KEEL_TRY(keel_infer_out(infer, 0, 1, &rows));
  return shapes_give(infer, 1, rows, columns);
}

keel_status keel_shape_ml_zip(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  int64_t labels = length_of(infer, "classlabels_int64s");
  if (!labels) labels = length_of(infer, "classlabels_strings");
  if (labels && (!x->rank || x->dims[x->rank - 1] != labels))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X does not have a column for each of %lld labels",
                           (long long)labels);
  return keel_infer_out(infer, 0, x->rank, x->dims);
}

/* ---- features ------------------------------------------------------------------- */

keel_status keel_shape_ml_features(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (!dims.rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "X has no dimension");
  if (dims.rank == 1) dims = (keel_dims){2, {1, 0}};
  dims.dims[dims.rank - 1] = infer->in[1]->elements;
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_ml_joined(keel_infer *infer) {
  int64_t rows = 0, columns = 0;
  for (uint32_t i = 0; i < infer->input_count; i++) {
    const keel_type *x = infer->in[i];
    int64_t count = x && x->rank == 2 ? x->dims[0] : 1;
    if (!x || (x->rank != 1 && x->rank != 2) || (i && count != rows))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "inputs must be [rows, features] of as many rows,"
                             " or one row each");
    rows = count;
    columns += x->dims[x->rank - 1];
    if (!keel_is_plausible(columns))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many features");
  }
  return shapes_give(infer, 0, rows, columns);
}

keel_status keel_shape_ml_one_hot(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank == KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X has %u dimensions, and the result one more",
                           (unsigned)dims.rank);
  bool text = infer->in[0]->dtype == KD_STRING;
  dims.dims[dims.rank++] =
      length_of(infer, text ? "cats_strings" : "cats_int64s");
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_ml_encoded(keel_infer *infer) {
  const keel_node_attr *values = keel_attr_find(infer->op, "values_tensor");
  bool named = length_of(infer, "classes_strings") ||
               is(infer, "CategoryMapper"); /* strings for integers, or back */
  infer->dtypes[0] = values ? values->value.tensor->type->dtype
                     : length_of(infer, "values_floats")      ? KD_F32
                     : length_of(infer, "values_strings")     ? KD_STRING
                     : named && infer->in[0]->dtype == KD_I64 ? KD_STRING
                                                              : KD_I64;
  return keel_infer_out(infer, 0, infer->in[0]->rank, infer->in[0]->dims);
}
