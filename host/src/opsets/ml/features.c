/* features.c - ai.onnx.ml: ops that prepare features, and that find labels in tables. */
#include "opsets/ml/ml.h"
#include "opsets/tables.h"

/* ---- numbers -------------------------------------------------------------------- */

static void expand_binarizer(keel_emit *all) {
  keel_emit_text(all, "%0 = CastLike(%v > @threshold, $0)", keel_ml_wide(all));
}

/* A list of one number, or of one for each feature. */
static bool check_list(keel_emit *all, const char *name, int64_t count) {
  if (count > 1) keel_ml_check_features(all, count);
  return keel_ml_check(all, count || !keel_ml_has(all, name),
                       "%s is an empty list", name);
}

static void expand_scaler(keel_emit *all) {
  keel_ml_floats offset = keel_ml_floats_of(all, "offset");
  keel_ml_floats scale = keel_ml_floats_of(all, "scale");
  bool each = offset.count > 1 && scale.count > 1;
  keel_ml_check(all, !each || offset.count == scale.count,
                "offset has %lld numbers, and scale %lld",
                (long long)offset.count, (long long)scale.count);
  if (!check_list(all, "offset", offset.count) ||
      !check_list(all, "scale", scale.count))
    return;
  uint32_t value = keel_ml_wide(all);
  kd_dtype dtype = keel_emit_dtype(all, value);
  if (offset.count)
    value =
        keel_emit_binary(all, "Sub", value, keel_ml_list(all, dtype, offset));
  if (scale.count)
    value =
        keel_emit_binary(all, "Mul", value, keel_ml_list(all, dtype, scale));
  if (all->status == KD_OK)
    keel_emit_give(all, 0, keel_emit_cast(all, value, KD_F32));
}

static void expand_normalizer(keel_emit *all) {
  const char *norm = keel_attr_string(all->node.op, "norm", "MAX");
  /* a row of zeros stays as it is */
  keel_emit_text(all,
                 "x = %v; by = %b ? ReduceL2(x, {-1}) : %s(Abs(x), {-1});"
                 "%0 = f32(x / Where(by == 0, by + 1, by))",
                 keel_ml_wide(all), !strcmp(norm, "L2"),
                 !strcmp(norm, "L1") ? "ReduceSum" : "ReduceMax");
}

/* ---- Imputer -------------------------------------------------------------------- */

/* The value to replace, and its replacement, in X's type. */
typedef struct imputed {
  int64_t count;
  uint32_t missing, values;
} imputed;

static imputed impute_floats(keel_emit *all, uint32_t x) {
  keel_ml_floats values = keel_ml_floats_of(all, "imputed_value_floats");
  float replaced = keel_attr_float(all->node.op, "replaced_value_float", 0);
  imputed result = {.count = values.count};
  result.values = keel_emit_text(all, "CastLike(%v, %v)",
                                 keel_ml_list(all, KD_F32, values), x);
  result.missing = keel_emit_text(all, "%b ? IsNaN(%v) : %v == %f",
                                  replaced != replaced, x, x, (double)replaced);
  return result;
}

static imputed impute_ints(keel_emit *all, uint32_t x) {
  keel_ml_ints values = keel_ml_ints_of(all, "imputed_value_int64s");
  int64_t replaced = keel_attr_int(all->node.op, "replaced_value_int64", 0);
  imputed result = {.count = values.count};
  result.values =
      keel_emit_text(all, "CastLike(%l, %v)", values.at, values.count, x);
  result.missing =
      keel_emit_text(all, "%v == CastLike(%v, %v)", x,
                     keel_emit_constant(all, KD_I64, 0, NULL, &replaced), x);
  return result;
}

static void expand_imputer(keel_emit *all) {
  uint32_t x = keel_emit_in(all, 0);
  bool floats = keel_ml_floats_of(all, "imputed_value_floats").count > 0;
  bool ints = keel_ml_ints_of(all, "imputed_value_int64s").count > 0;
  kd_dtype dtype = keel_emit_dtype(all, x);
  bool fits = dtype == KD_NONE || keel_ml_is_float(dtype) == floats;
  if (!keel_ml_check(all, floats != ints && fits,
                     "it needs one of imputed_value_floats and"
                     " imputed_value_int64s, that of X's type"))
    return;
  imputed with = floats ? impute_floats(all, x) : impute_ints(all, x);
  if (with.count > 1) keel_ml_check_features(all, with.count);
  keel_emit_give(all, 0, keel_emit_where(all, with.missing, with.values, x));
}

