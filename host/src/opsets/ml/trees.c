/* trees.c - ai.onnx.ml: ensembles of trees, brought to the form of keel::Trees.
 *
 * Each tree is walked once from its root, and its nodes are numbered as they come. So what a
 * node leads to is behind it, and a node that is met twice is in a cycle, or belongs to two. */
#include <math.h>

#include "opsets/ml/ml.h"
#include "opsets/tables.h"

#include "base/float.h"
#include "opsets/shapes.h"

/* Each is a column of the result, whose length no other list of the model gives. */
#define TARGETS_MOST (1 << 24)

/* keel::Trees has the first six; the other two become these. */
enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF, MISSING = 8 };

/* A node as a model has it. Branches lead to places among the nodes, or to vote -1 - branch
 * alone. */
typedef struct branch {
  int64_t mode, feature;
  double split;
  int64_t yes, no;            /* of a leaf: its votes [yes, no) */
  int64_t member, member_end; /* of MEMBER: its set */
  bool missing;               /* NaN is yes */
  bool met;                   /* in the walk */
} branch;

typedef struct vote {
  int64_t tree, node, at, target;
  double weight;
} vote;

typedef struct forest {
  branch *nodes;
  int64_t count;
  int64_t *roots;
  int64_t root_count;
  vote *votes;
  int64_t vote_count;
  double *members; /* of all sets */
  int64_t member_count;
  int64_t targets;
  bool wide; /* splits are f64 */
} forest;

static void forest_free(forest *f) {
  free(f->nodes);
  free(f->roots);
  free(f->votes);
  free(f->members);
}

static bool in_range(int64_t number, int64_t end) {
  return number >= 0 && number < end;
}

/* ---- attributes ------------------------------------------------------------------- */

/* Numbers that are a list of floats, or a tensor. */
typedef struct numbers {
  const float *floats;
  const keel_tensor *tensor;
  int64_t count;
} numbers;

/* floats: NULL where only the tensor can be there. */
static numbers read_numbers(keel_emit *all, const char *floats,
                            const char *tensor) {
  keel_ml_floats list = {NULL, 0};
  const keel_tensor *other = keel_ml_tensor_of(all, tensor);
  if (floats) list = keel_ml_floats_of(all, floats);
  if (list.count && other && other->type->elements)
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "it has both %s and %s; give one of them", floats, tensor);
  if (other && !keel_ml_is_float(other->type->dtype))
    keel_emit_fail(all, KD_INVALID_ARGUMENT, "%s is %s, and not floats", tensor,
                   keel_dtype_name(other->type->dtype));
  if (list.count || !other) return (numbers){list.at, NULL, list.count};
  return (numbers){NULL, other, other->type->elements};
}

static double trees_number_at(const numbers *from, int64_t index) {
  double number = 0;
  uint64_t bits = 0;
  if (from->floats) return (double)from->floats[index];
  kd_dtype dtype = from->tensor->type->dtype;
  const char *data = from->tensor->data;
  keel_float_decode(dtype, data + (size_t)index * keel_dtype_size(dtype),
                    &number, &bits);
  return number;
}

/* Whether a list is as long as the others. */
static bool has_length(keel_emit *all, const char *name, int64_t have,
                       int64_t want, const char *other) {
  return keel_ml_check(all, have == want, "%s has %lld entries, and %s %lld",
                       name, (long long)have, other, (long long)want);
}

/* A list as long as the others. */
static keel_ml_ints read_ints(keel_emit *all, const char *name, int64_t want,
                              const char *other) {
  keel_ml_ints list = keel_ml_ints_of(all, name);
  has_length(all, name, list.count, want, other);
  return list;
}

static bool check_feature(keel_emit *all, const branch *node, int64_t at) {
  int64_t have = keel_ml_features(all, 0);
  return keel_ml_check(all,
                       in_range(node->feature, have < 0 ? INT32_MAX : have),
                       "nodes_featureids[%lld] is %lld, which X has not",
                       (long long)at, (long long)node->feature);
}

static bool check_target(keel_emit *all, const forest *f, const char *name,
                         int64_t at, int64_t target) {
  return keel_ml_check(all, in_range(target, f->targets),
                       "%s[%lld] is %lld, and there are %lld", name,
                       (long long)at, (long long)target, (long long)f->targets);
}

