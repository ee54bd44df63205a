/* ml_test.c - ai.onnx.ml: trees, linear models, vector machines, and what prepares features,
 * against numbers worked out by hand; and each model that must be refused, with why. */
#include <math.h>

#define WORKERS 2
#include "with_cpu.h"

#define ATTRS_MOST 24

/* ---- one op ---------------------------------------------------------------------------- */

static keel_attr floats_attr(const char *name, uint32_t count,
                             const float *list) {
  return (keel_attr){
      .name = name, .kind = KD_ATTR_FLOATS, .count = count, .floats = list};
}

static keel_attr strings_attr(const char *name, uint32_t count,
                              const char *const *list) {
  return (keel_attr){
      .name = name, .kind = KD_ATTR_STRINGS, .count = count, .strings = list};
}

static keel_attr tensor_attr(const char *name, keel_tensor *tensor) {
  return (keel_attr){.name = name, .kind = KD_ATTR_TENSOR, .tensor = tensor};
}

#define FLOATS(NAME, LIST) \
  floats_attr(NAME, (uint32_t)(sizeof(LIST) / sizeof *(LIST)), LIST)
#define INTS(NAME, LIST) \
  (keel_attr) KEEL_INTS(NAME, (uint32_t)(sizeof(LIST) / sizeof *(LIST)), LIST)
#define INT(NAME, VALUE)    (keel_attr) KEEL_INT(NAME, VALUE)
#define FLOAT(NAME, VALUE)  (keel_attr) KEEL_FLOAT(NAME, VALUE)
#define STRING(NAME, VALUE) (keel_attr) KEEL_STRING(NAME, VALUE)

typedef struct call {
  const char *op;
  keel_attr attrs[ATTRS_MOST];
  uint32_t count, outputs;
  bool open; /* the number of rows is not known when the plan is made */
} call;

/* A program of the one op, planned and run on x; out: as many as the call has. */
static keel_status run(const call *c, keel_tensor *x, keel_tensor **out) {
  int64_t dims[KD_MAX_RANK];
  char op[64];
  keel_value in = KEEL_ABSENT, made[2];
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  uint32_t rank = keel_tensor_rank(x);
  keel_builder *builder = create_builder(context, "main");
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = c->open && !i ? -1 : keel_tensor_dims(x)[i];
  snprintf(op, sizeof op, "ai.onnx.ml::%s", c->op);
  in = keel_builder_input(builder, "x", keel_tensor_dtype(x), rank, dims);
  keel_status status = keel_builder_node_name(builder, "it");
  if (status == KD_OK)
    status = keel_builder_op_n(builder, op, c->attrs, c->count, &in, 1, made,
                               c->outputs);
  for (uint32_t i = 0; i < c->outputs && status == KD_OK; i++)
    status = keel_builder_output(builder, i ? "z" : "y", made[i]);
  if (status == KD_OK) status = keel_builder_finish(builder, &program);
  keel_builder_destroy(builder);
  if (status == KD_OK) status = keel_plan_create(program, NULL, &plan);
  if (status == KD_OK) status = keel_plan_run(plan, &x, 1, out, c->outputs);
  for (uint32_t i = 0; i < c->outputs && status == KD_OK; i++)
    status = keel_tensor_wait(out[i]);
  keel_plan_release(plan);
  keel_program_release(program);
  return status;
}

/* Refused, with these words, when planned with known rows and with open ones. Keeps x. */
static void refuse(const call *c, keel_tensor *x, const char *words) {
  call open = *c;
  open.open = true;
  keel_tensor *out[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    if (run(i ? &open : c, x, out) == KD_OK)
      fail_msg("%s was not refused: %s", c->op, words);
    expect_message(words);
  }
}

static keel_tensor *rows(int64_t count, int64_t features, const float *data) {
  const int64_t dims[] = {count, features};
  return create_tensor(context, KD_F32, 2, dims, data);
}

static void expect_near(keel_tensor *y, const float *want, size_t count) {
  float got[64];
  assert_int_equal(keel_tensor_size(y), count * sizeof *got);
  expect_ok(keel_tensor_read(y, got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(got[i] - want[i]) <= 2e-6F * fmaxf(1, fabsf(want[i]))) &&
        !(isnan(got[i]) && isnan(want[i])))
      fail_msg("element %zu is %.9g, not %.9g", i, (double)got[i],
               (double)want[i]);
  keel_tensor_release(y);
}

