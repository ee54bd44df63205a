/* resize_rows_typed.h - resize_rows.c's sums for one element type. */
static void NAMED(load)(const S *x, int64_t n, double *restrict y) {
  for (int64_t i = 0; i < n; i++)
    y[i] = (double)LOAD(x[i]);
}

static void NAMED(store)(const double *restrict x, int64_t n, S *y) {
  for (int64_t i = 0; i < n; i++)
    y[i] = STORED(x[i]);
}

/* The sum of rows of the input itself. */
static void NAMED(sum)(const S *x, const int64_t *index, const double *weight,
                       int64_t width, int64_t n, double *restrict y) {
  int64_t k = 0;
  const S *a = x + index[0] * n;
  if (width >= 2) {
    const S *b = x + index[1] * n;
    const double wa = weight[0], wb = weight[1];
    for (int64_t i = 0; i < n; i++)
      y[i] = (double)LOAD(a[i]) * wa + (double)LOAD(b[i]) * wb;
    k = 2;
  } else {
    for (int64_t i = 0; i < n; i++)
      y[i] = (double)LOAD(a[i]) * weight[0];
    k = 1;
  }
  for (; k < width; k++) {
    const S *c = x + index[k] * n;
    const double wc = weight[k];
    for (int64_t i = 0; i < n; i++)
      y[i] += (double)LOAD(c[i]) * wc;
  }
}

/* The first axis first. */
static void NAMED(shrunk)(const resize_rows *r, const band *b, double *room) {
  const resize_taps *first = &r->axes[0];
  const S *x = (const S *)r->x + b->x;
  S *y = (S *)r->y + b->y;
  int64_t in = below(r, 1, false), out = below(r, 1, true), most = widest(r);
  for (int64_t o = b->begin; o < b->end; o++, y += out) {
    NAMED(sum)
    (x, first->index + o * first->width, first->weight + o * first->width,
     first->width, in, room);
    NAMED(store)(sum_axes(r, 1, room, room + most), out, y);
  }
}

/* The first axis last; `have` says which input a slot holds. */
static void NAMED(grown)(const resize_rows *r, const band *b, double *room,
                         int64_t *have) {
  const resize_taps *first = &r->axes[0];
  const S *x = (const S *)r->x + b->x;
  S *y = (S *)r->y + b->y;
  int64_t in = below(r, 1, false), out = below(r, 1, true), most = widest(r);
  int64_t width = first->width, slots = slots_of(r);
  double *kept = room + 2 * most, chunk[CHUNK];
  int64_t at[CHUNK];
  for (int64_t s = 0; s < slots; s++)
    have[s] = -1;
  for (int64_t o = b->begin; o < b->end; o++, y += out) {
    const int64_t *index = first->index + o * width;
    for (int64_t k = 0; k < width; k++) {
      int64_t slot = at[k] = index[k] % slots;
      if (have[slot] == index[k]) continue;
      NAMED(load)(x + index[k] * in, in, room);
      memcpy(kept + slot * out, sum_axes(r, 1, room, room + most),
             (size_t)out * sizeof *kept);
      have[slot] = index[k];
    }
    for (int64_t c = 0; c < out; c += CHUNK) {
      int64_t n = cpu_least(CHUNK, out - c);
      sum_rows(kept + c, at, first->weight + o * width, width, out, n, chunk);
      NAMED(store)(chunk, n, y + c);
    }
  }
}

static void NAMED(sums)(void *context, int64_t begin, int64_t end) {
  const resize_rows *r = context;
  bool small = shrinks(r);
  int64_t slots = small ? 0 : slots_of(r), out = below(r, 1, true);
  double *room =
      malloc((size_t)(2 * widest(r) + slots * out + slots) * sizeof *room);
  int64_t *have =
      room ? (int64_t *)(void *)(room + 2 * widest(r) + slots * out) : NULL;
  for (int64_t i = begin; i < end; i++) {
    band b = band_at(r, i);
    if (!room)
      r->plain(r->context, b.y, b.y + (b.end - b.begin) * out);
    else if (small)
      NAMED(shrunk)(r, &b, room);
    else
      NAMED(grown)(r, &b, room, have);
  }
  free(room);
}
