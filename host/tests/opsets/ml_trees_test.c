/* ml_trees_test.c - ai.onnx.ml's trees that predict and classify, against numbers worked out by
 * hand; and each set of nodes that must be refused, with why. */
#include "ml.h"

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
  return (call)CALL(
      "TreeEnsembleRegressor", 1, INTS("nodes_treeids", e->trees),
      INTS("nodes_nodeids", e->nodes), INTS("nodes_featureids", e->features),
      INTS("nodes_truenodeids", e->yes), INTS("nodes_falsenodeids", e->no),
      INTS("nodes_missing_value_tracks_true", e->missing),
      strings_attr("nodes_modes", NODES, e->modes),
      FLOATS("nodes_values", e->values), INTS("target_treeids", e->vote_trees),
      INTS("target_nodeids", e->vote_nodes), INTS("target_ids", e->targets),
      FLOATS("target_weights", e->weights), INT("n_targets", 2),
      STRING("aggregate_function", aggregate));
}

static const float tree_rows[] = {1, 9, 1.0000001F, 0.6F, 2, 0.5F};

TEST_THAT(trees_are_walked_and_votes_counted) {
  const float sums[] = {10.5F, 0, 20.5F, -4, 30.5F, 0};
  const float averages[] = {5.25F, 0, 10.25F, -2, 15.25F, 0};
  const float least[] = {0.5F, 0, 0.5F, -4, 0.5F, 0};
  const float most[] = {10, 0, 20, -4, 30, 0};
  call c = regressor(&plain, "SUM");
  expect(&c, 3, 2, tree_rows, sums, 6);
  c = regressor(&plain, "AVERAGE");
  expect(&c, 3, 2, tree_rows, averages, 6);
  c = regressor(&plain, "MIN");
  expect(&c, 3, 2, tree_rows, least, 6);
  c = regressor(&plain, "MAX");
  expect(&c, 3, 2, tree_rows, most, 6);
}

TEST_THAT(base_values_come_after_the_aggregate) {
  const float base[] = {100, 1000}, want[] = {105.25F, 1000};
  call c = regressor(&plain, "AVERAGE");
  c.attrs[c.count++] = FLOATS("base_values", base);
  expect(&c, 1, 2, tree_rows, want, 2);
}

/* A tree's first node is its root, whatever its id; votes for a branch are not counted. */
TEST_THAT(ids_may_be_in_any_order) {
  const float sums[] = {10.5F, 0, 20.5F, 0, 30.5F, 0};
  const int64_t nodes[] = {9, 1, 0, -3, 4, 0}, votes[] = {1, -3, 4, 0, 9};
  ensemble e = plain;
  memcpy(e.nodes, nodes, sizeof nodes);
  memcpy(e.vote_nodes, votes, sizeof votes);
  e.no[0] = 0;
  e.yes[2] = -3;
  call c = regressor(&e, "SUM");
  expect(&c, 3, 2, tree_rows, sums, 6);
}

/* More rows than a block has, and than lanes go into. */
TEST_THAT(many_rows_are_as_each_alone) {
  enum { COUNT = 3001 };
  static float x[COUNT][2], y[COUNT][2];
  const int64_t dims[] = {COUNT, 2};
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
  RELEASE(in, out);
}

