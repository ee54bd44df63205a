/* ml_test.c - ai.onnx.ml but for its trees: linear models, vector machines, and what prepares
 * features, against numbers worked out by hand; and each model that must be refused, with why. */
#include "ml.h"

/* ---- features ----------------------------------------------------------------------------- */

TEST_THAT(features_are_scaled) {
  const float x[] = {1, 2, 3, -4}, offset[] = {1, -2}, scale[] = {10, 0.5F};
  const float want[] = {0, 2, 20, -1}, one[] = {2}, doubled[] = {2, 4, 6, -8};
  call c = CALL("Scaler", 1, FLOATS("offset", offset), FLOATS("scale", scale));
  expect(&c, 2, 2, x, want, 4);
  c = (call)CALL("Scaler", 1, FLOATS("scale", one));
  expect(&c, 2, 2, x, doubled, 4);
}

TEST_THAT(features_are_normalized) {
  static const struct {
    const char *norm;
    float want[4];
  } all[] = {{"MAX", {0.75F, -1, 0, 0}},
             {"L1", {3 / 7.0F, -4 / 7.0F, 0, 0}},
             {"L2", {0.6F, -0.8F, 0, 0}}};
  const float x[] = {3, -4, 0, 0};
  for (int i = 0; i < 3; i++) {
    const call c = CALL("Normalizer", 1, STRING("norm", all[i].norm));
    expect(&c, 2, 2, x, all[i].want, 4);
  }
}

TEST_THAT(what_is_missing_is_imputed) {
  const float x[] = {NAN, 2, 3, NAN, -1, 5}, by[] = {7, 8};
  const float want[] = {7, 2, 3, 8, -1, 5}, other[] = {NAN, 2, 3, NAN, 7, 5};
  call c = CALL("Imputer", 1, FLOATS("imputed_value_floats", by),
                FLOAT("replaced_value_float", NAN));
  expect(&c, 3, 2, x, want, 6);
  c.attrs[1] = FLOAT("replaced_value_float", -1);
  expect(&c, 3, 2, x, other, 6);
}

TEST_THAT(features_become_bits) {
  const float x[] = {0.5F, 0.6F, -1, NAN}, want[] = {0, 1, 0, 0};
  const call c = CALL("Binarizer", 1, FLOAT("threshold", 0.5F));
  expect(&c, 2, 2, x, want, 4);
}

TEST_THAT(labels_are_encoded) {
  const float x[] = {2, NAN, 7, 0, -0.0F}, keys[] = {2, 0, NAN, 2};
  const float floats_of[] = {10, 20, 30, 40}, want[] = {40, 30, -2, 20, 20};
  const int64_t ints_of[] = {1, 2, 3, 4}, whole[] = {4, 3, -9, 2, 2};
  call c = CALL("LabelEncoder", 1, FLOATS("keys_floats", keys),
                FLOATS("values_floats", floats_of), FLOAT("default_float", -2));
  expect(&c, 1, 5, x, want, 5);
  c.attrs[1] = INTS("values_int64s", ints_of);
  c.attrs[2] = INT("default_int64", -9);
  keel_tensor *in = rows(1, 5, x), *y = NULL;
  expect_ok(run(&c, in, &y));
  expect_labels(y, whole, 5);
  /* the same by tensors */
  const int64_t four = 4, one = 1, no = -9;
  keel_tensor *lists[] = {floats(context, 4, keys),
                          create_tensor(context, KD_I64, 1, &four, ints_of),
                          create_tensor(context, KD_I64, 1, &one, &no)};
  c.attrs[0] = tensor_attr("keys_tensor", lists[0]);
  c.attrs[1] = tensor_attr("values_tensor", lists[1]);
  c.attrs[2] = tensor_attr("default_tensor", lists[2]);
  expect_ok(run(&c, in, &y));
  expect_labels(y, whole, 5);
  release_all(lists, 3);
  keel_tensor_release(in);
}

