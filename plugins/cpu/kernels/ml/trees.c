/* trees.c - keel::Trees: ensembles of decision trees, whose leaves vote.
 *
 * LANES walks go on at once without branches, so that one's memory is waited for while others
 * compute (Asadi, Lin and de Vries, "Runtime Optimizations for Tree-Based Machine Learning
 * Models", 2014): rows in the same tree, whose nodes then stay in the cache, or trees of the
 * same row. A leaf leads to itself; after STEPS steps all lanes are asked whether they are at
 * one.
 *
 *     node   split, or a leaf's votes | feature, mode, NaN | next if yes | next if no
 *
 * Threads share blocks of rows. A row's votes are added in double, in the order of the trees,
 * so that the number of threads changes no result. */
#include <stdatomic.h>

#include "kernels.h"

#define LANES 8  /* walks at once */
#define STEPS 4  /* before it is asked whether all have ended */
#define ROWS  64 /* most rows of a block */
#define SUMS \
  32768 /* most numbers that a block adds up, where it has several rows */
#define NO_VOTES     UINT32_MAX
#define FEATURE_BITS 28
#define FEATURE      ((1u << FEATURE_BITS) - 1)
#define MISSING_BIT  31 /* FEATURE_BITS + 3: above the mode */

enum { LEQ, LT, GTE, GT, EQ, NEQ, MIXED };

typedef struct tree_vote {
  double weight;
  uint32_t target;
  bool last; /* of its leaf's */
} tree_vote;

enum { SUM, AVERAGE, MIN, MAX };

struct kd_kernel {
  void *nodes; /* of X's type */
  uint32_t *roots;
  tree_vote *votes;
  int64_t trees, targets, features; /* features: that X must have */
  int mode;                         /* of all nodes, or MIXED */
  bool missing;                     /* some node takes NaN for yes */
  int aggregate;
  kd_dtype dtype;
};

/* ---- reading the node --------------------------------------------------------------- */

/* The attributes, as the op has them. */
typedef struct tree_lists {
  const int64_t *features, *modes, *yes, *no, *roots, *targets;
  const void *splits;
  const kd_tensor *weights;
  int64_t count, root_count, vote_count;
} tree_lists;

#define REAL    float
#define NAME(x) x##_f32
#include "trees_typed.h"
#undef REAL
#undef NAME
#define REAL    double
#define NAME(x) x##_f64
#include "trees_typed.h"
#undef REAL
#undef NAME

static kd_status bad_node(int64_t at, const char *why) {
  return FAIL(KD_INVALID_ARGUMENT, "node %lld of Trees %s", (long long)at, why);
}

/* A node leads to what is behind it: so no walk is endless. */
static kd_status check_node(const tree_lists *from, int64_t i) {
  int64_t yes = from->yes[i], no = from->no[i], mode = from->modes[i];
  if (from->features[i] < 0)
    return yes >= 0 && yes <= no && no <= from->vote_count
               ? KD_OK
               : bad_node(i, "has votes that are not there");
  if (from->features[i] > FEATURE)
    return bad_node(i, "asks for a feature above 2^28");
  if (mode < 0 || mode > 15 || (mode & 7) > NEQ)
    return bad_node(i, "has a mode that there is not");
  return yes > i && no > i && yes < from->count && no < from->count
             ? KD_OK
             : bad_node(i, "does not lead to nodes behind it");
}

static kd_status check_lists(const tree_lists *from, int64_t targets) {
  for (int64_t i = 0; i < from->count; i++) {
    kd_status status = check_node(from, i);
    if (status != KD_OK) return status;
  }
  for (int64_t i = 0; i < from->root_count; i++)
    if (from->roots[i] < 0 || from->roots[i] >= from->count)
      return FAIL(KD_INVALID_ARGUMENT,
                  "root %lld of Trees is node %lld of %lld", (long long)i,
                  (long long)from->roots[i], (long long)from->count);
  for (int64_t i = 0; i < from->vote_count; i++)
    if (from->targets[i] < 0 || from->targets[i] >= targets)
      return FAIL(KD_INVALID_ARGUMENT,
                  "vote %lld of Trees is for target %lld of %lld", (long long)i,
                  (long long)from->targets[i], (long long)targets);
  return KD_OK;
}