TEST_THAT(each_mode_compares) {
  static const struct {
    const char *mode;
    float below, at, above, nan, nan_is_yes;
  } all[] = {
      {"BRANCH_LEQ", 10, 10, 30, 30, 10}, {"BRANCH_LT", 10, 30, 30, 30, 10},
      {"BRANCH_GTE", 30, 10, 10, 30, 10}, {"BRANCH_GT", 30, 30, 10, 30, 10},
      {"BRANCH_EQ", 30, 10, 30, 30, 10},  {"BRANCH_NEQ", 10, 30, 10, 10, 10}};
  const float x[] = {0.9999999F, 0, 1, 0, 1.0000001F, 0, NAN, 0};
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
TEST_THAT(numbers_of_f64_are_compared_as_such) {
  const double splits[] = {1 + 1e-12, 0, 0.5, 0, 0, 0};
  const double x[][2] = {{1 + 1e-12, 0}, {1 + 2e-12, 0}};
  const float want[] = {10.5F, 0, 30.5F, 0};
  const int64_t six = NODES, dims[] = {2, 2};
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
  RELEASE(split, list, in);
}

TEST_THAT(integers_are_features_too) {
  const int64_t x[] = {1, 0, 2, 1}, dims[] = {2, 2};
  const float want[] = {10.5F, 0, 20.5F, -4};
  call c = regressor(&plain, "SUM");
  keel_tensor *in = create_tensor(context, KD_I64, 2, dims, x), *y = NULL;
  expect_ok(run(&c, in, &y));
  expect_near(y, want, 4);
  keel_tensor_release(in);
}

TEST_THAT(one_row_is_a_list) {
  const float want[] = {20.5F, -4};
  call c = regressor(&plain, "SUM");
  keel_tensor *in = floats(context, 2, tree_rows + 2), *y = NULL;
  expect_ok(run(&c, in, &y));
  assert_int_equal(keel_tensor_rank(y), 2);
  expect_near(y, want, 2);
  keel_tensor_release(in);
}

TEST_THAT(bad_trees_are_refused) {
  keel_tensor *x = rows(3, 2, tree_rows);
#define REFUSED(WORDS, ...)        \
  do {                             \
    ensemble e = plain;            \
    __VA_ARGS__;                   \
    call c = regressor(&e, "SUM"); \
    refuse(&c, x, WORDS);          \
  } while (0)
  REFUSED("\"it\": node 0 is reached twice", e.yes[2] = 0);
  REFUSED("node 2 is reached twice", e.yes[2] = 2);
  REFUSED("node 1 is reached twice", e.no[2] = 1);
  REFUSED("node 2 of tree 7 leads to node 9, which that tree does not have",
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

TEST_THAT(trees_classify) {
  const int64_t labels[] = {4, 2, 4};
  const float scores[] = {10.5F, 0, 0, 0.5F, 20, 0, 30.5F, 0, 0};
  ensemble e = plain;
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
TEST_THAT(votes_for_one_class_say_both) {
  const int64_t labels[] = {-5, 8, -5};
  ensemble e = plain;
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

/* The labels of a classifier of the rows, in strings and in integers, are at equal places. */
TEST_THAT(labels_may_be_strings) {
  static const char *const names[] = {"cat", "dog"};
  keel_tensor *x = rows(3, 2, tree_rows), *by_name[2], *by_number[2];
  int64_t numbers[3];
  call c = classifier(&plain, 2, "NONE");
  const int64_t *labels = c.attrs[12].ints;
  expect_ok(run(&c, x, by_number));
  expect_ok(keel_tensor_read(by_number[0], numbers, sizeof numbers));
  c.attrs[12] = strings_attr("classlabels_strings", 2, names);
  expect_ok(run(&c, x, by_name));
  for (int64_t i = 0; i < 3; i++) {
    const char *name = NULL;
    expect_ok(keel_strings_at(by_name[0], i, &name, NULL));
    assert_string_equal(name, names[numbers[i] == labels[1]]);
  }
  release_all(by_name, 2);
  release_all(by_number, 2);
  c.attrs[12] = STRING("post_transform", "NONE");
  c.count = 13;
  refuse(&c, x, "no labels");
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
  *c = (call)CALL(
      "TreeEnsemble", 1, INTS("nodes_featureids", p->features),
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
      INT("post_transform", 0));
}

static void drop_lists(const call *c) {
  for (int i = MODES; i <= WEIGHTS; i++)
    keel_tensor_release(c->attrs[i].tensor);
}

TEST_THAT(sets_have_members) {
  const float x[] = {2, 0, 5, 9, 4, 2, 4, 3, NAN, 0};
  const float want[] = {1, 0, 1, 0, 0, 20, 300, 0, 0, 20};
  call c;
  take_lists(&sets, &c);
  expect(&c, 5, 2, x, want, 10);
  const int64_t missing[] = {1, 0};
  const float yes[] = {1, 0};
  c.attrs[c.count++] = INTS("nodes_missing_value_tracks_true", missing);
  expect(&c, 1, 2, x + 8, yes, 2);
  drop_lists(&c);
}

TEST_THAT(bad_places_are_refused) {
  const float data[] = {2, 0};
  keel_tensor *x = rows(1, 2, data);
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
  REFUSED("node 0 is reached twice", p.no_leaf[1] = 0; p.no[1] = 0);
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

/* ---- trees of Keel's own op ------------------------------------------------------------- */

/* A root and two leaves. */
typedef struct nodes {
  int64_t features[3], modes[3], yes[3], no[3], roots[1], targets[2];
} nodes;

static const nodes sound = {
    .features = {0, -1, -1}, .yes = {1, 0, 1}, .no = {2, 1, 2}};

static keel_status call_trees(const nodes *n, keel_tensor **out) {
  const float x[] = {0}, splits[] = {0, 0, 0};
  const double weights[] = {8, 9};
  keel_tensor *split_list = floats(context, 3, splits), *in = rows(1, 1, x);
  keel_tensor *weight_list = create_tensor(context, KD_F64, DIMS(2), weights);
  const keel_attr attrs[] = {INTS("features", n->features),
                             INTS("modes", n->modes),
                             INTS("yes", n->yes),
                             INTS("no", n->no),
                             INTS("roots", n->roots),
                             INTS("vote_targets", n->targets),
                             tensor_attr("splits", split_list),
                             tensor_attr("vote_weights", weight_list),
                             KEEL_INT("targets", 1)};
  keel_status status =
      keel_call(context, "keel::Trees", attrs, 9, &in, 1, out, 1);
  if (status == KD_OK) status = keel_tensor_wait(*out);
  RELEASE(split_list, weight_list, in);
  return status;
}

/* What programs are written with has rules of its own: a kernel trusts no model. */
TEST_THAT(the_kernel_checks_its_lists) {
  const float want[] = {8};
  keel_tensor *y = NULL;
  expect_ok(call_trees(&sound, &y));
  expect_near(y, want, 1);
#define REFUSED(WORDS, ...)                          \
  do {                                               \
    nodes n = sound;                                 \
    __VA_ARGS__;                                     \
    y = NULL;                                        \
    assert_int_not_equal(call_trees(&n, &y), KD_OK); \
    expect_message(WORDS);                           \
    keel_tensor_release(y);                          \
  } while (0)
  REFUSED("nodes behind it", n.yes[0] = 0);
  REFUSED("nodes behind it", n.no[0] = 3);
  REFUSED("votes that are not", n.no[1] = 3);
  REFUSED("votes that are not", n.yes[1] = 2);
  REFUSED("a mode that", n.modes[0] = 6);
  REFUSED("a mode that", n.modes[0] = -1);
  REFUSED("above 2^28", n.features[0] = 1LL << 40);
  REFUSED("the trees ask for 6", n.features[0] = 5);
  REFUSED("root 0 of Trees is", n.roots[0] = 3);
  REFUSED("is for target 1", n.targets[0] = 1);
#undef REFUSED
}

RUN_TESTS(open_cpu, close_context)
