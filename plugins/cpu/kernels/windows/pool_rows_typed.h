/* pool_rows_typed.h - pool_rows.c for one element type: POOL names the bodies of KIND; JOIN
 * joins values of type T, from NONE on; FILLED(v) is what becomes of an element first.
 *
 *   OWN(name)  POOL_name_TYPE, such as mean_join_f32 */
#define OWN(name) JOINED(JOINED(POOL, _##name##_), TYPE)

/* The divisor of a sum of taps or, where a result is rounded to less than a double, the factor. That
 * of no taps is not seen. */
#define PART(taps) \
  ((taps) <= 0 ? 1.0 : sizeof(S) < sizeof(double) ? 1 / (taps) : (taps))

/* n elements of a row from `at` on; NONE outside the row. */
static void OWN(fill)(const pool_work *work, const S *row, int64_t length,
                      int64_t at, int64_t n, T *out) {
  int64_t begin = at < 0 ? cpu_least(-at, n) : 0;
  int64_t end = length > at ? cpu_least(length - at, n) : begin;
  (void)work;
  if (!row || end < begin) begin = end = 0;
  for (int64_t i = 0; i < begin; i++)
    out[i] = NONE;
  for (int64_t i = begin; i < end; i++)
    out[i] = FILLED((T)LOAD(row[at + i]));
  for (int64_t i = end; i < n; i++)
    out[i] = NONE;
}

/* n whole rows of so many elements, `step` elements apart. */
static void OWN(narrow)(const pool_work *work, const S *rows, int64_t columns,
                        int64_t step, int64_t n, T *out) {
  (void)work;
  if (step == columns)
    for (int64_t i = 0; i < n * columns; i++)
      out[i] = FILLED((T)LOAD(rows[i]));
  else
    for (int64_t i = 0; i < n; i++, rows += step)
      for (int64_t k = 0; k < columns; k++)
        *out++ = FILLED((T)LOAD(rows[k]));
}

/* What of a plane a tile needs, by phases of rows. */
static void OWN(image)(const tile *t, const S *plane, T *image) {
  const pool_work *work = t->work;
  const side y = side_of(&work->w, 2), x = side_of(&work->w, 1);
  int64_t left = t->column * x.stride - x.begin;
  int64_t top = t->row * y.stride - y.begin;
  bool is_whole = t->wide == x.in && left == 0;
  for (int64_t q = 0; q < y.stride; q++) {
    T *rows = image + q * t->high * t->wide;
    if (!phase_used(&y, q)) continue;
    int64_t whole = 0;
    if (is_whole && top + q >= 0 && top + q < y.in) {
      whole = cpu_least(t->high, (y.in - top - q - 1) / y.stride + 1);
      OWN(narrow)
      (work, plane + (top + q) * x.in, x.in, y.stride * x.in, whole, rows);
    }
    for (int64_t i = whole; i < t->high; i++) {
      int64_t at = top + q + i * y.stride;
      OWN(fill)
      (work, at >= 0 && at < y.in ? plane + at * x.in : NULL, x.in, left,
       t->wide, rows + i * t->wide);
    }
  }
}

/* Joined rows by phases: n of each. */
static void OWN(split)(const T *from, int64_t phases, int64_t n, T *to) {
  for (int64_t p = 0; p < phases; p++, to += n)
    if (phases == 2)
      for (int64_t i = 0; i < n; i++)
        to[i] = from[p + 2 * i];
    else
      for (int64_t i = 0; i < n; i++)
        to[i] = from[p + phases * i];
}

/* Joins n elements of each of `count` taps into `to`, in which there is something
 * already unless `fresh`. */
static void OWN(join)(T *restrict to, const T *const *taps, int64_t count,
                      bool fresh, int64_t n) {
  int64_t k = 0;
  if (fresh && count >= 3) {
    const T *a = taps[0], *b = taps[1], *c = taps[2];
    for (int64_t i = 0; i < n; i++) {
      const T s = JOIN(a[i], b[i]);
      to[i] = JOIN(s, c[i]);
    }
    k = 3;
  } else if (fresh && count == 2) {
    const T *a = taps[0], *b = taps[1];
    for (int64_t i = 0; i < n; i++)
      to[i] = JOIN(a[i], b[i]);
    k = 2;
  } else if (fresh) {
    memcpy(to, taps[0], (size_t)n * sizeof *to);
    k = 1;
  }
  for (; k + 1 < count; k += 2) {
    const T *a = taps[k], *b = taps[k + 1];
    for (int64_t i = 0; i < n; i++) {
      const T s = JOIN(to[i], a[i]);
      to[i] = JOIN(s, b[i]);
    }
  }
  if (k < count) {
    const T *a = taps[k];
    for (int64_t i = 0; i < n; i++)
      to[i] = JOIN(to[i], a[i]);
  }
}

#define FEW 16 /* taps at once */

/* The taps of one dimension, of runs that start at `from` and are by phases `apart`; a
 * tap a whole stride on is `step` behind. */
