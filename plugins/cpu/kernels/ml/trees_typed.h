/* trees_typed.h - the walk through trees, of one type: REAL, which NAME(x) adds to names. */

/* A leaf leads to itself, so that a walk may go on there until others have come to theirs. */
typedef struct NAME(tree_node) {
  union {
    REAL split;
    uint32_t votes; /* of a leaf: its first one, or NO_VOTES */
  } at;
  uint32_t feature; /* with the mode and whether NaN is yes, above FEATURE */
  uint32_t to[2];   /* where it is yes, and no */
} NAME(tree_node);

static void NAME(lay_out)(const tree_lists *from, void *out) {
  NAME(tree_node) *nodes = out;
  for (int64_t i = 0; i < from->count; i++) {
    NAME(tree_node) *node = &nodes[i];
    bool leaf = from->features[i] < 0;
    *node = (NAME(tree_node)){.feature = 0, .to = {(uint32_t)i, (uint32_t)i}};
    if (leaf) {
      node->at.votes =
          from->yes[i] < from->no[i] ? (uint32_t)from->yes[i] : NO_VOTES;
      continue;
    }
    node->at.split = ((const REAL *)from->splits)[i];
    node->feature = (uint32_t)from->features[i] | (uint32_t)from->modes[i]
                                                      << FEATURE_BITS;
    node->to[0] = (uint32_t)from->yes[i];
    node->to[1] = (uint32_t)from->no[i];
  }
}

/* mode and missing are constants where this is inlined: MIXED is as each node has it. */
static inline uint32_t NAME(next)(const NAME(tree_node) * node, const REAL *x,
                                  int mode, bool missing) {
  REAL value = x[node->feature & FEATURE], split = node->at.split;
  bool yes = false;
  switch (mode == MIXED ? (int)(node->feature >> FEATURE_BITS & 7) : mode) {
    case LEQ:
      yes = value <= split;
      break;
    case LT:
      yes = value < split;
      break;
    case GTE:
      yes = value >= split;
      break;
    case GT:
      yes = value > split;
      break;
    case EQ:
      yes = value == split;
      break;
    default:
      yes = value != split;
  }
  if (missing) yes |= (node->feature >> MISSING_BIT) & (value != value);
  return node->to[!yes];
}

/* Some steps of all lanes, until none leads on. */
static inline void NAME(walk)(const NAME(tree_node) * nodes,
                              const REAL *const *x, uint32_t *places, int mode,
                              bool missing) {
  uint32_t at[LANES], moves = 1;
  memcpy(at, places, sizeof at);
  while (moves) {
    for (int step = 0; step < STEPS; step++)
      for (int lane = 0; lane < LANES; lane++)
        at[lane] = NAME(next)(&nodes[at[lane]], x[lane], mode, missing);
    moves = 0;
    for (int lane = 0; lane < LANES; lane++)
      moves |= nodes[at[lane]].to[0] ^ at[lane];
  }
  memcpy(places, at, sizeof at);
}

/* From roots to leaves; out gets the leaves' first votes. */
static void NAME(find_leaves)(const kd_kernel *self, const void *const *rows,
                              const uint32_t *roots, uint32_t *out) {
  const NAME(tree_node) *nodes = self->nodes;
  const REAL *x[LANES];
  uint32_t at[LANES];
  for (int lane = 0; lane < LANES; lane++)
    x[lane] = rows[lane];
  memcpy(at, roots, sizeof at);
  if (self->missing && self->mode == LEQ)
    NAME(walk)(nodes, x, at, LEQ, true);
  else if (self->missing)
    NAME(walk)(nodes, x, at, MIXED, true);
  else if (self->mode == LEQ)
    NAME(walk)(nodes, x, at, LEQ, false);
  else if (self->mode == LT)
    NAME(walk)(nodes, x, at, LT, false);
  else
    NAME(walk)(nodes, x, at, MIXED, false);
  for (int lane = 0; lane < LANES; lane++)
    out[lane] = nodes[at[lane]].at.votes;
}