/* ---- features by their places ---------------------------------------------------- */

static void expand_array_feature_extractor(keel_emit *all) {
  const keel_type *type = keel_emit_type(all, 0);
  uint32_t taken =
      keel_emit_text(all, "Gather[axis=-1]($0, Reshape($1, {-1}))");
  /* of an unknown rank: a line becomes a row, that is 1 and then its dimensions, and of more
   * dimensions the 1 is left out again */
  if (!type)
    keel_emit_text(all,
                   "x = %v; lead = -Max(dims(dims(x)), {2});"
                   "%0 = Reshape[allowzero=1](x, Slice({1, dims(x)}, lead,"
                   "                                   {max}))",
                   taken);
  else
    keel_emit_text(all, "x = %v; %0 = %b ? x : Unsqueeze(x, {0})", taken,
                   type->rank > 1);
}

/* Input `index` as f32 [rows, features]. */
static uint32_t feature_rows(keel_emit *all, uint32_t index) {
  const keel_type *type = keel_emit_type(all, index);
  uint32_t value = keel_emit_in(all, index);
  if (!keel_ml_check(all, value != KEEL_ABSENT, "input %u is missing",
                     (unsigned)index))
    return KEEL_ABSENT;
  if (type && type->rank == 1)
    value = keel_emit_binary(all, "Unsqueeze", value, keel_emit_int(all, 0));
  return all->status == KD_OK ? keel_emit_cast(all, value, KD_F32)
                              : KEEL_ABSENT;
}

static void expand_feature_vectorizer(keel_emit *all) {
  keel_ml_ints sizes = keel_ml_ints_of(all, "inputdimensions");
  uint32_t count = all->node.input_count;
  keel_ml_check(all, !sizes.count || sizes.count == (int64_t)count,
                "%lld inputdimensions for %u inputs", (long long)sizes.count,
                (unsigned)count);
  uint32_t *parts = keel_ml_take(all, count, sizeof *parts);
  for (uint32_t i = 0; parts && i < count; i++) {
    int64_t have = keel_ml_features(all, i);
    int64_t want = sizes.count ? sizes.at[i] : have;
    keel_ml_check(all, have < 0 || have == want,
                  "input %u has %lld features, and inputdimensions is %lld",
                  (unsigned)i, (long long)have, (long long)want);
    parts[i] = feature_rows(all, i);
  }
  if (!parts) return;
  keel_emit_give(all, 0, keel_emit_concat(all, 1, parts, count));
  free(parts);
}

/* ---- tables ----------------------------------------------------------------------- */

/* The categories: integers, or strings where X is of strings. */
static keel_ml_labels categories_of(keel_emit *all) {
  keel_ml_ints ints = keel_ml_ints_of(all, "cats_int64s");
  int64_t count = 0;
  const char *const *strings = keel_ml_strings_of(all, "cats_strings", &count);
  kd_dtype dtype = keel_emit_dtype(all, keel_emit_in(all, 0));
  bool text = dtype == KD_STRING || (dtype == KD_NONE && !ints.count);
  if (text ? !count : !ints.count)
    keel_emit_fail(all, KD_INVALID_ARGUMENT, "X is of %s, and it has no %s",
                   text ? "strings" : "numbers",
                   text ? "cats_strings" : "cats_int64s");
  return (keel_ml_labels){ints.at, text ? strings : NULL,
                          text ? count : ints.count};
}

static void expand_one_hot_encoder(keel_emit *all) {
  keel_ml_labels cats = categories_of(all);
  if (all->status != KD_OK) return;
  uint32_t x = keel_emit_in(all, 0);
  if (!cats.strings) x = keel_emit_cast(all, x, KD_I64);
  /* -1 would be the last one, and what is behind it is none */
  keel_emit_text(all,
                 "place = keel::Find[strict=%i](%v, %v); count = %v;"
                 "place = Where(place < 0, count, place);"
                 "%0 = OneHot[axis=-1](place, count, f32({0, 1}))",
                 (int64_t)!keel_attr_int(all->node.op, "zeros", 1), x,
                 keel_ml_label_list(all, cats),
                 keel_emit_constant(all, KD_I64, 0, NULL, &cats.count));
}