static void OWN(taps)(const side *s, const T *from, int64_t apart, int64_t step,
                      T *to, bool fresh, int64_t n) {
  const T *taps[FEW];
  int64_t count = 0;
  for (int64_t k = 0; k < s->kernel; k++) {
    int64_t at = k * s->dilation;
    taps[count++] = from + at % s->stride * apart + at / s->stride * step;
    if (count < FEW && k + 1 < s->kernel) continue;
    OWN(join)(to, taps, count, fresh, n);
    fresh = false;
    count = 0;
  }
}

#undef FEW

/* The taps across, where a row is not by phases. */
static void OWN(leaps)(const tile *t, const side *x, const T *from, T *to) {
  for (int64_t r = 0; r < t->rows; r++, from += t->wide, to += t->wide)
    for (int64_t i = 0; i < t->columns; i++) {
      T s = from[i * x->stride];
      for (int64_t k = 1; k < x->kernel; k++) {
        const T next = from[i * x->stride + k * x->dilation];
        s = JOIN(s, next);
      }
      to[i] = s;
    }
}

static void OWN(results)(const tile *t, const T *from, int64_t pitch,
                         const double *parts) {
  const pool_work *work = t->work;
  const side x = side_of(&work->w, 1);
  S *to = (S *)work->y + result_at(t);
  (void)parts;
  /* rows that lie one behind the other are one, where all are of as many taps */
  bool is_one =
      pitch == x.out && t->columns == x.out && (KIND != 1 || has_one_count(t));
  int64_t rows = is_one ? 1 : t->rows;
  int64_t columns = is_one ? t->rows * x.out : t->columns;
  for (int64_t r = 0; r < rows; r++, from += pitch, to += x.out) {
#if KIND == 1
    const double of = PART(taps_of_row(t, t->row + r));
    for (int64_t i = 0; i < columns; i++) {
      const double part = of * parts[is_one ? 0 : i];
      to[i] =
          STORE(sizeof(S) < sizeof(double) ? from[i] * part : from[i] / part);
    }
#elif KIND == 2
    for (int64_t i = 0; i < columns; i++)
      to[i] = STORE(ROOT(from[i]));
#else
    for (int64_t i = 0; i < columns; i++)
      to[i] = STORE(from[i]);
#endif
  }
}

static void OWN(tile)(const tile *t, T *image, const double *parts) {
  const pool_work *work = t->work;
  const window *w = &work->w;
  const side y = side_of(w, 2), x = side_of(w, 1);
  int64_t size = t->high * t->wide, n = t->rows * t->wide;
  int64_t phases = phases_of(&x), pitch = t->wide / phases;
  T *joined = image + y.stride * size, *split = joined + n, *across = split + n;
  bool fresh = true;
  for (int64_t k = 0, taps = outer_taps(w); k < taps; k++) {
    int64_t plane = outer_plane(t, k);
    if (plane < 0) continue;
    OWN(image)(t, (const S *)work->x + plane * y.in * x.in, image);
    if (taps == 1 && y.kernel == 1) /* as it is */
      joined = image;
    else
      OWN(taps)(&y, image, size, t->wide, joined, fresh, n);
    fresh = false;
  }
  for (int64_t i = 0; fresh && i < n; i++)
    joined[i] = NONE;
  if (phases == x.stride) {
    if (phases > 1) OWN(split)(joined, phases, n / phases, split);
    OWN(taps)
    (&x, phases > 1 ? split : joined, n / phases, 1, across, true,
     n / phases - (pitch - t->columns));
  } else {
    OWN(leaps)(t, &x, joined, across);
  }
  OWN(results)(t, across, pitch, parts);
}

static void JOINED(JOINED(POOL, _), TYPE)(void *context, int64_t begin,
                                          int64_t end) {
  const pool_work *work = context;
  const side x = side_of(&work->w, 1);
  const tile first = tile_at(work, 0); /* none is larger */
  bool all = x.out <=
             COLUMNS_COUNTED; /* columns are counted once, not for each tile */
  int64_t counted = KIND != 1 ? 0 : all ? x.out : work->wide;
  double *parts = malloc((size_t)(counted + 1) * sizeof *parts +
                         tile_size(&first) * sizeof(T));
  T *room = parts ? (T *)(void *)(parts + counted + 1) : NULL;
  for (int64_t c = 0; room && all && c < counted; c++)
    parts[c] = PART(taps_of(work, &x, c));
  for (int64_t i = begin; i < end; i++) {
    tile t = tile_at(work, i);
    if (!room) {
      int64_t row = result_at(&t);
      for (int64_t r = 0; r < t.rows; r++, row += x.out)
        work->plain(context, row, row + t.columns);
      continue;
    }
    for (int64_t c = 0; !all && c < cpu_least(counted, t.columns); c++)
      parts[c] = PART(taps_of(work, &x, t.column + c));
    OWN(tile)(&t, room, parts + (all && KIND == 1 ? t.column : 0));
  }
  free(parts);
}
#undef PART
#undef OWN