/* More elements than are looked up at once, by keys of each type. */
TEST_THAT(many_elements_are_found) {
  enum { COUNT = 1000, KEYS = 7 };
  static const kd_dtype types[] = {KD_F32, KD_F64, KD_I64, KD_I32, KD_I16};
  int64_t x[COUNT], places[COUNT];
  const int64_t keys[KEYS] = {3, -1, 12, 0, -1, 5, 40};
  for (int i = 0; i < COUNT; i++)
    x[i] = i % 61 - 10;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    const keel_attr cast = INT("to", types[t]);
    keel_tensor *wide[] = {create_tensor(context, KD_I64, DIMS(COUNT), x),
                           create_tensor(context, KD_I64, DIMS(KEYS), keys)};
    keel_tensor *in[2] = {NULL, NULL}, *y = NULL;
    for (int i = 0; i < 2; i++)
      expect_ok(keel_call(context, "Cast", &cast, 1, &wide[i], 1, &in[i], 1));
    expect_ok(keel_call(context, "keel::Find", NULL, 0, in, 2, &y, 1));
    expect_ok(keel_tensor_read(y, places, sizeof places));
    for (int i = 0; i < COUNT; i++) {
      int64_t want = -1;
      for (int k = 0; k < KEYS; k++)
        if (keys[k] == x[i]) want = k;
      assert_int_equal(places[i], want);
    }
    release_all(wide, 2);
    release_all(in, 2);
    keel_tensor_release(y);
  }
}

TEST_THAT(categories_become_columns) {
  const int64_t cats[] = {5, -1}, dims[] = {2, 1}, x[] = {-1, 5},
                odd[] = {5, 6};
  const float want[] = {0, 1, 1, 0}, none[] = {1, 0, 0, 0};
  call c = CALL("OneHotEncoder", 1, INTS("cats_int64s", cats), INT("zeros", 0));
  keel_tensor *in = create_tensor(context, KD_I64, 2, dims, x), *y = NULL;
  expect_ok(run(&c, in, &y));
  assert_int_equal(keel_tensor_rank(y), 3);
  expect_near(y, want, 4);
  keel_tensor_release(in);
  in = create_tensor(context, KD_I64, 2, dims, odd);
  refuse(&c, in, "element 1 is 6, which is none of the 2");
  c.attrs[1] = INT("zeros", 1);
  expect_ok(run(&c, in, &y));
  expect_near(y, none, 4);
  keel_tensor_release(in);
}

TEST_THAT(probabilities_stay_a_table) {
  const float x[] = {0.25F, 0.75F, 1, 0};
  const call c = CALL("ZipMap", 1, INTS("classlabels_int64s", two_labels));
  expect(&c, 2, 2, x, x, 4);
}

/* Taken from a table, and from a line, which becomes a row; joined again. */
TEST_THAT(features_are_taken_and_joined) {
  const float x[] = {1, 2, 3, 4, 5, 6}, line[] = {3, 1};
  const float want[] = {3, 1, 1, 2, 3, 6, 4, 4, 5, 6};
  const int64_t dims[] = {2, 3}, open[] = {-1, 3}, places[] = {2, 0};
  const int64_t sizes[] = {2, 3};
  for (int known = 0; known < 2; known++) {
    keel_builder *builder = create_builder(context, "main");
    keel_value in =
        keel_builder_input(builder, "x", KD_F32, 2, known ? dims : open);
    /* of a type that is not known where rows are open */
    const keel_value pair[] = {
        op(builder, "Neg", op(builder, "Neg", in, KEEL_ABSENT), KEEL_ABSENT),
        add_ints(builder, 2, places)};
    const keel_value both[] = {
        keel_builder_op(builder, "ai.onnx.ml::ArrayFeatureExtractor", NULL, 0,
                        pair, 2),
        in};
    const keel_attr attr = INTS("inputdimensions", sizes);
    keel_plan *plan =
        plan_giving(builder,
                    keel_builder_op(builder, "ai.onnx.ml::FeatureVectorizer",
                                    &attr, 1, both, 2),
                    NULL);
    keel_tensor *t = create_tensor(context, KD_F32, 2, dims, x), *y = NULL;
    expect_ok(keel_plan_run(plan, &t, 1, &y, 1));
    expect_near(y, want, 10);
    RELEASE(t, plan);
  }
  keel_builder *builder = create_builder(context, "main");
  const keel_value in = keel_builder_input(builder, "x", KD_F32, DIMS(-1));
  keel_plan *plan = plan_giving(
      builder,
      op(builder, "ai.onnx.ml::ArrayFeatureExtractor",
         op(builder, "Neg", op(builder, "Neg", in, KEEL_ABSENT), KEEL_ABSENT),
         add_ints(builder, 2, places)),
      NULL);
  keel_tensor *t = floats(context, 3, x), *y = output_of(plan, &t, 1);
  assert_int_equal(keel_tensor_rank(y), 2);
  expect_near(y, line, 2);
  RELEASE(t, plan);
}