/* Takes the nodes' memory, and reads what both forms have. */
static bool read_nodes(keel_emit *all, forest *f, const numbers *splits,
                       const char *first) {
  keel_ml_ints missing =
      keel_ml_ints_of(all, "nodes_missing_value_tracks_true");
  if (!f->count) keel_emit_fail(all, KD_INVALID_ARGUMENT, "it has no nodes");
  if (missing.count)
    has_length(all, "nodes_missing_value_tracks_true", missing.count, f->count,
               first);
  keel_ml_ints features = read_ints(all, "nodes_featureids", f->count, first);
  keel_ml_ints yes = read_ints(all, "nodes_truenodeids", f->count, first);
  keel_ml_ints no = read_ints(all, "nodes_falsenodeids", f->count, first);
  f->nodes = keel_ml_take(all, f->count, sizeof *f->nodes);
  f->wide = splits->tensor && splits->tensor->type->dtype == KD_F64;
  for (int64_t i = 0; all->status == KD_OK && i < f->count; i++)
    f->nodes[i] = (branch){.feature = features.at[i],
                           .split = trees_number_at(splits, i),
                           .yes = yes.at[i],
                           .no = no.at[i],
                           .missing = missing.count && missing.at[i]};
  return all->status == KD_OK;
}

/* ---- nodes by their ids ------------------------------------------------------------ */

typedef struct id {
  int64_t tree, node, at;
} id;

/* The model's own lists, and the ids in order. */
typedef struct ids {
  keel_ml_ints trees, nodes;
  id *sorted;
} ids;

static int trees_order(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int order_ids(const void *a, const void *b) {
  const id *x = a, *y = b;
  int by_tree = trees_order(x->tree, y->tree);
  return by_tree ? by_tree : trees_order(x->node, y->node);
}

static int order_votes(const void *a, const void *b) {
  const vote *x = a, *y = b;
  int by_tree = trees_order(x->tree, y->tree),
      by_node = trees_order(x->node, y->node);
  return by_tree ? by_tree : by_node ? by_node : trees_order(x->at, y->at);
}

static bool sort_ids(keel_emit *all, ids *names) {
  int64_t count = names->nodes.count;
  bool in_order = true;
  names->sorted = keel_ml_take(all, count, sizeof *names->sorted);
  if (!names->sorted) return false;
  for (int64_t i = 0; i < count; i++) {
    names->sorted[i] = (id){names->trees.at[i], names->nodes.at[i], i};
    in_order &= !i || order_ids(&names->sorted[i - 1], &names->sorted[i]) < 0;
  }
  if (!in_order)
    qsort(names->sorted, (size_t)count, sizeof *names->sorted, order_ids);
  for (int64_t i = 1; i < count && all->status == KD_OK; i++)
    if (!order_ids(&names->sorted[i - 1], &names->sorted[i]))
      keel_emit_fail(
          all, KD_INVALID_ARGUMENT, "node %lld of tree %lld is there twice",
          (long long)names->sorted[i].node, (long long)names->sorted[i].tree);
  return all->status == KD_OK;
}

/* The place of a node of a tree, or -1. near: where it would be if ids were in order. */
static int64_t find_node(const ids *names, int64_t tree, int64_t node,
                         int64_t near) {
  if (in_range(near, names->nodes.count) && names->trees.at[near] == tree &&
      names->nodes.at[near] == node)
    return near;
  const id wanted = {.tree = tree, .node = node};
  const id *found = bsearch(&wanted, names->sorted, (size_t)names->nodes.count,
                            sizeof wanted, order_ids);
  return found ? found->at : -1;
}

/* The place that a branch of node `at` leads to. */
static int64_t trees_follow(keel_emit *all, const ids *names, int64_t at,
                            int64_t to) {
  int64_t tree = names->trees.at[at], near = -1;
  if (keel_is_plausible(to) && keel_is_plausible(names->nodes.at[at]))
    near = at + to - names->nodes.at[at];
  int64_t place = find_node(names, tree, to, near);
  if (place < 0)
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "node %lld of tree %lld leads to node %lld, which that tree "
                   "does not have",
                   (long long)names->nodes.at[at], (long long)tree,
                   (long long)to);
  return place;
}