static kd_status read_lists(const kd_node *node, kd_dtype dtype,
                            tree_lists *from, kd_tensor *splits,
                            kd_tensor *weights) {
  const kd_node_table *read = cpu_host->node;
  from->count = read->attr_ints(node, "features", &from->features);
  from->root_count = read->attr_ints(node, "roots", &from->roots);
  from->vote_count = read->attr_ints(node, "vote_targets", &from->targets);
  bool fits = from->count >= 1 && from->count < INT32_MAX &&
              from->root_count >= 1 && from->vote_count >= 0 &&
              read->attr_ints(node, "modes", &from->modes) == from->count &&
              read->attr_ints(node, "yes", &from->yes) == from->count &&
              read->attr_ints(node, "no", &from->no) == from->count &&
              read->attr_tensor(node, "splits", splits) == KD_OK &&
              read->attr_tensor(node, "vote_weights", weights) == KD_OK;
  if (!fits || splits->dtype != dtype || kd_elements(splits) != from->count ||
      weights->dtype != KD_F64 || kd_elements(weights) != from->vote_count)
    return FAIL(KD_INVALID_ARGUMENT,
                "lists of Trees are empty, or not of one length, or splits are"
                " not of X's type or weights not f64");
  from->splits = splits->data;
  from->weights = weights;
  return KD_OK;
}

/* What is the same for all nodes. */
static void read_modes(kd_kernel *self, const tree_lists *from) {
  int mode = -1;
  self->features = 1;
  for (int64_t i = 0; i < from->count; i++) {
    if (from->features[i] < 0) continue;
    int own = (int)from->modes[i] & 7;
    mode = mode < 0 || mode == own ? own : MIXED;
    self->missing |= from->modes[i] > 7;
    if (from->features[i] >= self->features)
      self->features = from->features[i] + 1;
  }
  self->mode = mode < 0 ? LEQ : mode;
}

static bool trees_fill(kd_kernel *self, const tree_lists *from) {
  bool wide = self->dtype == KD_F64;
  size_t size = wide ? sizeof(tree_node_f64) : sizeof(tree_node_f32);
  self->nodes = malloc((size_t)from->count * size);
  self->roots = malloc((size_t)from->root_count * sizeof *self->roots);
  self->votes = calloc((size_t)from->vote_count + 1, sizeof *self->votes);
  if (!self->nodes || !self->roots || !self->votes) return false;
  if (wide)
    lay_out_f64(from, self->nodes);
  else
    lay_out_f32(from, self->nodes);
  self->trees = from->root_count;
  for (int64_t i = 0; i < from->root_count; i++)
    self->roots[i] = (uint32_t)from->roots[i];
  for (int64_t i = 0; i < from->vote_count; i++)
    self->votes[i] =
        (tree_vote){.weight = ((const double *)from->weights->data)[i],
                    .target = (uint32_t)from->targets[i]};
  for (int64_t i = 0; i < from->count; i++)
    if (from->features[i] < 0 && from->yes[i] < from->no[i])
      self->votes[from->no[i] - 1].last = true;
  return true;
}

void cpu_destroy_trees(kd_kernel *kernel) {
  free(kernel->nodes);
  free(kernel->roots);
  free(kernel->votes);
  free(kernel);
}

CPU_CREATE(trees) {
  static const char *const aggregates[] = {"sum", "average", "min", "max"};
  const kd_node_table *read = cpu_host->node;
  const char *aggregate = read->attr_string(node, "aggregate", "sum");
  int64_t targets = read->attr_int(node, "targets", 0);
  tree_lists from = {0};
  kd_tensor splits, weights;
  kd_type x;
  if (read->input_type(node, 0, &x) != KD_OK || targets < 1 ||
      targets > INT32_MAX)
    return FAIL(KD_INVALID_ARGUMENT, "Trees has %lld targets",
                (long long)targets);
  kd_status status = read_lists(node, x.dtype, &from, &splits, &weights);
  if (status == KD_OK) status = check_lists(&from, targets);
  if (status != KD_OK) return status;
  kd_kernel *self = calloc(1, sizeof *self);
  if (!self) return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel");
  self->dtype = x.dtype;
  self->targets = targets;
  for (int i = 0; i < 4; i++)
    if (!strcmp(aggregates[i], aggregate)) self->aggregate = i;
  read_modes(self, &from);
  if (!trees_fill(self, &from)) {
    cpu_destroy_trees(self);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for %lld nodes",
                (long long)from.count);
  }
  *out_kernel = self;
  return KD_OK;
}

/* ---- running ------------------------------------------------------------------------- */

typedef struct tree_work {
  const kd_kernel *self;
  const kd_tensor *x, *y;
  int64_t rows, features, block; /* rows of a block */
  atomic_bool failed;
} tree_work;

/* What a block adds up; seen: whether a target has had a vote. */
typedef struct tree_sums {
  double *sums;
  bool *seen;
} tree_sums;

