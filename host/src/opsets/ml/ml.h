/* ml.h - what the files of ai.onnx.ml share. */
#ifndef KEEL_ML_H
#define KEEL_ML_H

#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* A row of the domain; an attribute of models that give scores. */
#define ML(name, since, types, params, attrs, shape)                           \
  {                                                                            \
    "ai.onnx.ml", name, since, types, params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                                   \
  }
#define TRANSFORM "post_transform:s=NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT"

/* Lists that are attributes; absent ones are empty. */
typedef struct keel_ml_floats {
  const float *at;
  int64_t count;
} keel_ml_floats;

typedef struct keel_ml_ints {
  const int64_t *at;
  int64_t count;
} keel_ml_ints;

keel_ml_floats keel_ml_floats_of(const keel_emit *all, const char *name);
keel_ml_ints keel_ml_ints_of(const keel_emit *all, const char *name);

/* A tensor that is an attribute, or NULL. */
const keel_tensor *keel_ml_tensor_of(const keel_emit *all, const char *name);

static inline bool keel_ml_is_float(kd_dtype dtype) {
  return dtype == KD_F32 || dtype == KD_F64 || dtype == KD_F16 ||
         dtype == KD_BF16;
}

/* Whether the attribute is there. */
bool keel_ml_has(const keel_emit *all, const char *name);

/* A list of strings that is an attribute; NULL: it is empty, or not there. */
const char *const *keel_ml_strings_of(const keel_emit *all, const char *name,
                                      int64_t *out_count);

/* The labels of classes: integers, or strings. */
typedef struct keel_ml_labels {
  const int64_t *ints;
  const char *const *strings; /* NULL: integers */
  int64_t count;
} keel_ml_labels;

/* Those of integer attribute `name`, or of "classlabels_strings". Fails where both or none are there. */
keel_ml_labels keel_ml_labels_of(keel_emit *all, const char *name);

/* A constant list of them. */
uint32_t keel_ml_label_list(keel_emit *all, keel_ml_labels labels);

/* Fails with the op's name and the text where something does not hold; whether nothing failed. */
bool keel_ml_check(keel_emit *all, bool holds, const char *format, ...)
    KD_PRINTF(3, 4);

/* The last dimension of an input; -1: it is not known. */
int64_t keel_ml_features(const keel_emit *all, uint32_t input);

/* Refuses X where it is known to have another number of features. */
void keel_ml_check_features(keel_emit *all, int64_t features);

/* Whether a list has a row, as long as X's, for each of `count` things. */
bool keel_ml_check_rows(keel_emit *all, const char *name, keel_ml_floats list,
                        int64_t count, const char *things);

/* Memory of zeros, or NULL. */
void *keel_ml_take(keel_emit *all, int64_t count, size_t size);

/* Input 0 in a type that holds its elements: f32, or f64 for wider and unknown ones. */
uint32_t keel_ml_wide(keel_emit *all);

/* A constant of floats, in f32 or f64. */
uint32_t keel_ml_numbers(keel_emit *all, kd_dtype dtype, uint32_t rank,
                         const int64_t *dims, const float *numbers);
uint32_t keel_ml_list(keel_emit *all, kd_dtype dtype, keel_ml_floats numbers);

/* x [rows, k] or [k] times the transpose of rows [count, k], as [rows, count]. */
uint32_t keel_ml_product(keel_emit *all, uint32_t x, kd_dtype dtype,
                         int64_t count, int64_t k, const float *rows);

/* Scores [rows, count] after the transformation of that name. */
uint32_t keel_ml_transform(keel_emit *all, uint32_t scores, const char *name);

/* Gives the labels of the largest scores. */
void keel_ml_give_labels(keel_emit *all, uint32_t scores,
                         keel_ml_labels labels);

/* Gives scores as f32, after the op's own transformation. */
void keel_ml_give_scores(keel_emit *all, uint32_t output, uint32_t scores);

/* The scores [rows, 2] of two classes by that of the second one: less it, or 1 less it, is the
 * first one's. */
uint32_t keel_ml_both(keel_emit *all, uint32_t second, double one);

#endif /* KEEL_ML_H */