/* Each tree's first node in the lists is its root. */
static bool find_roots(keel_emit *all, forest *f, const ids *names) {
  f->roots = keel_ml_take(all, f->count, sizeof *f->roots);
  bool *is_root = keel_ml_take(all, f->count, sizeof *is_root);
  for (int64_t i = 0; is_root && f->roots && i < f->count;) {
    int64_t tree = names->sorted[i].tree, first = names->sorted[i].at;
    for (; i < f->count && names->sorted[i].tree == tree; i++)
      if (names->sorted[i].at < first) first = names->sorted[i].at;
    is_root[first] = true;
  }
  for (int64_t i = 0; is_root && f->roots && i < f->count; i++)
    if (is_root[i]) f->roots[f->root_count++] = i;
  free(is_root);
  return all->status == KD_OK;
}

static int64_t mode_of(const char *name) {
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                      "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (!strcmp(names[i], name)) return (int64_t)i;
  return !strcmp(name, "LEAF") ? LEAF : -1;
}

static bool read_branch(keel_emit *all, forest *f, const ids *names,
                        const char *mode, int64_t at) {
  branch *node = &f->nodes[at];
  node->mode = mode_of(mode);
  if (node->mode < 0)
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "nodes_modes[%lld] is \"%s\", and not BRANCH_LEQ,"
                   " BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ,"
                   " BRANCH_NEQ or LEAF",
                   (long long)at, mode);
  if (node->mode == LEAF) {
    node->yes = node->no = 0;
    return true;
  }
  if (all->status != KD_OK || !check_feature(all, node, at)) return false;
  node->yes = trees_follow(all, names, at, node->yes);
  if (all->status == KD_OK) node->no = trees_follow(all, names, at, node->no);
  return all->status == KD_OK;
}

/* The attributes of votes, which have other names in classifiers. */
typedef struct vote_names {
  const char *trees, *nodes, *targets, *weights, *weights_tensor;
} vote_names;

static const vote_names of_targets = {"target_treeids", "target_nodeids",
                                      "target_ids", "target_weights",
                                      "target_weights_as_tensor"};
static const vote_names of_classes = {"class_treeids", "class_nodeids",
                                      "class_ids", "class_weights",
                                      "class_weights_as_tensor"};

/* Votes of a branch that is not a leaf are not counted. */
static void give_votes(keel_emit *all, forest *f, const ids *names) {
  for (int64_t i = 0; i < f->vote_count;) {
    int64_t first = i, tree = f->votes[i].tree, node = f->votes[i].node;
    while (i < f->vote_count && f->votes[i].tree == tree &&
           f->votes[i].node == node)
      i++;
    int64_t place = find_node(names, tree, node, -1);
    if (!keel_ml_check(all, place >= 0,
                       "a weight is for node %lld of tree %lld, which is not"
                       " there",
                       (long long)node, (long long)tree))
      return;
    if (f->nodes[place].mode != LEAF) continue;
    f->nodes[place].yes = first;
    f->nodes[place].no = i;
  }
}

static bool read_votes(keel_emit *all, forest *f, const ids *names,
                       const vote_names *attrs) {
  keel_ml_ints targets = keel_ml_ints_of(all, attrs->targets);
  int64_t count = targets.count;
  keel_ml_ints trees = read_ints(all, attrs->trees, count, attrs->targets);
  keel_ml_ints nodes = read_ints(all, attrs->nodes, count, attrs->targets);
  numbers weights = read_numbers(all, attrs->weights, attrs->weights_tensor);
  has_length(all, attrs->weights, weights.count, count, attrs->targets);
  f->votes = keel_ml_take(all, count, sizeof *f->votes);
  if (!f->votes) return false;
  bool in_order = true;
  for (int64_t i = 0; i < count; i++) {
    if (!check_target(all, f, attrs->targets, i, targets.at[i])) return false;
    f->votes[i] = (vote){trees.at[i], nodes.at[i], i, targets.at[i],
                         trees_number_at(&weights, i)};
    in_order &= !i || order_votes(&f->votes[i - 1], &f->votes[i]) < 0;
  }
  f->vote_count = count;
  if (!in_order) qsort(f->votes, (size_t)count, sizeof *f->votes, order_votes);
  give_votes(all, f, names);
  return all->status == KD_OK;
}