TEST_THAT(bad_features_are_refused) {
  static const char *const strings[] = {"a", "b"};
  const float x[] = {1, 2, 3, 4}, three[] = {1, 2, 3}, two[] = {1, 2};
  const int64_t ints[] = {1, 2};
  keel_tensor *in = rows(2, 2, x);
#define REFUSED(WORDS, OP, ...)              \
  do {                                       \
    const call c = CALL(OP, 1, __VA_ARGS__); \
    refuse(&c, in, WORDS);                   \
  } while (0)
  REFUSED("X has 2 features, and its attributes are of 3", "Scaler",
          FLOATS("scale", three));
  REFUSED("offset has 2 numbers, and scale 3", "Scaler", FLOATS("scale", three),
          FLOATS("offset", two));
  REFUSED("scale is an empty list", "Scaler", floats_attr("scale", 0, two));
  REFUSED("not one of MAX|L1|L2", "Normalizer", STRING("norm", "L3"));
  REFUSED("one of imputed_value_floats and imputed_value_int64s", "Imputer",
          INTS("imputed_value_int64s", ints));
  REFUSED("X has 2 features", "Imputer", FLOATS("imputed_value_floats", three));
  REFUSED("X is of numbers, and it has no cats_int64s", "OneHotEncoder",
          strings_attr("cats_strings", 2, strings));
  REFUSED("no cats_int64s", "OneHotEncoder", INT("zeros", 1));
  REFUSED("it has 2 keys, and 3 values", "LabelEncoder",
          FLOATS("keys_floats", two), FLOATS("values_floats", three));
  REFUSED(
      "one of values_strings, values_floats, values_int64s and values_tensor,"
      " not 0",
      "LabelEncoder", FLOATS("keys_floats", two));
  REFUSED("keys_tensor, not 2", "LabelEncoder", FLOATS("keys_floats", two),
          INTS("keys_int64s", ints), FLOATS("values_floats", two));
  REFUSED("it has 3 keys, and 2 values", "LabelEncoder",
          FLOATS("keys_floats", three),
          strings_attr("values_strings", 2, strings));
  REFUSED("X must be strings or i64", "LabelEncoder",
          strings_attr("classes_strings", 2, strings));
  REFUSED("for ", "ZipMap", INTS("classlabels_int64s", three_labels));
#undef REFUSED
  keel_tensor_release(in);
}

/* ---- linear models ------------------------------------------------------------------------ */

static const float linear_rows[] = {1, 2, -3, 0.5F};

TEST_THAT(linear_models_predict) {
  const float weights[] = {2, 1, 0, -1}, bias[] = {0.5F, 1};
  const float want[] = {4.5F, -1, -5, 0.5F};
  const call c = CALL("LinearRegressor", 1, FLOATS("coefficients", weights),
                      FLOATS("intercepts", bias), INT("targets", 2));
  expect(&c, 2, 2, linear_rows, want, 4);
}

