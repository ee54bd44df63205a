/* order_typed.h - order.c's kernels for one element type, S in memory.
 *
 *   R, RANK(x, most)  x as an integer of type R: in the order of elements, or in the other one
 *   TIMES(a, b)       the product of two sums, of type V */

/* ---- ArgMax, ArgMin ------------------------------------------------------- */

/* The best of `n` rows of `lanes` elements, `step` apart, for each lane. */
static inline void NAMED(rows)(const S *x, int64_t n, int64_t step, int lanes,
                               bool most, bool last, R *best, int32_t *row) {
  for (int k = 0; k < lanes; k++) {
    best[k] = RANK(LOAD(x[k]), most);
    row[k] = 0;
  }
  for (int32_t i = 1; i < (int32_t)n; i++) {
    x += step;
    for (int k = 0; k < lanes; k++) {
      const R here = RANK(LOAD(x[k]), most), top = best[k];
      bool better = last ? here >= top : here > top;
      best[k] = better ? here : top;
      row[k] = better ? i : row[k];
    }
  }
}

/* The same, the usual cases with what is constant in them. */
static void NAMED(best)(const S *x, int64_t n, int64_t step, int lanes,
                        const line_work *work, R *best, int32_t *row) {
  if (lanes == ORDER_LANES && work->most && !work->last)
    NAMED(rows)(x, n, step, ORDER_LANES, true, false, best, row);
  else if (lanes == ORDER_LANES && !work->last)
    NAMED(rows)(x, n, step, ORDER_LANES, false, false, best, row);
  else
    NAMED(rows)(x, n, step, lanes, work->most, work->last, best, row);
}

/* Rows are told apart in 32 bits: as many of them at once. */
static void NAMED(lanes)(const S *x, int64_t n, int64_t step, int lanes,
                         const line_work *work, R *top, int64_t *to) {
  R best[ORDER_LANES];
  int32_t row[ORDER_LANES];
  for (int64_t from = 0; from < n; from += ORDER_ROWS) {
    int64_t rows = n - from < ORDER_ROWS ? n - from : ORDER_ROWS;
    NAMED(best)(x + from * step, rows, step, lanes, work, best, row);
    for (int k = 0; k < lanes; k++)
      if (!from || (work->last ? best[k] >= top[k] : best[k] > top[k])) {
        top[k] = best[k];
        to[k] = from + row[k];
      }
  }
}

/* Of a line of n elements side by side: of each of its parts, then of those. */
static int64_t NAMED(line)(const S *x, int64_t n, const line_work *work) {
  R top[ORDER_LANES];
  int64_t to[ORDER_LANES], whole = n / ORDER_LANES, best = 0;
  R most = RANK(LOAD(x[0]), work->most);
  NAMED(lanes)(x, whole, ORDER_LANES, ORDER_LANES, work, top, to);
  for (int k = 0; k < ORDER_LANES && whole; k++) {
    int64_t at = to[k] * ORDER_LANES + k;
    bool before = work->last ? at > best : at < best;
    if (top[k] > most || (top[k] == most && before)) {
      most = top[k];
      best = at;
    }
  }
  for (int64_t i = whole * ORDER_LANES; i < n; i++) {
    R here = RANK(LOAD(x[i]), work->most);
    if (work->last ? here >= most : here > most) {
      most = here;
      best = i;
    }
  }
  return best;
}

static void NAMED(arg)(void *context, int64_t begin, int64_t end) {
  const line_work *work = context;
  int64_t *py = work->y, step = work->all.step, n = work->all.length;
  R top[ORDER_LANES];
  for (int64_t i = begin, lanes; i < end; i += lanes) {
    const S *x = (const S *)work->x + lines_start(&work->all, i);
    int64_t beside = step - i % step;
    lanes = beside < end - i ? beside : end - i;
    lanes = lanes < ORDER_LANES ? lanes : ORDER_LANES;
    if (step == 1)
      py[i] = NAMED(line)(x, n, work);
    else
      NAMED(lanes)(x, n, step, (int)lanes, work, top, py + i);
  }
}

/* ---- CumSum, CumProd ------------------------------------------------------ */

/* product is a constant where this is called, as in what follows. */
static inline void NAMED(sum_line)(const line_work *work, int64_t from,
                                   int64_t n, int64_t step, bool product) {
  V sum = product;
  const S *x = (const S *)work->x + from;
  S *y = (S *)work->y + from;
  if (work->reverse) {
    x += (n - 1) * step;
    y += (n - 1) * step;
    step = -step;
  }
  for (int64_t i = 0; i < n; i++) {
    V here = (V)LOAD(x[i * step]),
      next = product ? TIMES(sum, here) : sum + here;
    y[i * step] = STORE(work->exclusive ? sum : next);
    sum = next;
  }
}

/* Lines that lie side by side. */
static inline void NAMED(sum_lines)(const line_work *work, int64_t from,
                                    int64_t n, int64_t step, bool product) {
  V sum[SUM_LANES];
  for (int k = 0; k < SUM_LANES; k++)
    sum[k] = product;
  for (int64_t r = 0; r < n; r++) {
    int64_t at = from + (work->reverse ? n - 1 - r : r) * step;
    const S *restrict x = (const S *)work->x + at;
    S *restrict y = (S *)work->y + at;
    for (int k = 0; k < SUM_LANES && work->exclusive; k++) {
      V here = (V)LOAD(x[k]);
      y[k] = STORE(sum[k]);
      sum[k] = product ? TIMES(sum[k], here) : sum[k] + here;
    }
    for (int k = 0; k < SUM_LANES && !work->exclusive; k++) {
      V here = (V)LOAD(x[k]);
      sum[k] = product ? TIMES(sum[k], here) : sum[k] + here;
      y[k] = STORE(sum[k]);
    }
  }
}

static inline void NAMED(accumulate)(const line_work *work, int64_t begin,
                                     int64_t end, bool product) {
  int64_t n = work->all.length, step = work->all.step;
  for (int64_t i = begin, lanes; i < end; i += lanes) {
    int64_t from = lines_start(&work->all, i), beside = step - i % step;
    bool many = beside >= SUM_LANES && end - i >= SUM_LANES;
    lanes = many ? SUM_LANES : 1;
    if (many)
      NAMED(sum_lines)(work, from, n, step, product);
    else
      NAMED(sum_line)(work, from, n, step, product);
  }
}

static void NAMED(cum_sum)(void *context, int64_t begin, int64_t end) {
  NAMED(accumulate)(context, begin, end, false);
}

static void NAMED(cum_prod)(void *context, int64_t begin, int64_t end) {
  NAMED(accumulate)(context, begin, end, true);
}