/* The form of TreeEnsembleRegressor and TreeEnsembleClassifier. */
static bool read_named(keel_emit *all, forest *f, const vote_names *attrs) {
  const keel_node_attr *modes = keel_attr_find(all->node.op, "nodes_modes");
  ids names = {.nodes = keel_ml_ints_of(all, "nodes_nodeids")};
  numbers splits = read_numbers(all, "nodes_values", "nodes_values_as_tensor");
  f->count = names.nodes.count;
  names.trees = read_ints(all, "nodes_treeids", f->count, "nodes_nodeids");
  has_length(all, "nodes_modes", modes ? (int64_t)modes->value.count : 0,
             f->count, "nodes_nodeids");
  has_length(all, "nodes_values", splits.count, f->count, "nodes_nodeids");
  bool read = read_nodes(all, f, &splits, "nodes_nodeids") &&
              sort_ids(all, &names) && find_roots(all, f, &names);
  for (int64_t i = 0; read && i < f->count; i++)
    read = read_branch(all, f, &names, modes->value.strings[i], i);
  read = read && read_votes(all, f, &names, attrs);
  free(names.sorted);
  return read;
}

/* ---- nodes by their places, and leaves of their own ----------------------------------- */

/* One branch of a node, as read_branch leaves it. */
static int64_t trees_place_of(keel_emit *all, const forest *f, int64_t at,
                              int64_t to, bool is_leaf) {
  int64_t end = is_leaf ? f->vote_count : f->count;
  if (!in_range(to, end))
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "node %lld leads to %s %lld, and there are %lld",
                   (long long)at, is_leaf ? "leaf" : "node", (long long)to,
                   (long long)end);
  return is_leaf ? -1 - to : to;
}

static bool read_leaves(keel_emit *all, forest *f) {
  keel_ml_ints targets = keel_ml_ints_of(all, "leaf_targetids");
  numbers weights = read_numbers(all, NULL, "leaf_weights");
  has_length(all, "leaf_weights", weights.count, targets.count,
             "leaf_targetids");
  f->votes = keel_ml_take(all, targets.count, sizeof *f->votes);
  if (!f->votes) return false;
  f->vote_count = targets.count;
  for (int64_t i = 0; i < targets.count; i++) {
    if (!check_target(all, f, "leaf_targetids", i, targets.at[i])) return false;
    f->votes[i] =
        (vote){.target = targets.at[i], .weight = trees_number_at(&weights, i)};
  }
  return true;
}

/* The next set of members, which NaN ends. */
static void read_members(forest *f, branch *node) {
  node->member = f->member_count;
  while (f->members &&
         f->members[f->member_count] == f->members[f->member_count])
    f->member_count++;
  node->member_end = f->member_count++;
}

/* Copies the members; each set must end in NaN, and each node of that mode have one. */
static bool take_members(keel_emit *all, forest *f, int64_t nodes) {
  numbers members = read_numbers(all, NULL, "membership_values");
  int64_t sets = 0;
  f->members = keel_ml_take(all, members.count, sizeof *f->members);
  for (int64_t i = 0; f->members && i < members.count; i++) {
    f->members[i] = trees_number_at(&members, i);
    sets += f->members[i] != f->members[i];
  }
  return keel_ml_check(all, sets == nodes,
                       "membership_values has %lld sets, each ended by NaN,"
                       " and %lld nodes ask for one",
                       (long long)sets, (long long)nodes);
}

