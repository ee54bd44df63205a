/* window_typed.h - window.c's loops for one element type: S in memory, C loaded, V summed
 * (dialect.h). */

static inline V NAMED(combined)(V all, V here, int how) {
  if (how == WINDOW_ADD) return (V)(all + here);
  if (how == WINDOW_MUL) return (V)(all * here);
  return !IS_NAN(all) && BEYOND(here, all, how) ? here : all;
}

static void NAMED(reduce_windows)(void *context, int64_t begin, int64_t end) {
  const window_work *work = context;
  const S *x = work->x;
  S *y = work->y;
  int64_t index[KD_MAX_RANK];
  window_walk walk;
  const V init = (V)LOAD(*(const S *)work->init);
  index_of(work->counts, work->rank, begin, index);
  for (int64_t i = begin; i < end; i++) {
    V all = init;
    bool more = walk_begin(work, index, &walk);
    for (; more; more = walk_next(work, &walk)) {
      int64_t at = walk_element(work, &walk);
      if (at >= 0) all = NAMED(combined)(all, (V)LOAD(x[at]), work->how);
    }
    y[i] = STORE(all);
    next_index(work->counts, work->rank, index);
  }
}

/* The place of the element that a window selects; -1: it has padding alone. */
static int64_t NAMED(select)(const window_work *work, const int64_t *index) {
  const S *x = work->x;
  window_walk walk;
  int64_t best = -1;
  bool more = walk_begin(work, index, &walk);
  for (; more; more = walk_next(work, &walk)) {
    int64_t at = walk_element(work, &walk);
    if (at < 0) continue;
    const C here = LOAD(x[at]), top = LOAD(x[best < 0 ? at : best]);
    if (best < 0 || (!IS_NAN(top) && BEYOND(here, top, work->how))) best = at;
  }
  return best;
}

static bool NAMED(scatter_selected)(const window_work *work) {
  const S *source = work->source;
  S *y = work->y;
  int64_t index[KD_MAX_RANK] = {0};
  int64_t elements = product(work->dims, 0, work->rank);
  int64_t windows = product(work->counts, 0, work->rank);
  V *sums = malloc(((size_t)elements + 1) * sizeof *sums);
  if (!sums) return false;
  for (int64_t i = 0; i < elements; i++)
    sums[i] = (V)LOAD(*(const S *)work->init);
  for (int64_t i = 0; i < windows; i++) {
    int64_t at = NAMED(select)(work, index);
    if (at >= 0) sums[at] = (V)(sums[at] + (V)LOAD(source[i]));
    next_index(work->counts, work->rank, index);
  }
  for (int64_t i = 0; i < elements; i++)
    y[i] = STORE(sums[i]);
  free(sums);
  return true;
}