/* A constant of one dimension with the elements of an attribute. */
static uint32_t tensor_list(keel_emit *all, const keel_tensor *tensor) {
  int64_t count = tensor->type->elements;
  const keel_type *type = NULL;
  keel_tensor *list = NULL;
  if (all->status != KD_OK) return KEEL_ABSENT;
  all->status = keel_type_of(tensor->type->dtype, 1, &count, &type);
  if (all->status == KD_OK)
    all->status =
        keel_tensor_view((keel_tensor *)(uintptr_t)tensor, type, &list);
  if (all->status != KD_OK) return KEEL_ABSENT;
  uint32_t value = keel_function_constant(all->function, "", list);
  keel_tensor_release(list);
  if (value == KEEL_ABSENT) all->status = KD_OUT_OF_MEMORY;
  return value;
}

/* One of the lists that an attribute can be, as a constant of one dimension. */
static uint32_t table_list(keel_emit *all, const char *of, int64_t *count) {
  static const char *const kinds[] = {"strings", "floats", "int64s", "tensor"};
  char names[4][32];
  int64_t strings = 0;
  for (int i = 0; i < 4; i++)
    snprintf(names[i], sizeof names[i], "%s_%s", of, kinds[i]);
  const char *const *texts = keel_ml_strings_of(all, names[0], &strings);
  keel_ml_floats floats = keel_ml_floats_of(all, names[1]);
  keel_ml_ints ints = keel_ml_ints_of(all, names[2]);
  const keel_tensor *tensor = keel_ml_tensor_of(all, names[3]);
  int64_t elements = tensor ? tensor->type->elements : 0;
  int found = !!strings + !!floats.count + !!ints.count + !!elements;
  *count = strings + floats.count + ints.count + elements;
  if (!keel_ml_check(all, found == 1,
                     "it needs one of %s_strings, %s_floats, %s_int64s and"
                     " %s_tensor, not %d",
                     of, of, of, of, found))
    return KEEL_ABSENT;
  return strings        ? keel_emit_strings(all, texts, strings)
         : floats.count ? keel_ml_list(all, KD_F32, floats)
         : ints.count   ? keel_emit_ints(all, ints.at, ints.count)
                        : tensor_list(all, tensor);
}

/* The result for an element that is not a key, as a list of one, of the values' type. */
static uint32_t table_default(keel_emit *all, uint32_t values) {
  const int64_t one = 1;
  const keel_tensor *tensor = keel_ml_tensor_of(all, "default_tensor");
  const char *text = keel_attr_string(all->node.op, "default_string", "");
  kd_dtype dtype = keel_emit_dtype(all, values);
  if (all->status != KD_OK) return KEEL_ABSENT;
  if (keel_ml_has(all, "values_tensor") && tensor) {
    bool fits = tensor->type->elements == 1 && tensor->type->dtype == dtype;
    keel_ml_check(all, fits, "default_tensor must be one element of %s",
                  keel_dtype_name(dtype));
    return tensor_list(all, tensor);
  }
  if (dtype == KD_STRING) return keel_emit_strings(all, &text, 1);
  int64_t whole = keel_attr_int(all->node.op, "default_int64", -1);
  float real = keel_attr_float(all->node.op, "default_float", 0);
  uint32_t value = keel_ml_is_float(dtype)
                       ? keel_emit_constant(all, KD_F32, 1, &one, &real)
                       : keel_emit_constant(all, KD_I64, 1, &one, &whole);
  return keel_emit_cast(all, value, dtype);
}

/* Gives what stands in the values' list where X stands in the keys'. */
static void look_up(keel_emit *all, uint32_t key_list, uint32_t value_list) {
  /* -1, of what is no key, is the last row */
  keel_emit_text(all, "%0 = Gather(Concat[axis=0](%v, %v), keel::Find($0, %v))",
                 value_list, table_default(all, value_list), key_list);
}

/* Strings, and the integers that go with them: X has the one, and the result the other. */
static void look_up_names(keel_emit *all, const char *const *strings,
                          keel_ml_ints ints, int64_t count) {
  kd_dtype dtype = keel_emit_dtype(all, keel_emit_in(all, 0));
  uint32_t names = keel_emit_strings(all, strings, count);
  uint32_t numbers =
      ints.at ? keel_emit_constant(all, KD_I64, 1, &ints.count, ints.at)
              : keel_emit_range(all, keel_emit_int(all, count));
  if (dtype == KD_STRING)
    look_up(all, names, numbers);
  else if (dtype == KD_I64)
    look_up(all, numbers, names);
  else
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "X must be strings or i64, and known to be");
}