static bool read_modes(keel_emit *all, forest *f) {
  const keel_tensor *modes = keel_ml_tensor_of(all, "nodes_modes");
  int64_t sets = 0;
  if (!keel_ml_check(
          all, modes->type->dtype == KD_U8 && modes->type->elements == f->count,
          "nodes_modes must be %lld elements of u8", (long long)f->count))
    return false;
  for (int64_t i = 0; i < f->count; i++) {
    f->nodes[i].mode = ((const uint8_t *)modes->data)[i];
    sets += f->nodes[i].mode == MEMBER;
    if (f->nodes[i].mode > MEMBER)
      keel_emit_fail(all, KD_INVALID_ARGUMENT,
                     "nodes_modes[%lld] is %lld, and not 0 to 6", (long long)i,
                     (long long)f->nodes[i].mode);
  }
  return take_members(all, f, sets);
}

static bool read_roots(keel_emit *all, forest *f) {
  keel_ml_ints roots = keel_ml_ints_of(all, "tree_roots");
  if (!roots.count)
    keel_emit_fail(all, KD_INVALID_ARGUMENT, "tree_roots is empty");
  f->roots = keel_ml_take(all, roots.count, sizeof *f->roots);
  for (int64_t i = 0; f->roots && i < roots.count; i++) {
    if (!in_range(roots.at[i], f->count))
      keel_emit_fail(all, KD_INVALID_ARGUMENT,
                     "tree_roots[%lld] is %lld, and there are %lld nodes",
                     (long long)i, (long long)roots.at[i], (long long)f->count);
    f->roots[f->root_count++] = roots.at[i];
  }
  return all->status == KD_OK;
}

/* The form of TreeEnsemble. */
static bool read_placed(keel_emit *all, forest *f) {
  static const char first[] = "nodes_featureids";
  numbers splits = read_numbers(all, NULL, "nodes_splits");
  f->count = keel_ml_ints_of(all, first).count;
  keel_ml_ints yes = read_ints(all, "nodes_trueleafs", f->count, first);
  keel_ml_ints no = read_ints(all, "nodes_falseleafs", f->count, first);
  has_length(all, "nodes_splits", splits.count, f->count, first);
  if (!read_nodes(all, f, &splits, first) || !read_leaves(all, f) ||
      !read_modes(all, f) || !read_roots(all, f))
    return false;
  for (int64_t i = 0; i < f->count; i++) {
    branch *node = &f->nodes[i];
    node->yes = trees_place_of(all, f, i, node->yes, yes.at[i] != 0);
    node->no = trees_place_of(all, f, i, node->no, no.at[i] != 0);
    if (node->mode == MEMBER) read_members(f, node);
    if (!check_feature(all, node, i)) return false;
  }
  return all->status == KD_OK;
}

/* ---- writing keel::Trees -------------------------------------------------------------- */

typedef struct written {
  int64_t *features, *modes, *yes, *no, *roots;
  double *splits;
  int64_t count;
} written;

/* Where the walk is to go, and the branches of nodes [from, from + count) that lead there. */
typedef struct visit {
  int64_t to, from, count;
  bool yes;
} visit;

static void written_free(written *w) {
  free(w->features);
  free(w->modes);
  free(w->yes);
  free(w->no);
  free(w->roots);
  free(w->splits);
}

static void write_leaf(written *w, int64_t first, int64_t end) {
  w->features[w->count] = -1;
  w->yes[w->count] = first;
  w->no[w->count++] = end;
}

/* A set becomes a node for each member, one behind the other; returns how many. An empty one has
 * NaN, which nothing is equal to. */
static int64_t write_branch(written *w, const forest *f, const branch *node) {
  bool set = node->mode == MEMBER;
  int64_t members = node->member_end - node->member;
  int64_t count = set && members ? members : 1;
  for (int64_t i = 0; i < count; i++) {
    w->features[w->count] = node->feature;
    w->modes[w->count] =
        (set ? EQ : node->mode) + (node->missing ? MISSING : 0);
    w->splits[w->count] = !set      ? node->split
                          : members ? f->members[node->member + i]
                                    : NAN;
    w->count++;
    w->no[w->count - 1] = w->count;
  }
  return count;
}