static void expect_labels(keel_tensor *y, const int64_t *want, size_t count) {
  int64_t got[64];
  assert_int_equal(keel_tensor_size(y), count * sizeof *got);
  expect_ok(keel_tensor_read(y, got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    assert_int_equal(got[i], want[i]);
  keel_tensor_release(y);
}

/* An op of one output, on rows of floats; with known rows and open ones. */
static void expect(const call *c, int64_t count, int64_t features,
                   const float *data, const float *want, size_t wanted) {
  call open = *c;
  open.open = true;
  keel_tensor *x = rows(count, features, data), *y = NULL;
  for (int i = 0; i < 2; i++) {
    expect_ok(run(i ? &open : c, x, &y));
    expect_near(y, want, wanted);
  }
  keel_tensor_release(x);
}

/* A classifier; the same. */
static void expect_classes(const call *c, int64_t count, int64_t features,
                           const float *data, const int64_t *labels,
                           const float *scores, size_t columns) {
  call open = *c;
  open.open = true;
  keel_tensor *x = rows(count, features, data), *y[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    expect_ok(run(i ? &open : c, x, y));
    expect_labels(y[0], labels, (size_t)count);
    expect_near(y[1], scores, (size_t)count * columns);
  }
  keel_tensor_release(x);
}

/* ---- trees, by ids --------------------------------------------------------------------- */

/* Of tree 7: x0 <= 1 ? 10 : x1 > 0.5 ? 20 : 30; of tree 3: 0.5. Votes of both targets. */
enum { NODES = 6, VOTES = 5 };

typedef struct ensemble {
  int64_t trees[NODES], nodes[NODES], features[NODES], yes[NODES], no[NODES];
  int64_t missing[NODES];
  const char *modes[NODES];
  float values[NODES];
  int64_t vote_trees[VOTES], vote_nodes[VOTES], targets[VOTES];
  float weights[VOTES];
} ensemble;

static const ensemble plain = {
    .trees = {7, 7, 7, 7, 7, 3},
    .nodes = {0, 1, 2, 3, 4, 0},
    .features = {0, 0, 1, 0, 0, 0},
    .yes = {1, 0, 3, 0, 0, 0},
    .no = {2, 0, 4, 0, 0, 0},
    .modes = {"BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "LEAF"},
    .values = {1, 0, 0.5F, 0, 0, 0},
    .vote_trees = {7, 7, 7, 3, 7},
    .vote_nodes = {1, 3, 4, 0, 3},
    .targets = {0, 0, 0, 0, 1},
    .weights = {10, 20, 30, 0.5F, -4}};

static call regressor(const ensemble *e, const char *aggregate) {
  return (call){
      .op = "TreeEnsembleRegressor",
      .attrs = {INTS("nodes_treeids", e->trees),
                INTS("nodes_nodeids", e->nodes),
                INTS("nodes_featureids", e->features),
                INTS("nodes_truenodeids", e->yes),
                INTS("nodes_falsenodeids", e->no),
                INTS("nodes_missing_value_tracks_true", e->missing),
                strings_attr("nodes_modes", NODES, e->modes),
                FLOATS("nodes_values", e->values),
                INTS("target_treeids", e->vote_trees),
                INTS("target_nodeids", e->vote_nodes),
                INTS("target_ids", e->targets),
                FLOATS("target_weights", e->weights), INT("n_targets", 2),
                STRING("aggregate_function", aggregate)},
      .count = 14,
      .outputs = 1};
}

static const float tree_rows[] = {1, 9, 1.0000001F, 0.6F, 2, 0.5F};

static void trees_are_walked_and_votes_counted(void **state) {
  const float sums[] = {10.5F, 0, 20.5F, -4, 30.5F, 0};
  const float averages[] = {5.25F, 0, 10.25F, -2, 15.25F, 0};
  const float least[] = {0.5F, 0, 0.5F, -4, 0.5F, 0};
  const float most[] = {10, 0, 20, -4, 30, 0};
  (void)state;
  call c = regressor(&plain, "SUM");
  expect(&c, 3, 2, tree_rows, sums, 6);
  c = regressor(&plain, "AVERAGE");
  expect(&c, 3, 2, tree_rows, averages, 6);
  c = regressor(&plain, "MIN");
  expect(&c, 3, 2, tree_rows, least, 6);
  c = regressor(&plain, "MAX");
  expect(&c, 3, 2, tree_rows, most, 6);
}

static void base_values_come_after_the_aggregate(void **state) {
  const float base[] = {100, 1000}, want[] = {105.25F, 1000};
  (void)state;
  call c = regressor(&plain, "AVERAGE");
  c.attrs[c.count++] = FLOATS("base_values", base);
  expect(&c, 1, 2, tree_rows, want, 2);
}

/* A tree's first node is its root, whatever its id; votes for a branch are not counted. */
static void ids_may_be_in_any_order(void **state) {
  const float sums[] = {10.5F, 0, 20.5F, 0, 30.5F, 0};
  const int64_t nodes[] = {9, 1, 0, -3, 4, 0}, votes[] = {1, -3, 4, 0, 9};
  ensemble e = plain;
  (void)state;
  memcpy(e.nodes, nodes, sizeof nodes);
  memcpy(e.vote_nodes, votes, sizeof votes);
  e.no[0] = 0;
  e.yes[2] = -3;
  call c = regressor(&e, "SUM");
  expect(&c, 3, 2, tree_rows, sums, 6);
}

/* More rows than a block has, and than lanes go into. */
static void many_rows_are_as_each_alone(void **state) {
  enum { COUNT = 3001 };
  static float x[COUNT][2], y[COUNT][2];
  const int64_t dims[] = {COUNT, 2};
  (void)state;
  for (int i = 0; i < COUNT; i++) {
    x[i][0] = (float)(i % 3);
    x[i][1] = (float)(i % 5) / 4;
  }
  call c = regressor(&plain, "SUM");
  keel_tensor *in = create_tensor(context, KD_F32, 2, dims, x), *out = NULL;
  expect_ok(run(&c, in, &out));
  expect_ok(keel_tensor_read(out, y, sizeof y));
  for (int i = 0; i < COUNT; i++) {
    bool second = x[i][0] > 1 && x[i][1] > 0.5F;
    assert_true(y[i][0] == (x[i][0] <= 1 ? 10.5F : second ? 20.5F : 30.5F));
    assert_true(y[i][1] == (second ? -4 : 0));
  }
  keel_tensor_release(in);
  keel_tensor_release(out);
}

static void each_mode_compares(void **state) {
  static const struct {
    const char *mode;
    float below, at, above, nan, nan_is_yes;
  } all[] = {
      {"BRANCH_LEQ", 10, 10, 30, 30, 10}, {"BRANCH_LT", 10, 30, 30, 30, 10},
      {"BRANCH_GTE", 30, 10, 10, 30, 10}, {"BRANCH_GT", 30, 30, 10, 30, 10},
      {"BRANCH_EQ", 30, 10, 30, 30, 10},  {"BRANCH_NEQ", 10, 30, 10, 10, 10}};
  const float x[] = {0.9999999F, 0, 1, 0, 1.0000001F, 0, NAN, 0};
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int alone = 0; alone < 2; alone++) {
      ensemble e = plain;
      e.modes[0] = all[i].mode;
      /* x1 is 0: not above 0.5, and below it or above -1 as the mode wants it to be no */
      if (alone) {
        e.modes[2] = all[i].mode;
        e.values[2] = i < 2 ? -1 : i < 5 ? 1 : 0;
      }
      const float want[] = {all[i].below + 0.5F, 0, all[i].at + 0.5F,  0,
                            all[i].above + 0.5F, 0, all[i].nan + 0.5F, 0};
      call c = regressor(&e, "SUM");
      expect(&c, 4, 2, x, want, 8);
      e.missing[0] = 1;
      const float yes[] = {all[i].nan_is_yes + 0.5F, 0};
      c = regressor(&e, "SUM");
      expect(&c, 1, 2, x + 6, yes, 2);
    }
}

/* Splits of f64 tell apart what f32 does not; X of f64 is not rounded to it. */
static void numbers_of_f64_are_compared_as_such(void **state) {
  const double splits[] = {1 + 1e-12, 0, 0.5, 0, 0, 0};
  const double x[][2] = {{1 + 1e-12, 0}, {1 + 2e-12, 0}};
  const float want[] = {10.5F, 0, 30.5F, 0};
  const int64_t six = NODES, dims[] = {2, 2};
  (void)state;
  keel_tensor *list = create_tensor(context, KD_F64, 1, &six, splits);
  keel_tensor *in = create_tensor(context, KD_F64, 2, dims, x), *y = NULL;
  call c = regressor(&plain, "SUM");
  c.attrs[7] = tensor_attr("nodes_values_as_tensor", list);
  expect_ok(run(&c, in, &y));
  expect_near(y, want, 4);
  const float narrow[] = {1, 0, 1.0000001F, 0};
  expect(&c, 2, 2, narrow, want, 4);
  const double below[] = {1 - 1e-12, 0, 0.5, 0, 0, 0};
  const float other[] = {30.5F, 0};
  keel_tensor *split = create_tensor(context, KD_F64, 1, &six, below);
  c.attrs[7] = tensor_attr("nodes_values_as_tensor", split);
  expect(&c, 1, 2, narrow, other, 2);
  keel_tensor_release(split);
  keel_tensor_release(list);
  keel_tensor_release(in);
}

static void integers_are_features_too(void **state) {
  const int64_t x[] = {1, 0, 2, 1}, dims[] = {2, 2};
  const float want[] = {10.5F, 0, 20.5F, -4};
  (void)state;
  call c = regressor(&plain, "SUM");
  keel_tensor *in = create_tensor(context, KD_I64, 2, dims, x), *y = NULL;
  expect_ok(run(&c, in, &y));
  expect_near(y, want, 4);
  keel_tensor_release(in);
}

static void one_row_is_a_list(void **state) {
  const float want[] = {20.5F, -4};
  (void)state;
  call c = regressor(&plain, "SUM");
  keel_tensor *in = floats(context, 2, tree_rows + 2), *y = NULL;
  expect_ok(run(&c, in, &y));
  assert_int_equal(keel_tensor_rank(y), 2);
  expect_near(y, want, 2);
  keel_tensor_release(in);
}

static void bad_trees_are_refused(void **state) {
  keel_tensor *x = rows(3, 2, tree_rows);
  (void)state;
#define REFUSED(WORDS, ...)        \
  do {                             \
    ensemble e = plain;            \
    __VA_ARGS__;                   \
    call c = regressor(&e, "SUM"); \
    refuse(&c, x, WORDS);          \
  } while (0)
  REFUSED("\"it\": node 0 is met twice", e.yes[2] = 0);
  REFUSED("node 2 is met twice", e.yes[2] = 2);
  REFUSED("node 1 is met twice", e.no[2] = 1);
  REFUSED("node 2 of tree 7 leads to node 9, which that tree has not",
          e.no[2] = 9);
  REFUSED("leads to node -1", e.yes[0] = -1);
  REFUSED("leads to node -9223372036854775808", e.yes[0] = INT64_MIN);
  REFUSED("node 3 of tree 7 is there twice", e.nodes[4] = 3);
  REFUSED("nodes_featureids[2] is 2, which X has not", e.features[2] = 2);
  REFUSED("nodes_featureids[0] is -1", e.features[0] = -1);
  REFUSED("nodes_modes[2] is \"BRANCH\"", e.modes[2] = "BRANCH");
  REFUSED("target_ids[4] is 2, and there are 2", e.targets[4] = 2);
  REFUSED("target_ids[1] is -1", e.targets[1] = -1);
  REFUSED("a weight is for node 5 of tree 7", e.vote_nodes[1] = 5);
#undef REFUSED
  static const struct {
    uint32_t attr, count;
    const char *words;
  } lengths[] = {{0, 5, "nodes_treeids has 5 entries, and nodes_nodeids 6"},
                 {1, 0, "nodes_treeids has 6 entries, and nodes_nodeids 0"},
                 {2, 5, "nodes_featureids has 5 entries"},
                 {3, 7, "nodes_truenodeids has 7 entries"},
                 {4, 1, "nodes_falsenodeids has 1 entries"},
                 {5, 2, "nodes_missing_value_tracks_true has 2 entries"},
                 {6, 5, "nodes_modes has 5 entries"},
                 {7, 5, "nodes_values has 5 entries"},
                 {8, 4, "target_treeids has 4 entries, and target_ids 5"},
                 {9, 4, "target_nodeids has 4 entries"},
                 {11, 3, "target_weights has 3 entries"}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    static const int64_t seven[7] = {0};
    call c = regressor(&plain, "SUM");
    keel_attr *attr = &c.attrs[lengths[i].attr];
    if (lengths[i].count > attr->count) attr->ints = seven;
    attr->count = lengths[i].count;
    refuse(&c, x, lengths[i].words);
  }
  call c = regressor(&plain, "SUM");
  for (int i = 0; i < 8; i++)
    c.attrs[i].count = 0;
  refuse(&c, x, "it has no nodes");
  c = regressor(&plain, "MEDIAN");
  refuse(&c, x, "\"MEDIAN\", and not one of SUM|AVERAGE|MIN|MAX");
  c = regressor(&plain, "SUM");
  c.attrs[12] = INT("n_targets", 0);
  refuse(&c, x, "n_targets is 0");
  c.attrs[12] = INT("n_targets", 1LL << 31);
  refuse(&c, x, "n_targets is 2147483648");
  c = regressor(&plain, "SUM");
  c.attrs[c.count++] = STRING("post_transform", "TANH");
  refuse(&c, x, "not one of NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT");
  const float base[] = {1};
  c = regressor(&plain, "SUM");
  c.attrs[c.count++] = FLOATS("base_values", base);
  refuse(&c, x, "base_values has 1 entries");
  keel_tensor_release(x);
}

/* ---- trees that classify ---------------------------------------------------------------- */

static const int64_t two_labels[] = {-5, 8}, three_labels[] = {4, 2, 9};

static call classifier(const ensemble *e, uint32_t labels,
                       const char *transform) {
  call c = regressor(e, "SUM");
  c.op = "TreeEnsembleClassifier";
  c.outputs = 2;
  c.attrs[8].name = "class_treeids";
  c.attrs[9].name = "class_nodeids";
  c.attrs[10].name = "class_ids";
  c.attrs[11].name = "class_weights";
  c.attrs[12] = (keel_attr)KEEL_INTS("classlabels_int64s", labels,
                                     labels == 2 ? two_labels : three_labels);
  c.attrs[13] = STRING("post_transform", transform);
  return c;
}

static float logistic(float x) {
  return (float)(1 / (1 + exp(-(double)x)));
}

static void trees_classify(void **state) {
  const int64_t labels[] = {4, 2, 4};
  const float scores[] = {10.5F, 0, 0, 0.5F, 20, 0, 30.5F, 0, 0};
  ensemble e = plain;
  (void)state;
  e.targets[1] = 1;
  e.weights[4] = 0;
  call c = classifier(&e, 3, "NONE");
  expect_classes(&c, 3, 2, tree_rows, labels, scores, 3);
  float soft[9];
  for (int i = 0; i < 9; i++) {
    const float *row = scores + i / 3 * 3;
    double most = (double)fmaxf(row[0], row[1]), sum = 0;
    for (int k = 0; k < 3; k++)
      sum += exp((double)row[k] - most);
    soft[i] = (float)(exp((double)scores[i] - most) / sum);
  }
  c = classifier(&e, 3, "SOFTMAX");
  expect_classes(&c, 3, 2, tree_rows, labels, soft, 3);
  /* what is zero stays zero */
  float zero[9];
  for (int i = 0; i < 9; i++) {
    const float *row = scores + i / 3 * 3;
    double most = (double)fmaxf(row[0], row[1]), sum = 0;
    for (int k = 0; k < 3; k++)
      sum += row[k] > 0 ? exp((double)row[k] - most) : 0;
    zero[i] = scores[i] > 0 ? (float)(exp((double)scores[i] - most) / sum) : 0;
  }
  c = classifier(&e, 3, "SOFTMAX_ZERO");
  expect_classes(&c, 3, 2, tree_rows, labels, zero, 3);
}

/* Votes for one class of two are the second one's score. */
static void votes_for_one_class_say_both(void **state) {
  const int64_t labels[] = {-5, 8, -5};
  ensemble e = plain;
  (void)state;
  const float weights[] = {0.25F, 0.5F, 0, 0.125F, 0.25F};
  memset(e.targets, 0, sizeof e.targets);
  memcpy(e.weights, weights, sizeof weights);
  const float likely[] = {0.625F, 0.375F, 0.125F, 0.875F, 0.875F, 0.125F};
  call c = classifier(&e, 2, "NONE");
  expect_classes(&c, 3, 2, tree_rows, labels, likely, 2);
  const float mixed[] = {-0.25F, 1, -1, 0.125F, 0};
  memcpy(e.weights, mixed, sizeof mixed);
  const float raw[] = {0.125F, -0.125F, -1.125F, 1.125F, 0.875F, -0.875F};
  c = classifier(&e, 2, "NONE");
  expect_classes(&c, 3, 2, tree_rows, labels, raw, 2);
  float turned[6];
  for (int i = 0; i < 6; i++)
    turned[i] = logistic(raw[i]);
  c = classifier(&e, 2, "LOGISTIC");
  expect_classes(&c, 3, 2, tree_rows, labels, turned, 2);
  const float base[] = {0.25F};
  const int64_t moved_labels[] = {8, 8, -5};
  const float moved[] = {-0.125F, 0.125F, -1.375F, 1.375F, 0.625F, -0.625F};
  c = classifier(&e, 2, "NONE");
  c.attrs[c.count++] = FLOATS("base_values", base);
  expect_classes(&c, 3, 2, tree_rows, moved_labels, moved, 2);
  const float two_bases[] = {0.25F, 100}; /* of the class with votes */
  c.attrs[c.count - 1] = FLOATS("base_values", two_bases);
  expect_classes(&c, 3, 2, tree_rows, moved_labels, moved, 2);
  /* of three classes one alone has a score */
  const int64_t alone_labels[] = {4, 2, 4};
  const float alone[] = {0, -0.125F, 0, 0, 1.125F, 0, 0, -0.875F, 0};
  for (int i = 0; i < VOTES; i++)
    e.targets[i] = 1;
  c = classifier(&e, 3, "NONE");
  expect_classes(&c, 3, 2, tree_rows, alone_labels, alone, 3);
}

static void labels_must_be_integers(void **state) {
  static const char *const names[] = {"cat", "dog"};
  const float weights[] = {1, 2};
  keel_tensor *x = rows(3, 2, tree_rows);
  (void)state;
  call c = classifier(&plain, 2, "NONE");
  c.attrs[12] = strings_attr("classlabels_strings", 2, names);
  refuse(&c, x, "strings, which Keel's tensors do not hold; train");
  c.attrs[12] = STRING("post_transform", "NONE");
  c.count = 13;
  refuse(&c, x, "no labels");
  c = (call){.op = "LinearClassifier",
             .attrs = {FLOATS("coefficients", weights),
                       strings_attr("classlabels_strings", 2, names)},
             .count = 2,
             .outputs = 2};
  refuse(&c, x, "strings, which Keel's tensors do not hold; train");
  c = (call){.op = "ZipMap",
             .attrs = {strings_attr("classlabels_strings", 2, names)},
             .count = 1,
             .outputs = 1};
  refuse(&c, x, "strings, which Keel's tensors do not hold; train");
  keel_tensor_release(x);
}

/* ---- trees, by places --------------------------------------------------------------------- */

/* x0 in {2, 5} ? leaf 0 : x1 < 3 ? leaf 1 : leaf 2 */
typedef struct placed {
  int64_t features[2], yes[2], no[2], yes_leaf[2], no_leaf[2], roots[1];
  int64_t targets[3];
  uint8_t modes[2];
  float splits[2], members[3], weights[3];
} placed;

static const placed sets = {.features = {0, 1},
                            .yes = {0, 1},
                            .no = {1, 2},
                            .yes_leaf = {1, 1},
                            .no_leaf = {0, 1},
                            .targets = {0, 1, 0},
                            .modes = {6, 1},
                            .splits = {0, 3},
                            .members = {2, 5, NAN},
                            .weights = {1, 20, 300}};

enum { MODES = 7, SPLITS, MEMBERS, WEIGHTS };

static void take_lists(const placed *p, call *c) {
  const int64_t two = 2, three = 3;
  *c = (call){
      .op = "TreeEnsemble",
      .attrs =
          {INTS("nodes_featureids", p->features),
           INTS("nodes_truenodeids", p->yes), INTS("nodes_falsenodeids", p->no),
           INTS("nodes_trueleafs", p->yes_leaf),
           INTS("nodes_falseleafs", p->no_leaf), INTS("tree_roots", p->roots),
           INTS("leaf_targetids", p->targets),
           tensor_attr("nodes_modes",
                       create_tensor(context, KD_U8, 1, &two, p->modes)),
           tensor_attr("nodes_splits", floats(context, two, p->splits)),
           tensor_attr("membership_values", floats(context, three, p->members)),
           tensor_attr("leaf_weights", floats(context, three, p->weights)),
           INT("n_targets", 2), INT("aggregate_function", 1),
           INT("post_transform", 0)},
      .count = 14,
      .outputs = 1};
}

static void drop_lists(const call *c) {
  for (int i = MODES; i <= WEIGHTS; i++)
    keel_tensor_release(c->attrs[i].tensor);
}

static void sets_have_members(void **state) {
  const float x[] = {2, 0, 5, 9, 4, 2, 4, 3, NAN, 0};
  const float want[] = {1, 0, 1, 0, 0, 20, 300, 0, 0, 20};
  call c;
  (void)state;
  take_lists(&sets, &c);
  expect(&c, 5, 2, x, want, 10);
  const int64_t missing[] = {1, 0};
  const float yes[] = {1, 0};
  c.attrs[c.count++] = INTS("nodes_missing_value_tracks_true", missing);
  expect(&c, 1, 2, x + 8, yes, 2);
  drop_lists(&c);
}

static void bad_places_are_refused(void **state) {
  const float data[] = {2, 0};
  keel_tensor *x = rows(1, 2, data);
  (void)state;
#define REFUSED(WORDS, ...) \
  do {                      \
    placed p = sets;        \
    call c;                 \
    __VA_ARGS__;            \
    take_lists(&p, &c);     \
    refuse(&c, x, WORDS);   \
    drop_lists(&c);         \
  } while (0)
  REFUSED("node 0 leads to leaf 3, and there are 3", p.yes[0] = 3);
  REFUSED("node 0 leads to node 2, and there are 2", p.no[0] = 2);
  REFUSED("node 1 leads to leaf -1", p.no[1] = -1);
  REFUSED("node 0 is met twice", p.no_leaf[1] = 0; p.no[1] = 0);
  REFUSED("tree_roots[0] is 2, and there are 2 nodes", p.roots[0] = 2);
  REFUSED("leaf_targetids[1] is 2, and there are 2", p.targets[1] = 2);
  REFUSED("nodes_modes[1] is 7, and not 0 to 6", p.modes[1] = 7);
  REFUSED("membership_values has 1 sets, each ended by NaN, and 0 nodes",
          p.modes[0] = 0);
  REFUSED("has 1 sets, each ended by NaN, and 2 nodes", p.modes[1] = 6);
  REFUSED("nodes_featureids[1] is 5, which X has not", p.features[1] = 5);
#undef REFUSED
  call c;
  take_lists(&sets, &c);
  c.attrs[12] = INT("aggregate_function", 4);
  refuse(&c, x, "aggregate_function is 4, and not 0 to 3");
  c.attrs[12] = INT("aggregate_function", 1);
  c.attrs[13] = INT("post_transform", -1);
  refuse(&c, x, "post_transform is -1, and not 0 to 4");
  c.attrs[13] = INT("post_transform", 0);
  c.attrs[5].count = 0;
  refuse(&c, x, "tree_roots is empty");
  c.attrs[5].count = 1;
  c.attrs[3].count = 1;
  refuse(&c, x, "nodes_trueleafs has 1 entries");
  drop_lists(&c);
  keel_tensor_release(x);
}

/* What programs are written with has rules of its own: a kernel trusts no model. */
static void the_kernel_checks_its_lists(void **state) {
  static const struct {
    int64_t features[3], modes[3], yes[3], no[3], root, target;
    const char *words;
  } all[] = {
      {{0, -1, -1}, {0, 0, 0}, {1, 0, 1}, {2, 1, 2}, 0, 0, NULL},
      {{0, -1, -1}, {0, 0, 0}, {0, 0, 1}, {2, 1, 2}, 0, 0, "nodes behind it"},
      {{0, -1, -1}, {0, 0, 0}, {1, 0, 1}, {3, 1, 2}, 0, 0, "nodes behind it"},
      {{0, -1, -1},
       {0, 0, 0},
       {1, 0, 1},
       {2, 3, 2},
       0,
       0,
       "votes that are not"},
      {{0, -1, -1},
       {0, 0, 0},
       {1, 2, 1},
       {2, 1, 2},
       0,
       0,
       "votes that are not"},
      {{0, -1, -1}, {6, 0, 0}, {1, 0, 1}, {2, 1, 2}, 0, 0, "a mode that"},
      {{0, -1, -1}, {-1, 0, 0}, {1, 0, 1}, {2, 1, 2}, 0, 0, "a mode that"},
      {{1LL << 40, -1, -1},
       {0, 0, 0},
       {1, 0, 1},
       {2, 1, 2},
       0,
       0,
       "above 2^28"},
      {{5, -1, -1},
       {0, 0, 0},
       {1, 0, 1},
       {2, 1, 2},
       0,
       0,
       "the trees ask for 6"},
      {{0, -1, -1},
       {0, 0, 0},
       {1, 0, 1},
       {2, 1, 2},
       3,
       0,
       "root 0 of Trees is"},
      {{0, -1, -1}, {0, 0, 0}, {1, 0, 1}, {2, 1, 2}, 0, 1, "is for target 1"},
  };
  const float x[] = {0}, splits[] = {0, 0, 0}, want[] = {8};
  const double weights[] = {8, 9};
  const int64_t two = 2;
  (void)state;
  keel_tensor *split_list = floats(context, 3, splits);
  keel_tensor *weight_list = create_tensor(context, KD_F64, 1, &two, weights);
  keel_tensor *in = rows(1, 1, x), *y = NULL;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const int64_t targets[] = {all[i].target, 0};
    const keel_attr attrs[] = {INTS("features", all[i].features),
                               INTS("modes", all[i].modes),
                               INTS("yes", all[i].yes),
                               INTS("no", all[i].no),
                               KEEL_INTS("roots", 1, &all[i].root),
                               INTS("vote_targets", targets),
                               tensor_attr("splits", split_list),
                               tensor_attr("vote_weights", weight_list),
                               KEEL_INT("targets", 1)};
    keel_status status =
        keel_call(context, "keel::Trees", attrs, 9, &in, 1, &y, 1);
    if (status == KD_OK) status = keel_tensor_wait(y);
    assert_int_equal(status == KD_OK, !all[i].words);
    if (all[i].words)
      expect_message(all[i].words);
    else
      expect_near(keel_tensor_retain(y), want, 1);
    keel_tensor_release(y);
    y = NULL;
  }
  keel_tensor_release(split_list);
  keel_tensor_release(weight_list);
  keel_tensor_release(in);
}

/* ---- features ----------------------------------------------------------------------------- */

static void features_are_scaled(void **state) {
  const float x[] = {1, 2, 3, -4}, offset[] = {1, -2}, scale[] = {10, 0.5F};
  const float want[] = {0, 2, 20, -1}, one[] = {2}, doubled[] = {2, 4, 6, -8};
  (void)state;
  call c = {.op = "Scaler",
            .attrs = {FLOATS("offset", offset), FLOATS("scale", scale)},
            .count = 2,
            .outputs = 1};
  expect(&c, 2, 2, x, want, 4);
  c = (call){.op = "Scaler",
             .attrs = {FLOATS("scale", one)},
             .count = 1,
             .outputs = 1};
  expect(&c, 2, 2, x, doubled, 4);
}

static void features_are_normalized(void **state) {
  static const struct {
    const char *norm;
    float want[4];
  } all[] = {{"MAX", {0.75F, -1, 0, 0}},
             {"L1", {3 / 7.0F, -4 / 7.0F, 0, 0}},
             {"L2", {0.6F, -0.8F, 0, 0}}};
  const float x[] = {3, -4, 0, 0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    const call c = {.op = "Normalizer",
                    .attrs = {STRING("norm", all[i].norm)},
                    .count = 1,
                    .outputs = 1};
    expect(&c, 2, 2, x, all[i].want, 4);
  }
}

static void what_is_missing_is_imputed(void **state) {
  const float x[] = {NAN, 2, 3, NAN, -1, 5}, by[] = {7, 8};
  const float want[] = {7, 2, 3, 8, -1, 5}, other[] = {NAN, 2, 3, NAN, 7, 5};
  (void)state;
  call c = {.op = "Imputer",
            .attrs = {FLOATS("imputed_value_floats", by),
                      FLOAT("replaced_value_float", NAN)},
            .count = 2,
            .outputs = 1};
  expect(&c, 3, 2, x, want, 6);
  c.attrs[1] = FLOAT("replaced_value_float", -1);
  expect(&c, 3, 2, x, other, 6);
}

static void features_become_bits(void **state) {
  const float x[] = {0.5F, 0.6F, -1, NAN}, want[] = {0, 1, 0, 0};
  const call c = {.op = "Binarizer",
                  .attrs = {FLOAT("threshold", 0.5F)},
                  .count = 1,
                  .outputs = 1};
  (void)state;
  expect(&c, 2, 2, x, want, 4);
}

static void labels_are_encoded(void **state) {
  const float x[] = {2, NAN, 7, 0, -0.0F}, keys[] = {2, 0, NAN, 2};
  const float floats_of[] = {10, 20, 30, 40}, want[] = {40, 30, -2, 20, 20};
  const int64_t ints_of[] = {1, 2, 3, 4}, whole[] = {4, 3, -9, 2, 2};
  (void)state;
  call c = {
      .op = "LabelEncoder",
      .attrs = {FLOATS("keys_floats", keys), FLOATS("values_floats", floats_of),
                FLOAT("default_float", -2)},
      .count = 3,
      .outputs = 1};
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
static void many_elements_are_found(void **state) {
  enum { COUNT = 1000, KEYS = 7 };
  static const kd_dtype types[] = {KD_F32, KD_F64, KD_I64, KD_I32, KD_I16};
  int64_t x[COUNT], places[COUNT];
  const int64_t keys[KEYS] = {3, -1, 12, 0, -1, 5, 40};
  (void)state;
  for (int i = 0; i < COUNT; i++)
    x[i] = i % 61 - 10;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    const keel_attr cast = INT("to", types[t]);
    keel_tensor *wide[] = {
        create_tensor(context, KD_I64, 1, (const int64_t[]){COUNT}, x),
        create_tensor(context, KD_I64, 1, (const int64_t[]){KEYS}, keys)};
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

static void categories_become_columns(void **state) {
  const int64_t cats[] = {5, -1}, dims[] = {2, 1}, x[] = {-1, 5},
                odd[] = {5, 6};
  const float want[] = {0, 1, 1, 0}, none[] = {1, 0, 0, 0};
  (void)state;
  call c = {.op = "OneHotEncoder",
            .attrs = {INTS("cats_int64s", cats), INT("zeros", 0)},
            .count = 2,
            .outputs = 1};
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

static void probabilities_stay_a_table(void **state) {
  const float x[] = {0.25F, 0.75F, 1, 0};
  const call c = {.op = "ZipMap",
                  .attrs = {INTS("classlabels_int64s", two_labels)},
                  .count = 1,
                  .outputs = 1};
  (void)state;
  expect(&c, 2, 2, x, x, 4);
}

/* Taken from a table, and from a line, which becomes a row; joined again. */
static void features_are_taken_and_joined(void **state) {
  const float x[] = {1, 2, 3, 4, 5, 6}, line[] = {3, 1};
  const float want[] = {3, 1, 1, 2, 3, 6, 4, 4, 5, 6};
  const int64_t dims[] = {2, 3}, open[] = {-1, 3}, places[] = {2, 0};
  const int64_t sizes[] = {2, 3};
  (void)state;
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
    expect_ok(keel_builder_output(
        builder, "y",
        keel_builder_op(builder, "ai.onnx.ml::FeatureVectorizer", &attr, 1,
                        both, 2)));
    keel_plan *plan = finish_plan(builder, NULL);
    keel_tensor *t = create_tensor(context, KD_F32, 2, dims, x), *y = NULL;
    expect_ok(keel_plan_run(plan, &t, 1, &y, 1));
    expect_near(y, want, 10);
    keel_tensor_release(t);
    keel_plan_release(plan);
  }
  keel_builder *builder = create_builder(context, "main");
  const int64_t any = -1;
  const keel_value in = keel_builder_input(builder, "x", KD_F32, 1, &any);
  const keel_value pair[] = {
      op(builder, "Neg", op(builder, "Neg", in, KEEL_ABSENT), KEEL_ABSENT),
      add_ints(builder, 2, places)};
  expect_ok(keel_builder_output(
      builder, "y",
      keel_builder_op(builder, "ai.onnx.ml::ArrayFeatureExtractor", NULL, 0,
                      pair, 2)));
  keel_plan *plan = finish_plan(builder, NULL);
  keel_tensor *t = floats(context, 3, x), *y = NULL;
  expect_ok(keel_plan_run(plan, &t, 1, &y, 1));
  assert_int_equal(keel_tensor_rank(y), 2);
  expect_near(y, line, 2);
  keel_tensor_release(t);
  keel_plan_release(plan);
}

static void bad_features_are_refused(void **state) {
  static const char *const strings[] = {"a", "b"};
  const float x[] = {1, 2, 3, 4}, three[] = {1, 2, 3}, two[] = {1, 2};
  const int64_t ints[] = {1, 2};
  const struct {
    call c;
    const char *words;
  } all[] = {
      {{"Scaler", {FLOATS("scale", three)}, 1, 1, false},
       "X has 2 features, and its attributes are of 3"},
      {{"Scaler", {FLOATS("scale", three), FLOATS("offset", two)}, 2, 1, false},
       "offset has 2 numbers, and scale 3"},
      {{"Scaler", {floats_attr("scale", 0, two)}, 1, 1, false},
       "scale is an empty list"},
      {{"Normalizer", {STRING("norm", "L3")}, 1, 1, false},
       "not one of MAX|L1|L2"},
      {{"Imputer", {INTS("imputed_value_int64s", ints)}, 1, 1, false},
       "one of imputed_value_floats and imputed_value_int64s"},
      {{"Imputer", {FLOATS("imputed_value_floats", three)}, 1, 1, false},
       "X has 2 features"},
      {{"OneHotEncoder",
        {strings_attr("cats_strings", 2, strings)},
        1,
        1,
        false},
       "cats_strings are strings"},
      {{"OneHotEncoder", {INT("zeros", 1)}, 1, 1, false}, "no cats_int64s"},
      {{"LabelEncoder",
        {FLOATS("keys_floats", two), FLOATS("values_floats", three)},
        2,
        1,
        false},
       "it has 2 keys, and 3 values"},
      {{"LabelEncoder", {FLOATS("keys_floats", two)}, 1, 1, false},
       "one of values_floats, values_int64s and values_tensor, not 0"},
      {{"LabelEncoder",
        {FLOATS("keys_floats", two), INTS("keys_int64s", ints),
         FLOATS("values_floats", two)},
        3,
        1,
        false},
       "keys_tensor, not 2"},
      {{"LabelEncoder",
        {FLOATS("keys_floats", two),
         strings_attr("values_strings", 2, strings)},
        2,
        1,
        false},
       "values_strings are strings"},
      {{"LabelEncoder",
        {strings_attr("classes_strings", 2, strings)},
        1,
        1,
        false},
       "classes_strings are strings"},
      {{"ZipMap", {INTS("classlabels_int64s", three_labels)}, 1, 1, false},
       "for "},
  };
  keel_tensor *in = rows(2, 2, x);
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    refuse(&all[i].c, in, all[i].words);
  keel_tensor_release(in);
}

/* ---- linear models ------------------------------------------------------------------------ */

static const float linear_rows[] = {1, 2, -3, 0.5F};

static void linear_models_predict(void **state) {
  const float weights[] = {2, 1, 0, -1}, bias[] = {0.5F, 1};
  const float want[] = {4.5F, -1, -5, 0.5F};
  (void)state;
  const call c = {.op = "LinearRegressor",
                  .attrs = {FLOATS("coefficients", weights),
                            FLOATS("intercepts", bias), INT("targets", 2)},
                  .count = 3,
                  .outputs = 1};
  expect(&c, 2, 2, linear_rows, want, 4);
}

static void linear_models_classify(void **state) {
  const float weights[] = {2, 1, 0, -1, 1, 1}, bias[] = {0.5F, 1, 0};
  const float scores[] = {4.5F, -1, 3, -5, 0.5F, -2.5F};
  const int64_t labels[] = {4, 2};
  (void)state;
  call c = {
      .op = "LinearClassifier",
      .attrs = {FLOATS("coefficients", weights), FLOATS("intercepts", bias),
                INTS("classlabels_ints", three_labels),
                STRING("post_transform", "NONE")},
      .count = 4,
      .outputs = 2};
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
static void scores_become_quantiles(void **state) {
  const float weight[] = {1}, x[] = {0.5F, 0.975F, 0.1F, 0, 1};
  const call c = {.op = "LinearRegressor",
                  .attrs = {FLOATS("coefficients", weight),
                            STRING("post_transform", "PROBIT")},
                  .count = 2,
                  .outputs = 1};
  keel_tensor *in = rows(5, 1, x), *y = NULL;
  float got[5];
  (void)state;
  expect_ok(run(&c, in, &y));
  expect_ok(keel_tensor_read(y, got, sizeof got));
  assert_true(fabsf(got[0]) < 1e-3F);
  assert_true(fabsf(got[1] - 1.96F) < 0.01F);
  assert_true(fabsf(got[2] + 1.2816F) < 0.01F);
  assert_true(got[3] == 0 && got[4] == 0);
  keel_tensor_release(in);
  keel_tensor_release(y);
}

/* ---- vector machines ------------------------------------------------------------------------ */

static const float vectors[] = {1, 0, 0, 2};

static void vector_machines_predict(void **state) {
  const float weights[] = {2, -1}, rho[] = {0.5F}, params[] = {0.5F, 1, 3};
  const float x[] = {1, 1, -2, 0.5F};
  static const char *const types[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  (void)state;
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
    const call c = {
        .op = "SVMRegressor",
        .attrs = {FLOATS("support_vectors", vectors),
                  FLOATS("coefficients", weights), FLOATS("rho", rho),
                  INT("n_supports", 2), FLOATS("kernel_params", params),
                  STRING("kernel_type", types[t])},
        .count = 6,
        .outputs = 1};
    expect(&c, 2, 2, x, want, 2);
  }
  /* without vectors it is linear; what is of one class is 1, all else -1 */
  const float want[] = {1.5F, -4}, one[] = {1, -1};
  call c = {.op = "SVMRegressor",
            .attrs = {FLOATS("coefficients", weights), FLOATS("rho", rho)},
            .count = 2,
            .outputs = 1};
  expect(&c, 2, 2, x, want, 2);
  c.attrs[c.count++] = INT("one_class", 1);
  expect(&c, 2, 2, x, one, 2);
}

/* Without vectors each class has a score of its own. */
static void machines_without_vectors_are_linear(void **state) {
  const float weights[] = {1, 0, 0, 1, -1, -1}, rho[] = {0.5F};
  const float x[] = {1, 2, -3, 1},
              scores[] = {1.5F, 2.5F, -2.5F, -2.5F, 1.5F, 2.5F};
  const int64_t labels[] = {2, 9};
  (void)state;
  const call c = {.op = "SVMClassifier",
                  .attrs = {FLOATS("coefficients", weights), FLOATS("rho", rho),
                            INTS("classlabels_ints", three_labels)},
                  .count = 3,
                  .outputs = 2};
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

static void vector_machines_classify(void **state) {
  const int64_t labels[] = {9, 9};
  (void)state;
  call c = machine("NONE", false);
  expect_classes(&c, 2, 2, machine_rows, labels, machine_scores, 3);
}

/* Of three classes probabilities make p'Qp least: each deviation from pairs is made even. */
static void pairs_become_probabilities(void **state) {
  static const float a[] = {-1, -2, -0.5F}, b[] = {0, 0.25F, -0.125F};
  call c = machine("NONE", true);
  keel_tensor *x = rows(2, 2, machine_rows), *y[2] = {NULL, NULL};
  float got[6];
  (void)state;
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
static void one_pair_gives_two_scores(void **state) {
  static const float weights[] = {1, -1}, rho[] = {0.25F};
  static const int64_t sizes[] = {1, 1};
  const float x[] = {2, 0, 0, 2}, two[] = {1, 0, 0, 1};
  const float scores[] = {-2.25F, 2.25F, 1.75F, -1.75F};
  const int64_t labels[] = {-5, 8};
  (void)state;
  const call c = {
      .op = "SVMClassifier",
      .attrs = {FLOATS("support_vectors", two), FLOATS("coefficients", weights),
                FLOATS("rho", rho), INTS("vectors_per_class", sizes),
                INTS("classlabels_ints", two_labels)},
      .count = 5,
      .outputs = 2};
  expect_classes(&c, 2, 2, x, labels, scores, 2);
}

static void bad_models_are_refused(void **state) {
  const float three[] = {1, 2, 3}, two[] = {1, 2};
  const int64_t negative[] = {1, -1, 1}, many[] = {1, 1, INT64_MAX};
  keel_tensor *x = rows(2, 2, machine_rows);
  (void)state;
  call c = {.op = "LinearRegressor",
            .attrs = {FLOATS("coefficients", three), INT("targets", 2)},
            .count = 2,
            .outputs = 1};
  refuse(&c, x, "3 coefficients are not as many for each of 2 scores");
  c.attrs[1] = INT("targets", 1);
  refuse(&c, x, "X has 2 features, and its attributes are of 3");
  c.attrs[1] = FLOATS("intercepts", two);
  c.attrs[0] = FLOATS("coefficients", two);
  refuse(&c, x, "2 intercepts for 1 scores");
  c = (call){.op = "LinearClassifier",
             .attrs = {FLOATS("coefficients", two), FLOATS("intercepts", two),
                       INTS("classlabels_ints", three_labels)},
             .count = 3,
             .outputs = 2};
  refuse(&c, x, "3 labels for the scores of 2 classes");
  c = (call){.op = "SVMRegressor",
             .attrs = {FLOATS("support_vectors", three), INT("n_supports", 2),
                       FLOATS("coefficients", two), FLOATS("rho", two),
                       FLOATS("kernel_params", two)},
             .count = 5,
             .outputs = 1};
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_are_walked_and_votes_counted),
      cmocka_unit_test(base_values_come_after_the_aggregate),
      cmocka_unit_test(ids_may_be_in_any_order),
      cmocka_unit_test(many_rows_are_as_each_alone),
      cmocka_unit_test(each_mode_compares),
      cmocka_unit_test(numbers_of_f64_are_compared_as_such),
      cmocka_unit_test(integers_are_features_too),
      cmocka_unit_test(one_row_is_a_list),
      cmocka_unit_test(bad_trees_are_refused),
      cmocka_unit_test(trees_classify),
      cmocka_unit_test(votes_for_one_class_say_both),
      cmocka_unit_test(labels_must_be_integers),
      cmocka_unit_test(sets_have_members),
      cmocka_unit_test(bad_places_are_refused),
      cmocka_unit_test(the_kernel_checks_its_lists),
      cmocka_unit_test(features_are_scaled),
      cmocka_unit_test(features_are_normalized),
      cmocka_unit_test(what_is_missing_is_imputed),
      cmocka_unit_test(features_become_bits),
      cmocka_unit_test(labels_are_encoded),
      cmocka_unit_test(many_elements_are_found),
      cmocka_unit_test(categories_become_columns),
      cmocka_unit_test(probabilities_stay_a_table),
      cmocka_unit_test(features_are_taken_and_joined),
      cmocka_unit_test(bad_features_are_refused),
      cmocka_unit_test(linear_models_predict),
      cmocka_unit_test(linear_models_classify),
      cmocka_unit_test(scores_become_quantiles),
      cmocka_unit_test(vector_machines_predict),
      cmocka_unit_test(machines_without_vectors_are_linear),
      cmocka_unit_test(vector_machines_classify),
      cmocka_unit_test(pairs_become_probabilities),
      cmocka_unit_test(one_pair_gives_two_scores),
      cmocka_unit_test(bad_models_are_refused),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