TEST_THAT(linear_models_classify) {
  const float weights[] = {2, 1, 0, -1, 1, 1}, bias[] = {0.5F, 1, 0};
  const float scores[] = {4.5F, -1, 3, -5, 0.5F, -2.5F};
  const int64_t labels[] = {4, 2};
  call c =
      CALL("LinearClassifier", 2, FLOATS("coefficients", weights),
           FLOATS("intercepts", bias), INTS("classlabels_ints", three_labels),
           STRING("post_transform", "NONE"));
  expect_classes(&c, 2, 2, linear_rows, labels, scores, 3);
  float turned[6];
  for (int i = 0; i < 6; i++)
    turned[i] = logistic(scores[i]);
  c.attrs[3] = STRING("post_transform", "LOGISTIC");
  expect_classes(&c, 2, 2, linear_rows, labels, turned, 3);
  /* one score of two classes is the second one's */
  const float one_row[] = {0.5F, 1}, one[] = {1.5F};
  const float both[] = {-4, 4, -0.5F, 0.5F};
  const int64_t second[] = {8, 8};
  c.attrs[0] = FLOATS("coefficients", one_row);
  c.attrs[1] = FLOATS("intercepts", one);
  c.attrs[2] = INTS("classlabels_ints", two_labels);
  c.attrs[3] = STRING("post_transform", "NONE");
  expect_classes(&c, 2, 2, linear_rows, second, both, 2);
}

/* ONNX's probit is an approximation of the normal distribution's quantiles. */
TEST_THAT(scores_become_quantiles) {
  const float weight[] = {1}, x[] = {0.5F, 0.975F, 0.1F, 0, 1};
  const call c = CALL("LinearRegressor", 1, FLOATS("coefficients", weight),
                      STRING("post_transform", "PROBIT"));
  keel_tensor *in = rows(5, 1, x), *y = NULL;
  float got[5];
  expect_ok(run(&c, in, &y));
  expect_ok(keel_tensor_read(y, got, sizeof got));
  assert_true(fabsf(got[0]) < 1e-3F);
  assert_true(fabsf(got[1] - 1.96F) < 0.01F);
  assert_true(fabsf(got[2] + 1.2816F) < 0.01F);
  assert_true(got[3] == 0 && got[4] == 0);
  RELEASE(in, y);
}

/* ---- vector machines ------------------------------------------------------------------------ */

static const float vectors[] = {1, 0, 0, 2};