static void trees_walk(keel_emit *all, forest *f, written *w, visit *stack,
                       int64_t root) {
  int64_t depth = 0;
  stack[depth++] = (visit){.to = root};
  while (depth) {
    const visit now = stack[--depth];
    for (int64_t i = now.from; i < now.from + now.count; i++)
      (now.yes ? w->yes : w->no)[i] = w->count;
    if (now.to < 0) {
      write_leaf(w, -1 - now.to, -now.to);
      continue;
    }
    branch *node = &f->nodes[now.to];
    if (!keel_ml_check(all, !node->met,
                       "node %lld is reached twice from the roots: it is in a "
                       "cycle, or two nodes lead to it",
                       (long long)now.to))
      return;
    node->met = true;
    if (node->mode == LEAF) {
      write_leaf(w, node->yes, node->no);
      continue;
    }
    int64_t from = w->count, count = write_branch(w, f, node);
    stack[depth++] = (visit){node->no, w->count - 1, 1, false};
    stack[depth++] = (visit){node->yes, from, count, true};
  }
}

static bool write_nodes(keel_emit *all, forest *f, written *w) {
  /* each node once, at most two leaves beside it, and the members of sets */
  int64_t most = 3 * f->count + f->member_count;
  visit *stack = keel_ml_take(all, 2 * f->count + 2, sizeof *stack);
  w->features = keel_ml_take(all, most, sizeof *w->features);
  w->modes = keel_ml_take(all, most, sizeof *w->modes);
  w->yes = keel_ml_take(all, most, sizeof *w->yes);
  w->no = keel_ml_take(all, most, sizeof *w->no);
  w->splits = keel_ml_take(all, most, sizeof *w->splits);
  w->roots = keel_ml_take(all, f->root_count, sizeof *w->roots);
  for (int64_t i = 0; i < f->root_count && all->status == KD_OK; i++) {
    w->roots[i] = w->count;
    trees_walk(all, f, w, stack, f->roots[i]);
  }
  free(stack);
  return keel_ml_check(all, w->count <= INT32_MAX && f->vote_count <= INT32_MAX,
                       "it has more than 2^31 nodes");
}

static keel_tensor *list_tensor(keel_emit *all, kd_dtype dtype, int64_t count,
                                const double *from) {
  keel_tensor *tensor = NULL;
  size_t size = keel_dtype_size(dtype);
  char *bytes = keel_ml_take(all, count, size);
  if (!bytes) return NULL;
  for (int64_t i = 0; i < count; i++)
    keel_float_encode(dtype, from[i], bytes + (size_t)i * size);
  all->status = keel_tensor_create(all->function->context, dtype, 1, &count,
                                   bytes, &tensor);
  free(bytes);
  return tensor;
}

static keel_attr tensor_attr(const char *name, keel_tensor *tensor) {
  return (keel_attr){.name = name, .kind = KD_ATTR_TENSOR, .tensor = tensor};
}

static uint32_t add_trees(keel_emit *all, const forest *f, const written *w,
                          const char *aggregate, uint32_t x,
                          keel_tensor *splits) {
  uint32_t nodes = (uint32_t)w->count, votes = (uint32_t)f->vote_count;
  int64_t *targets = keel_ml_take(all, f->vote_count, sizeof *targets);
  double *weights = keel_ml_take(all, f->vote_count, sizeof *weights);
  keel_tensor *weight_list = NULL;
  uint32_t value = KEEL_ABSENT;
  for (int64_t i = 0; targets && weights && i < f->vote_count; i++) {
    targets[i] = f->votes[i].target;
    weights[i] = f->votes[i].weight;
  }
  if (all->status == KD_OK)
    weight_list = list_tensor(all, KD_F64, f->vote_count, weights);
  if (weight_list) {
    const keel_attr attrs[] = {
        KEEL_STRING("aggregate", aggregate),
        KEEL_INTS("features", nodes, w->features),
        KEEL_INTS("modes", nodes, w->modes),
        KEEL_INTS("no", nodes, w->no),
        KEEL_INTS("roots", (uint32_t)f->root_count, w->roots),
        tensor_attr("splits", splits),
        KEEL_INT("targets", f->targets),
        KEEL_INTS("vote_targets", votes, targets),
        tensor_attr("vote_weights", weight_list),
        KEEL_INTS("yes", nodes, w->yes)};
    value =
        keel_emit_op(all, "keel::Trees", attrs, KEEL_COUNT_OF(attrs), &x, 1);
  }
  keel_tensor_release(weight_list);
  free(targets);
  free(weights);
  return value;
}