static void expand_label_encoder(keel_emit *all) {
  int64_t keys = 0, values = 0, classes = 0;
  const char *const *names =
      keel_ml_strings_of(all, "classes_strings", &classes);
  if (classes) {
    look_up_names(all, names, (keel_ml_ints){NULL, 0}, classes);
    return;
  }
  uint32_t key_list = table_list(all, "keys", &keys);
  uint32_t value_list = table_list(all, "values", &values);
  if (keys != values)
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "it has %lld keys, and %lld values", (long long)keys,
                   (long long)values);
  if (all->status == KD_OK) look_up(all, key_list, value_list);
}

static void expand_category_mapper(keel_emit *all) {
  keel_ml_ints ints = keel_ml_ints_of(all, "cats_int64s");
  int64_t count = 0;
  const char *const *names = keel_ml_strings_of(all, "cats_strings", &count);
  if (!count || count != ints.count)
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "it has %lld cats_strings, and %lld cats_int64s",
                   (long long)count, (long long)ints.count);
  if (all->status == KD_OK) look_up_names(all, names, ints, count);
}

/* Keel has no maps: probabilities stay a table, a column for each class. */
static void expand_zip_map(keel_emit *all) {
  int64_t labels = keel_ml_labels_of(all, "classlabels_int64s").count;
  int64_t have = keel_ml_features(all, 0);
  keel_ml_check(all, !labels || have < 0 || have == labels,
                "X has %lld columns for %lld labels", (long long)have,
                (long long)labels);
  keel_emit_give(all, 0, keel_emit_in(all, 0));
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    /* models of scikit-learn and its like, which are written with other ops, too */
    ML("ArrayFeatureExtractor", 1, "plain", "X:T Y:i64 -> Z:T", "",
       ml_features),
    ML("Binarizer", 1, "num", "X:T -> Y:T", "threshold:f=0", same),
    ML("FeatureVectorizer", 1, "num", "X:num% -> Y:f32", "inputdimensions:I",
       ml_joined),
    ML("Imputer", 1, "num", "X:T -> Y:T",
       "imputed_value_floats:F imputed_value_int64s:I replaced_value_float:f=0"
       " replaced_value_int64:i=0",
       same),
    ML("CategoryMapper", 1, "i64", "X:any -> Y:any",
       "cats_int64s:I cats_strings:S default_int64:i=-1"
       " default_string:s=_Unused",
       ml_encoded),
    ML("LabelEncoder", 4, "order", "X:T -> Y:any",
       "classes_strings:S default_float:f=0 default_int64:i=-1"
       " default_string:s=_Unused default_tensor:t keys_floats:F keys_int64s:I"
       " keys_strings:S keys_tensor:t values_floats:F values_int64s:I"
       " values_strings:S values_tensor:t",
       ml_encoded),
    ML("Normalizer", 1, "num", "X:T -> Y:f32", "norm:s=MAX|L1|L2", same),
    ML("OneHotEncoder", 1, "order", "X:T -> Y:f32",
       "cats_int64s:I cats_strings:S zeros:i=1", ml_one_hot),
    ML("Scaler", 1, "num", "X:T -> Y:f32", "offset:F scale:F", same),
    ML("ZipMap", 1, "f32", "X:T -> Z:T",
       "classlabels_int64s:I classlabels_strings:S", ml_zip),
};

static const keel_op_rule rules[] = {
    {"ai.onnx.ml::ArrayFeatureExtractor",
     .expand = expand_array_feature_extractor, .traits = KEEL_OP_STRINGS},
    {"ai.onnx.ml::Binarizer", .expand = expand_binarizer},
    {"ai.onnx.ml::FeatureVectorizer", .expand = expand_feature_vectorizer},
    {"ai.onnx.ml::Imputer", .expand = expand_imputer},
    {"ai.onnx.ml::CategoryMapper", .expand = expand_category_mapper},
    {"ai.onnx.ml::LabelEncoder", .expand = expand_label_encoder,
     .traits = KEEL_OP_STRINGS},
    {"ai.onnx.ml::Normalizer", .expand = expand_normalizer},
    {"ai.onnx.ml::OneHotEncoder", .expand = expand_one_hot_encoder,
     .traits = KEEL_OP_STRINGS},
    {"ai.onnx.ml::Scaler", .expand = expand_scaler},
    {"ai.onnx.ml::ZipMap", .expand = expand_zip_map},
};

const keel_op_table keel_ops_ml_features = {KEEL_TABLE_ROWS(rows),
                                            KEEL_TABLE_RULES(rules)};