TEST_THAT(vector_machines_predict) {
  const float weights[] = {2, -1}, rho[] = {0.5F}, params[] = {0.5F, 1, 3};
  const float x[] = {1, 1, -2, 0.5F};
  static const char *const types[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  for (int t = 0; t < 4; t++) {
    float want[2];
    for (int r = 0; r < 2; r++) {
      double sum = 0.5;
      for (int v = 0; v < 2; v++) {
        double product = 0, distance = 0;
        for (int k = 0; k < 2; k++) {
          double a = (double)x[r * 2 + k], b = (double)vectors[v * 2 + k];
          product += a * b;
          distance += (a - b) * (a - b);
        }
        double inner = 0.5 * product + 1;
        double kernel = t == 0   ? product
                        : t == 1 ? inner * inner * inner
                        : t == 2 ? exp(-0.5 * distance)
                                 : tanh(inner);
        sum += (double)weights[v] * kernel;
      }
      want[r] = (float)sum;
    }
    const call c = CALL("SVMRegressor", 1, FLOATS("support_vectors", vectors),
                        FLOATS("coefficients", weights), FLOATS("rho", rho),
                        INT("n_supports", 2), FLOATS("kernel_params", params),
                        STRING("kernel_type", types[t]));
    expect(&c, 2, 2, x, want, 2);
  }
  /* without vectors it is linear; what is of one class is 1, all else -1 */
  const float want[] = {1.5F, -4}, one[] = {1, -1};
  call c = CALL("SVMRegressor", 1, FLOATS("coefficients", weights),
                FLOATS("rho", rho));
  expect(&c, 2, 2, x, want, 2);
  c.attrs[c.count++] = INT("one_class", 1);
  expect(&c, 2, 2, x, one, 2);
}

/* Without vectors each class has a score of its own. */
TEST_THAT(machines_without_vectors_are_linear) {
  const float weights[] = {1, 0, 0, 1, -1, -1}, rho[] = {0.5F};
  const float x[] = {1, 2, -3, 1},
              scores[] = {1.5F, 2.5F, -2.5F, -2.5F, 1.5F, 2.5F};
  const int64_t labels[] = {2, 9};
  const call c =
      CALL("SVMClassifier", 2, FLOATS("coefficients", weights),
           FLOATS("rho", rho), INTS("classlabels_ints", three_labels));
  expect_classes(&c, 2, 2, x, labels, scores, 3);
}

/* Three classes, one vector each, so that scores of pairs can be told at a glance. */
static call machine(const char *transform, bool likely) {
  static const float three[] = {1, 0, 0, 1, 1, 1};
  static const float weights[] = {1, -1, -2, 0.5F, 2, -3};
  static const float rho[] = {0, 0.25F, -0.5F}, a[] = {-1, -2, -0.5F},
                     b[] = {0, 0.25F, -0.125F};
  static const int64_t sizes[] = {1, 1, 1};
  call c = {.op = "SVMClassifier",
            .attrs = {FLOATS("support_vectors", three),
                      FLOATS("coefficients", weights), FLOATS("rho", rho),
                      INTS("vectors_per_class", sizes),
                      INTS("classlabels_ints", three_labels),
                      STRING("post_transform", transform), FLOATS("prob_a", a),
                      FLOATS("prob_b", b)},
            .count = likely ? 8 : 6,
            .outputs = 2};
  return c;
}

/* Scores of 0 and 1: w[0][0] k0 + w[0][1] k1 + rho[0]; of 0 and 2: w[1][0] k0 + w[0][2] k2 +
 * rho[1]; of 1 and 2: w[1][1] k1 + w[1][2] k2 + rho[2]. */
static const float machine_rows[] = {2, 1, -1, 3};
static const float machine_scores[] = {1, -4.75F, -7.5F, -4, -4.25F, -0.5F};

TEST_THAT(vector_machines_classify) {
  const int64_t labels[] = {9, 9};
  call c = machine("NONE", false);
  expect_classes(&c, 2, 2, machine_rows, labels, machine_scores, 3);
}

/* Of three classes probabilities make p'Qp least: each deviation from pairs is made even. */
TEST_THAT(pairs_become_probabilities) {
  static const float a[] = {-1, -2, -0.5F}, b[] = {0, 0.25F, -0.125F};
  call c = machine("NONE", true);
  keel_tensor *x = rows(2, 2, machine_rows), *y[2] = {NULL, NULL};
  float got[6];
  expect_ok(run(&c, x, y));
  expect_ok(keel_tensor_read(y[1], got, sizeof got));
  for (int row = 0; row < 2; row++) {
    double r[3][3] = {{0}}, p[3], value[3], mean = 0;
    for (int i = 0, at = 0; i < 3; i++)
      for (int j = i + 1; j < 3; j++, at++) {
        double s = (double)machine_scores[row * 3 + at];
        r[i][j] = 1 / (1 + exp(s * (double)a[at] + (double)b[at]));
        r[j][i] = 1 - r[i][j];
      }
    for (int i = 0; i < 3; i++)
      p[i] = (double)got[row * 3 + i];
    assert_true(fabs(p[0] + p[1] + p[2] - 1) < 1e-6);
    for (int i = 0; i < 3; i++) {
      value[i] = 0;
      for (int j = 0; j < 3; j++)
        if (i != j) value[i] += r[j][i] * (r[j][i] * p[i] - r[i][j] * p[j]);
      mean += p[i] * value[i];
    }
    for (int i = 0; i < 3; i++)
      assert_true(fabs(value[i] - mean) < 0.005 / 3);
  }
  keel_tensor_release(x);
  release_all(y, 2);
}

/* Of two classes a pair's score has both signs, and stands for the first class. */
TEST_THAT(one_pair_gives_two_scores) {
  static const float weights[] = {1, -1}, rho[] = {0.25F};
  static const int64_t sizes[] = {1, 1};
  const float x[] = {2, 0, 0, 2}, two[] = {1, 0, 0, 1};
  const float scores[] = {-2.25F, 2.25F, 1.75F, -1.75F};
  const int64_t labels[] = {-5, 8};
  const call c = CALL("SVMClassifier", 2, FLOATS("support_vectors", two),
                      FLOATS("coefficients", weights), FLOATS("rho", rho),
                      INTS("vectors_per_class", sizes),
                      INTS("classlabels_ints", two_labels));
  expect_classes(&c, 2, 2, x, labels, scores, 2);
}

TEST_THAT(bad_models_are_refused) {
  const float three[] = {1, 2, 3}, two[] = {1, 2};
  const int64_t negative[] = {1, -1, 1}, many[] = {1, 1, INT64_MAX};
  keel_tensor *x = rows(2, 2, machine_rows);
  call c = CALL("LinearRegressor", 1, FLOATS("coefficients", three),
                INT("targets", 2));
  refuse(&c, x, "3 coefficients are not as many for each of 2 scores");
  c.attrs[1] = INT("targets", 1);
  refuse(&c, x, "X has 2 features, and its attributes are of 3");
  c.attrs[1] = FLOATS("intercepts", two);
  c.attrs[0] = FLOATS("coefficients", two);
  refuse(&c, x, "2 intercepts for 1 scores");
  c = (call)CALL("LinearClassifier", 2, FLOATS("coefficients", two),
                 FLOATS("intercepts", two),
                 INTS("classlabels_ints", three_labels));
  refuse(&c, x, "3 labels for the scores of 2 classes");
  c = (call)CALL("SVMRegressor", 1, FLOATS("support_vectors", three),
                 INT("n_supports", 2), FLOATS("coefficients", two),
                 FLOATS("rho", two), FLOATS("kernel_params", two));
  refuse(&c, x, "3 support_vectors are not as many for each of 2");
  c.attrs[0] = FLOATS("support_vectors", vectors);
  refuse(&c, x, "kernel_params are gamma, coef0 and degree, not 2");
  c.attrs[4] = STRING("kernel_type", "LAPLACE");
  refuse(&c, x, "not one of LINEAR|POLY|RBF|SIGMOID");
  c.count = 4;
  c.attrs[2] = FLOATS("coefficients", three);
  refuse(&c, x, "coefficients has 3 numbers, not 2");
  c.count = 3;
  refuse(&c, x, "rho is missing");
  c = machine("NONE", true);
  c.attrs[7] = FLOATS("prob_b", two);
  refuse(&c, x, "prob_b has 2 numbers, not 3");
  c = machine("NONE", false);
  c.attrs[3] = INTS("vectors_per_class", negative);
  refuse(&c, x, "vectors_per_class[1] is -1");
  c.attrs[3] = INTS("vectors_per_class", many);
  refuse(&c, x, "vectors_per_class[2] is 9223372036854775807");
  c.attrs[3].count = 2;
  refuse(&c, x, "vectors_per_class has 2 numbers, not 3");
  const int64_t none[] = {0, 0, 0};
  c.attrs[3] = INTS("vectors_per_class", none);
  refuse(&c, x, "vectors_per_class are all 0");
  c = machine("NONE", false);
  c.attrs[1].count = 5;
  refuse(&c, x, "coefficients has 5 numbers, not 6");
  c = machine("NONE", false);
  c.attrs[2].count = 2;
  refuse(&c, x, "rho has 2 numbers, not 3");
  keel_tensor_release(x);
}

RUN_TESTS(open_cpu, close_context)