/* The trees' votes for X's rows, in f32, or in f64 if X or the splits are f64. */
static uint32_t run_trees(keel_emit *all, forest *f, const char *aggregate) {
  written w = {0};
  uint32_t value = KEEL_ABSENT, x = keel_ml_wide(all);
  if (f->wide && all->status == KD_OK) x = keel_emit_cast(all, x, KD_F64);
  if (write_nodes(all, f, &w)) {
    keel_tensor *splits =
        list_tensor(all, keel_emit_dtype(all, x), w.count, w.splits);
    if (splits) value = add_trees(all, f, &w, aggregate, x, splits);
    keel_tensor_release(splits);
  }
  written_free(&w);
  return value;
}

/* ---- regressors ------------------------------------------------------------------------- */

/* A base value for each score, where there are any. */
static uint32_t with_base(keel_emit *all, uint32_t scores, const numbers *base,
                          int64_t targets) {
  if (!base->count || all->status != KD_OK ||
      !has_length(all, "base_values", base->count, targets, "the result"))
    return scores;
  kd_dtype dtype = keel_emit_dtype(all, scores);
  double *list = keel_ml_take(all, base->count, sizeof *list);
  keel_tensor *tensor = NULL;
  for (int64_t i = 0; list && i < base->count; i++)
    list[i] = trees_number_at(base, i);
  if (list) tensor = list_tensor(all, dtype, base->count, list);
  free(list);
  if (!tensor) return KEEL_ABSENT;
  uint32_t value =
      keel_emit_constant(all, dtype, 1, &base->count, tensor->data);
  keel_tensor_release(tensor);
  return keel_emit_binary(all, "Add", scores, value);
}

static bool read_targets(keel_emit *all, forest *f) {
  f->targets = keel_attr_int(all->node.op, "n_targets", 0);
  return keel_ml_check(all, f->targets >= 1 && f->targets <= TARGETS_MOST,
                       "n_targets is %lld, and must be 1 to %d",
                       (long long)f->targets, TARGETS_MOST);
}

static void expand_tree_regressor(keel_emit *all) {
  static const char *const names[][2] = {
      {"SUM", "sum"}, {"AVERAGE", "average"}, {"MIN", "min"}, {"MAX", "max"}};
  const char *said =
      keel_attr_string(all->node.op, "aggregate_function", "SUM");
  const char *aggregate = "sum";
  forest f = {0};
  for (size_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (!strcmp(said, names[i][0])) aggregate = names[i][1];
  numbers base = read_numbers(all, "base_values", "base_values_as_tensor");
  if (read_targets(all, &f) && read_named(all, &f, &of_targets)) {
    uint32_t scores = run_trees(all, &f, aggregate);
    keel_ml_give_scores(all, 0, with_base(all, scores, &base, f.targets));
  }
  forest_free(&f);
}

/* One of a list's words by its number, or NULL. */
static const char *word_of(keel_emit *all, const char *name,
                           const char *const *words, int64_t count,
                           int64_t otherwise) {
  int64_t number = keel_attr_int(all->node.op, name, otherwise);
  if (in_range(number, count)) return words[number];
  keel_emit_fail(all, KD_INVALID_ARGUMENT, "%s is %lld, and not 0 to %lld",
                 name, (long long)number, (long long)count - 1);
  return NULL;
}

static void expand_trees(keel_emit *all) {
  static const char *const aggregates[] = {"average", "sum", "min", "max"};
  static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC",
                                           "SOFTMAX_ZERO", "PROBIT"};
  forest f = {0};
  const char *aggregate = word_of(all, "aggregate_function", aggregates, 4, 1);
  const char *transform = word_of(all, "post_transform", transforms, 5, 0);
  if (aggregate && transform && read_targets(all, &f) && read_placed(all, &f)) {
    uint32_t scores =
        keel_ml_transform(all, run_trees(all, &f, aggregate), transform);
    keel_emit_give(
        all, 0,
        keel_emit_binary(all, "CastLike", scores, keel_emit_in(all, 0)));
  }
  forest_free(&f);
}