static void count_votes(const kd_kernel *self, uint32_t first, double *sums,
                        bool *seen) {
  if (first == NO_VOTES) return;
  for (const tree_vote *vote = &self->votes[first];; vote++) {
    double *sum = &sums[vote->target];
    if (self->aggregate < MIN)
      *sum += vote->weight;
    else if (!seen[vote->target] ||
             (self->aggregate == MIN ? vote->weight < *sum
                                     : vote->weight > *sum))
      *sum = vote->weight;
    if (self->aggregate >= MIN) seen[vote->target] = true;
    if (vote->last) return;
  }
}

/* All trees of rows [from, from + rows). */
static void walk_block(const tree_work *w, int64_t from, int64_t rows,
                       const tree_sums *to) {
  const kd_kernel *self = w->self;
  size_t step = (size_t)w->features * kd_dtype_size(self->dtype);
  const char *x = (const char *)w->x->data + (size_t)from * step;
  int64_t tree = 0, row = 0;
  while (tree < self->trees) {
    const void *lines[LANES];
    uint32_t roots[LANES], votes[LANES];
    int64_t of[LANES];
    int count = 0;
    for (; count < LANES && tree < self->trees; count++) {
      lines[count] = x + (size_t)row * step;
      roots[count] = self->roots[tree];
      of[count] = row;
      if (++row == rows) {
        row = 0;
        tree++;
      }
    }
    for (int lane = count; lane < LANES; lane++) { /* the last one again */
      lines[lane] = lines[count - 1];
      roots[lane] = roots[count - 1];
    }
    if (self->dtype == KD_F64)
      find_leaves_f64(self, lines, roots, votes);
    else
      find_leaves_f32(self, lines, roots, votes);
    for (int lane = 0; lane < count; lane++)
      count_votes(self, votes[lane], to->sums + of[lane] * self->targets,
                  to->seen + of[lane] * self->targets);
  }
}

static void run_blocks(void *context, int64_t begin, int64_t end) {
  tree_work *w = context;
  const kd_kernel *self = w->self;
  int64_t most = w->block * self->targets;
  tree_sums to = {malloc((size_t)most * sizeof(double)),
                  malloc((size_t)most * sizeof(bool))};
  bool room = to.sums && to.seen;
  if (!room) atomic_store(&w->failed, true);
  for (int64_t block = begin; block < end && room; block++) {
    int64_t from = block * w->block, left = w->rows - from;
    int64_t rows = left < w->block ? left : w->block;
    int64_t count = rows * self->targets;
    memset(to.sums, 0, (size_t)count * sizeof *to.sums);
    memset(to.seen, 0, (size_t)count * sizeof *to.seen);
    walk_block(w, from, rows, &to);
    double by = self->aggregate == AVERAGE ? (double)self->trees : 1;
    for (int64_t i = 0; i < count; i++)
      to.sums[i] /= by;
    size_t size = kd_dtype_size(self->dtype);
    cpu_convert(to.sums, KD_F64,
                (char *)w->y->data + (size_t)(from * self->targets) * size,
                self->dtype, count);
  }
  free(to.sums);
  free(to.seen);
}

/* Rows of a block: enough of them to share a tree, and blocks for all threads. */
static int64_t block_of(const kd_kernel *self, int64_t rows) {
  int64_t most = SUMS / self->targets;
  int64_t each = rows / (4 * (int64_t)cpu_host->worker_count(cpu_host) + 1);
  int64_t block = each < LANES ? LANES : each > ROWS ? ROWS : each;
  if (block > most) block = most;
  return block < 1 ? 1 : block;
}

CPU_KERNEL(cpu_run_trees) {
  const kd_tensor *x = &launch->inputs[0];
  tree_work w = {.self = self,
                 .x = x,
                 .y = &launch->outputs[0],
                 .rows = x->rank == 2 ? x->dims[0] : 1,
                 .features = x->dims[x->rank - 1]};
  if (w.features < self->features)
    return FAIL(KD_INVALID_ARGUMENT,
                "X has %lld features, and the trees ask for %lld",
                (long long)w.features, (long long)self->features);
  w.block = block_of(self, w.rows);
  int64_t blocks = (w.rows + w.block - 1) / w.block;
  cpu_host->parallel_for(cpu_host, blocks,
                         CPU_GRAIN / 8 / (w.block * self->trees) + 1,
                         run_blocks, &w);
  return atomic_load(&w.failed)
             ? FAIL(KD_OUT_OF_MEMORY, "no memory for %lld targets",
                    (long long)self->targets)
             : KD_OK;
}