/* ---- classifiers ------------------------------------------------------------------------ */

/* Whether trees of two classes vote for one alone: its score is then the second class's. */
static bool is_binary(const forest *f) {
  for (int64_t i = 1; i < f->vote_count; i++)
    if (f->votes[i].target != f->votes[0].target) return false;
  return f->targets == 2 && f->vote_count;
}

/* Both scores of such trees. Probabilities, which are not negative, come to 1 together; what is
 * transformed, and other weights, to 0. */
static uint32_t binary_scores(keel_emit *all, forest *f, numbers *base) {
  int64_t voted = f->votes[0].target;
  bool sums_to_one =
      !strcmp(keel_attr_string(all->node.op, "post_transform", "NONE"), "NONE");
  for (int64_t i = 0; i < f->vote_count; i++) {
    f->votes[i].target = 0;
    sums_to_one &= f->votes[i].weight >= 0;
  }
  f->targets = 1;
  uint32_t score = run_trees(all, f, "sum");
  if (base->count == 2)
    score = keel_emit_text(all, "%v + %f", score, trees_number_at(base, voted));
  else
    score = with_base(all, score, base, 1);
  return keel_ml_both(all, score, sums_to_one);
}

static void expand_tree_classifier(keel_emit *all) {
  forest f = {0};
  keel_ml_labels labels = keel_ml_labels_of(all, "classlabels_int64s");
  if (all->status != KD_OK) return;
  f.targets = labels.count;
  numbers base = read_numbers(all, "base_values", "base_values_as_tensor");
  if (read_named(all, &f, &of_classes)) {
    uint32_t scores = is_binary(&f) ? binary_scores(all, &f, &base)
                                    : with_base(all, run_trees(all, &f, "sum"),
                                                &base, labels.count);
    keel_ml_give_labels(all, scores, labels);
    keel_ml_give_scores(all, 1, scores);
  }
  forest_free(&f);
}

/* ---- rows ---- */

#define TREE_NODES                                                     \
  "nodes_falsenodeids:I nodes_featureids:I nodes_hitrates:F"           \
  " nodes_hitrates_as_tensor:t nodes_missing_value_tracks_true:I"      \
  " nodes_modes:S nodes_nodeids:I nodes_treeids:I nodes_truenodeids:I" \
  " nodes_values:F nodes_values_as_tensor:t base_values:F"             \
  " base_values_as_tensor:t " TRANSFORM

static const keel_schema_row rows[] = {
    ML("TreeEnsemble", 5, "float", "X:T -> Y:T",
       "aggregate_function:i=1 leaf_targetids:I! leaf_weights:t!"
       " membership_values:t n_targets:i nodes_falseleafs:I!"
       " nodes_falsenodeids:I! nodes_featureids:I! nodes_hitrates:t"
       " nodes_missing_value_tracks_true:I nodes_modes:t! nodes_splits:t!"
       " nodes_trueleafs:I! nodes_truenodeids:I! post_transform:i=0"
       " tree_roots:I!",
       ml_targets),
    ML("TreeEnsembleClassifier", 5, "num", "X:T -> Y:any Z:f32",
       "class_ids:I class_nodeids:I class_treeids:I class_weights:F"
       " class_weights_as_tensor:t classlabels_int64s:I"
       " classlabels_strings:S " TREE_NODES,
       ml_classes),
    ML("TreeEnsembleRegressor", 5, "num", "X:T -> Y:f32",
       "aggregate_function:s=SUM|AVERAGE|MIN|MAX n_targets:i target_ids:I"
       " target_nodeids:I target_treeids:I target_weights:F"
       " target_weights_as_tensor:t " TREE_NODES,
       ml_targets),
};

static const keel_op_rule rules[] = {
    {"ai.onnx.ml::TreeEnsemble", .expand = expand_trees},
    {"ai.onnx.ml::TreeEnsembleClassifier", .expand = expand_tree_classifier},
    {"ai.onnx.ml::TreeEnsembleRegressor", .expand = expand_tree_regressor},
};

const keel_op_table keel_ops_ml_trees = {KEEL_TABLE_ROWS(rows),
                                         KEEL_TABLE_RULES(rules)};
