/* tiles_typed.h - tiles.c for elements of type T, called TYPE: micro-kernels, packing, loops.
 *
 *   NAMED(x)     x_f32, x_f64
 *   VEC, HALF    a vector, and its elements; COLUMNS: those of a tile, two vectors
 *   FULL(X)      X(12) X(11) ... X(1): X of each height that a tile has
 *   FEW_ROWS(X)  X(R, P) for each count R of rows that takes P panels of B at once
 *   TILE(R)      defines tile_R_TYPE, the micro-kernel of R rows
 *   TRY(R)       the case that calls tile_R_TYPE
 *   ROUND(v)     v as it is now, in a register: no later sum is contracted with its product
 *   UNROLL       the loop behind it is written out whole (unroll.h); INLINE: is always inlined
 *   ahead, pace  what is prefetched, and how many bytes of it for each element of k */

#define COLUMNS ((int64_t)(2 * VECTOR / sizeof(T)))
#define VEC     NAMED(vector)
#define HALF    (VECTOR / sizeof(T))

typedef T VEC
    __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

/* What a tile is added to: C, or zeros; and where it goes. */
typedef struct NAMED(target) {
  T alpha, beta; /* beta: of what C has */
  T *c;
  int64_t step;      /* from a row of C to the next */
  const char *ahead; /* what comes into the second cache meanwhile */
  int64_t pace;      /* bytes of it for each element of k: at most two lines */
} NAMED(target);

/* A row of a tile, as alpha and beta say. */
INLINE void NAMED(put)(T *c, const VEC *sum, NAMED(target) t) {
  VEC *row = (VEC *)c, *next = (VEC *)(c + HALF);
  VEC low = t.alpha * sum[0], high = t.alpha * sum[1];
  if (t.beta != 0) {
    ROUND(low);
    ROUND(high);
    low += t.beta * *row;
    high += t.beta * *next;
  }
  *row = low;
  *next = high;
}

/* A tile of R rows: a panel of A (k x R), one of B (k rows, `step` apart). Its part of C
 * comes nearer meanwhile: it may lie beyond the second cache.
 * The sums are marked behind the loop, so that what alpha and beta need takes no register inside:
 * gcc puts a half of B's row on the stack for that, and reads it there for each row of A. */
#define TILE(R)                                                           \
  __attribute__((noinline)) static void NAMED(tile_##R)(                  \
      int64_t k, const T *a, const T *b, int64_t step, NAMED(target) t) { \
    VEC sum[R][2];                                                        \
    UNROLL for (int i = 0; i < R; i++) {                                  \
      sum[i][0] = (VEC){0};                                               \
      sum[i][1] = (VEC){0};                                               \
    }                                                                     \
    UNROLL for (int i = 0; i < R; i++) {                                  \
      __builtin_prefetch(t.c + i * t.step, 1, 3);                         \
      __builtin_prefetch(t.c + i * t.step + COLUMNS - 1, 1, 3);           \
    }                                                                     \
    for (int64_t p = 0; p < k; p++, a += R, b += step) {                  \
      const VEC left = *(const VEC *)b, right = *(const VEC *)(b + HALF); \
      __builtin_prefetch(t.ahead + p * t.pace, 0, 2);                     \
      __builtin_prefetch(t.ahead + p * t.pace + 64, 0, 2);                \
      UNROLL for (int i = 0; i < R; i++) {                                \
        sum[i][0] += a[i] * left;                                         \
        sum[i][1] += a[i] * right;                                        \
      }                                                                   \
    }                                                                     \
    UNROLL for (int i = 0; i < R; i++) {                                  \
      ROUND(sum[i][0]);                                                   \
      ROUND(sum[i][1]);                                                   \
    }                                                                     \
    UNROLL for (int i = 0; i < R; i++)                                    \
        NAMED(put)(t.c + i * t.step, sum[i], t);                          \
  }
FULL(TILE)
#undef TILE

/* A tile of ROWS rows by rows of A where they lie, `lead` apart: an address has a row, one or two of
 * those steps, and a number. It has `vectors` (1 or 2) of its columns: C may have no more. */
#define THIRDS  ((ROWS + 2) / 3)
#define AT_ONCE 4 /* elements of k */
INLINE void NAMED(sum_straight)(const T *const *rows, int64_t lead, const T *b,
                                const char *ahead, VEC (*sum)[2], const int p,
                                const int vectors) {
  const VEC left = *(const VEC *)b;
  const VEC right = vectors > 1 ? *(const VEC *)(b + HALF) : left;
  __builtin_prefetch(ahead, 0, 2);
  __builtin_prefetch(ahead + 64, 0, 2);
  UNROLL for (int i = 0; i < ROWS; i++) {
    const T *at = rows[i / 3] + p;
    const T a = i % 3 == 0 ? at[0] : i % 3 == 1 ? at[lead] : at[2 * lead];
    sum[i][0] += a * left;
    if (vectors > 1) sum[i][1] += a * right;
  }
}

INLINE void NAMED(straight_of)(int64_t k, const T *a, int64_t lead, const T *b,
                               NAMED(target) t, const int vectors) {
  VEC sum[ROWS][2];
  const T *rows[THIRDS];
  int64_t p = 0;
  UNROLL for (int i = 0; i < THIRDS; i++) rows[i] = a + 3 * i * lead;
  UNROLL for (int i = 0; i < ROWS; i++) {
    sum[i][0] = (VEC){0};
    sum[i][1] = (VEC){0};
    __builtin_prefetch(t.c + i * t.step, 1, 3);
    __builtin_prefetch(t.c + i * t.step + COLUMNS - 1, 1, 3);
  }
  for (; p + AT_ONCE <= k; p += AT_ONCE, b += AT_ONCE * COLUMNS) {
    UNROLL for (int i = 0; i < AT_ONCE; i++)
        NAMED(sum_straight)(rows, lead, b + i * COLUMNS,
                            t.ahead + (p + i) * t.pace, sum, i, vectors);
    UNROLL for (int i = 0; i < THIRDS; i++) rows[i] += AT_ONCE;
  }
  for (; p < k; p++, b += COLUMNS) {
    NAMED(sum_straight)(rows, lead, b, t.ahead + p * t.pace, sum, 0, vectors);
    UNROLL for (int i = 0; i < THIRDS; i++) rows[i]++;
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    ROUND(sum[i][0]);
    if (vectors > 1) ROUND(sum[i][1]);
  }
  UNROLL for (int i = 0; i < ROWS; i++) NAMED(put)(t.c + i * t.step, sum[i], t);
}

__attribute__((noinline)) static void NAMED(straight)(int64_t k, const T *a,
                                                      int64_t lead, const T *b,
                                                      NAMED(target) t) {
  NAMED(straight_of)(k, a, lead, b, t, 2);
}

__attribute__((noinline)) static void NAMED(straight_half)(
    int64_t k, const T *a, int64_t lead, const T *b, NAMED(target) t) {
  NAMED(straight_of)(k, a, lead, b, t, 1);
}

/* The height of the panel that begins where `rows` are left: the tallest, unless one of few rows
 * would be left, whose sums wait for each other. */
static int64_t NAMED(height)(int64_t rows) {
  if (rows >= ROWS + 4 || rows == ROWS) return ROWS;
  return rows > ROWS ? (rows + 1) / 2 : rows;
}

/* A tile of that height. */
static void NAMED(tile)(int64_t h, int64_t k, const T *a, const T *b,
                        int64_t step, NAMED(target) t) {
#define TRY(R)                         \
  case R:                              \
    NAMED(tile_##R)(k, a, b, step, t); \
    break;
  switch (h) {
    FULL(TRY)
    default:
      break;
  }
#undef TRY
}

/* to[p * width + r] = from[r * step + p] for r < count and p < k. */
static void NAMED(turn)(const T *from, int64_t step, int64_t count, int64_t k,
                        T *to, int64_t width) {
  int64_t r = 0;
#ifdef TURN_MORE
  for (; r + 8 <= count; r += 8) {
    int64_t p = 0;
    for (; p + 8 <= k; p += 8)
      TURN_MORE(from + r * step + p, step, to + p * width + r, width);
    for (; p < k; p++)
      for (int64_t i = r; i < r + 8; i++)
        to[p * width + i] = from[i * step + p];
  }
#endif
#ifdef TURN
  for (; r + SQUARE <= count; r += SQUARE) {
    int64_t p = 0;
    for (; p + SQUARE <= k; p += SQUARE)
      TURN(from + r * step + p, step, to + p * width + r, width);
    for (; p < k; p++)
      for (int64_t i = r; i < r + SQUARE; i++)
        to[p * width + i] = from[i * step + p];
  }
#endif
  for (; r < count; r++)
    for (int64_t p = 0; p < k; p++)
      to[p * width + r] = from[r * step + p];
}

static void NAMED(pack_a)(const cpu_gemm *g, int64_t row, int64_t rows,
                          int64_t from, int64_t k, T *to) {
  const T *a = g->a;
  for (int64_t i = 0, h; i < rows; i += h, to += h * k) {
    h = NAMED(height)(rows - i);
    if (g->trans_a && h == ROWS) /* a copy whose size is known is no call */
      for (int64_t p = 0; p < k; p++)
        memcpy(to + p * ROWS, a + (from + p) * g->lda + row + i,
               ROWS * sizeof(T));
    else if (g->trans_a)
      for (int64_t p = 0; p < k; p++)
        memcpy(to + p * h, a + (from + p) * g->lda + row + i,
               (size_t)h * sizeof(T));
    else
      NAMED(turn)(a + (row + i) * g->lda + from, g->lda, h, k, to, h);
  }
}

/* One panel: columns [column, column + count). */
static void NAMED(pack_b)(const cpu_gemm *g, int64_t column, int64_t count,
                          int64_t from, int64_t k, T *to) {
  const T *b = g->b;
  if (count < COLUMNS) memset(to, 0, (size_t)(k * COLUMNS) * sizeof(T));
  if (g->trans_b)
    NAMED(turn)(b + column * g->ldb + from, g->ldb, count, k, to, COLUMNS);
  else if (count == COLUMNS)
    for (int64_t p = 0; p < k; p++)
      memcpy(to + p * COLUMNS, b + (from + p) * g->ldb + column,
             (size_t)COLUMNS * sizeof(T));
  else
    for (int64_t p = 0; p < k; p++)
      memcpy(to + p * COLUMNS, b + (from + p) * g->ldb + column,
             (size_t)count * sizeof(T));
}

/* Memory for a whole tile at the right edge, with the elements of C. */
INLINE NAMED(target)
    NAMED(edge_begin)(T *room, int64_t rows, int64_t count, NAMED(target) t) {
  memset(room, 0, (size_t)(ROWS * COLUMNS) * sizeof(T));
  for (int64_t i = 0; i < rows && t.beta != 0; i++)
    memcpy(room + i * COLUMNS, t.c + i * t.step, (size_t)count * sizeof(T));
  return (NAMED(target)){t.alpha, t.beta, room, COLUMNS, t.ahead, t.pace};
}

INLINE void NAMED(edge_end)(const T *room, int64_t rows, int64_t count,
                            NAMED(target) t) {
  for (int64_t i = 0; i < rows; i++)
    memcpy(t.c + i * t.step, room + i * COLUMNS, (size_t)count * sizeof(T));
}

/* A tile at the right edge, by way of a whole one. */
static void NAMED(edge)(int64_t h, int64_t count, int64_t k, const T *a,
                        const T *b, NAMED(target) t) {
  T room[ROWS * 2 * VECTOR / sizeof(T)];
  NAMED(tile)(h, k, a, b, COLUMNS, NAMED(edge_begin)(room, h, count, t));
  NAMED(edge_end)(room, h, count, t);
}

/* The same by rows of A where they lie. */
static void NAMED(edge_straight)(int64_t count, int64_t k, const T *a,
                                 int64_t lead, const T *b, NAMED(target) t) {
  T room[ROWS * 2 * VECTOR / sizeof(T)];
  NAMED(target) whole = NAMED(edge_begin)(room, ROWS, count, t);
  if (count <= (int64_t)HALF)
    NAMED(straight_half)(k, a, lead, b, whole);
  else
    NAMED(straight)(k, a, lead, b, whole);
  NAMED(edge_end)(room, ROWS, count, t);
}

/* Rows [row, row + rows) of C by panels of A and one of B. Its tiles bring the next panel
 * nearer, a part each. */
static void NAMED(strip)(int64_t rows, int64_t count, int64_t k, const T *a,
                         const T *b, int64_t step, NAMED(target) t) {
  int64_t tiles = (rows + ROWS - 1) / ROWS;
  t.pace = (2 * VECTOR + tiles - 1) / tiles;
  for (int64_t i = 0, h; i < rows; i += h, a += h * k, t.c += h * t.step) {
    h = NAMED(height)(rows - i);
    if (count < COLUMNS)
      NAMED(edge)(h, count, k, a, b, t);
    else
      NAMED(tile)(h, k, a, b, step, t);
    t.ahead += k * t.pace;
  }
}

/* The same of whole tiles by rows of A where they lie. */
static void NAMED(strip_straight)(int64_t rows, int64_t count, int64_t k,
                                  const T *a, int64_t lead, const T *b,
                                  NAMED(target) t) {
  t.pace = (2 * VECTOR * ROWS + rows - 1) / rows;
  for (int64_t i = 0; i < rows; i += ROWS, a += ROWS * lead) {
    if (count < COLUMNS)
      NAMED(edge_straight)(count, k, a, lead, b, t);
    else
      NAMED(straight)(k, a, lead, b, t);
    t.c += ROWS * t.step;
    t.ahead += k * t.pace;
  }
}

/* Whether A is read where it lies: C has too few columns for a copy. Where all rows begin in one set
 * of the first cache, that must hold a line of each row. */
static bool NAMED(is_straight)(const cpu_gemm *g, bool direct) {
  const int64_t most = g->panels ? 8 * COLUMNS : direct ? 0 : COLUMNS - 1;
  const bool one_set = g->lda * sizeof(T) % 4096 == 0;
  return !g->trans_a && g->n <= most &&
         (!one_set || (g->n <= (int64_t)HALF && near_ways() > ROWS - 1));
}

/* Columns of C after which a block of rows is finished, while it is in the second cache. */
#define NEAR_COLUMNS 256

/* R rows of C by P panels at once: alone, a panel's sums would wait for each other, and for B, of
 * which each element serves few. Each element is summed as by any other tile. */
#define NEAR_AHEAD (8 * COLUMNS) /* elements that come into the first cache */
#define FEW(R, P)                                                             \
  __attribute__((noinline)) static void NAMED(few_##R)(                       \
      int64_t k, const T *a, const T *b, int64_t step, NAMED(target) t) {     \
    VEC sum[R][2 * P];                                                        \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < 2 * P; j++) \
        sum[i][j] = (VEC){0};                                                 \
    for (int64_t p = 0; p < k; p++, a += R, b += COLUMNS) {                   \
      VEC row[2 * P];                                                         \
      UNROLL for (int j = 0; j < 2 * P; j++) {                                \
        const T *at = b + j / 2 * step + j % 2 * HALF;                        \
        __builtin_prefetch(at + NEAR_AHEAD, 0, 3);                            \
        row[j] = *(const VEC *)at;                                            \
      }                                                                       \
      UNROLL for (int i = 0; i < R; i++)                                      \
          UNROLL for (int j = 0; j < 2 * P; j++) sum[i][j] += a[i] * row[j];  \
    }                                                                         \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < 2 * P; j++) \
        ROUND(sum[i][j]);                                                     \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < P; j++)     \
        NAMED(put)(t.c + i * t.step + j * COLUMNS, sum[i] + 2 * j, t);        \
  }
FEW_ROWS(FEW)
#undef FEW

/* The first columns of a few rows of C; returns how many. */
static int64_t NAMED(columns_few)(int64_t rows, int64_t columns, int64_t k,
                                  const T *a, const T *b, int64_t step,
                                  NAMED(target) t) {
  int64_t j = 0;
#define TRY(R, P)                                                         \
  case R:                                                                 \
    for (; columns - j >= P * COLUMNS; j += P * COLUMNS, b += P * step) { \
      NAMED(few_##R)(k, a, b, step, t);                                   \
      t.c += P * COLUMNS;                                                 \
    }                                                                     \
    break;
  switch (rows) {
    FEW_ROWS(TRY)
    default:
      break;
  }
#undef TRY
  return j;
}

/* Rows of a block of A: as few blocks as there can be, for each reads B again, of one
 * height. */
static int64_t NAMED(tall)(int64_t m) {
  int64_t blocks = (m + TALL - 1) / TALL;
  return (m + blocks * ROWS - 1) / (blocks * ROWS) * ROWS;
}

/* All of C for columns [column, column + columns) and `k` elements from `from` on. */
static void NAMED(block)(const cpu_gemm *g, int64_t column, int64_t columns,
                         int64_t from, int64_t k, T *packed_b, T *packed_a) {
  /* B is read where it lies if hardly anything reads it twice */
  bool direct = !g->panels && !g->trans_b && g->m <= 2 * ROWS;
  for (int64_t j = 0; j < columns && !g->panels; j += COLUMNS) {
    int64_t count = columns - j < COLUMNS ? columns - j : COLUMNS;
    if (!direct || count < COLUMNS)
      NAMED(pack_b)(g, column + j, count, from, k, packed_b + j * k);
  }
  const T *panels =
      g->panels ? (const T *)g->panels + column * g->k + from * COLUMNS : NULL;
  NAMED(target) t = {(T)g->alpha, from ? 1 : (T)g->beta, NULL, g->ldc, NULL, 0};
  const int64_t tall = NAMED(tall)(g->m);
  const bool last = from + k == g->k;
  for (int64_t i = 0; i < g->m; i += tall) {
    int64_t rows = g->m - i < tall ? g->m - i : tall;
    T *first = (T *)g->c + i * g->ldc + column;
    const int64_t whole =
        NAMED(is_straight)(g, direct) ? rows / ROWS * ROWS : 0;
    NAMED(pack_a)(g, i + whole, rows - whole, from, k, packed_a);
    int64_t j = 0, done = 0; /* columns, and those that are finished */
    t.c = first;
    if (panels && !whole)
      j = NAMED(columns_few)(rows, columns, k, packed_a, panels, COLUMNS * g->k,
                             t);
    for (; j < columns; j += COLUMNS) {
      int64_t count = columns - j < COLUMNS ? columns - j : COLUMNS;
      bool there = direct && count == COLUMNS;
      const T *b = panels  ? panels + j * g->k
                   : there ? (const T *)g->b + from * g->ldb + column + j
                           : packed_b + j * k;
      t.c = (T *)g->c + i * g->ldc + column + j;
      t.ahead = (const char *)(b + (panels ? COLUMNS * g->k : COLUMNS * k));
      if (whole) NAMED(strip_straight)
      (whole, count, k, (const T *)g->a + i * g->lda + from, g->lda, b, t);
      t.c += whole * t.step;
      if (whole < rows) NAMED(strip)
      (rows - whole, count, k, packed_a, b, there ? g->ldb : COLUMNS, t);
      if (g->finish && last && j + count - done >= NEAR_COLUMNS) {
        cpu_gemm_finish(g->finish, (void *)(first + done), rows,
                        j + count - done);
        done = j + count;
      }
    }
    if (g->finish && last && columns > done)
      cpu_gemm_finish(g->finish, (void *)(first + done), rows, columns - done);
  }
}

/* As many rows at once as have room on the stack: where there is no memory. */
#define ROWS_NEAR ((int64_t)(NEAR / sizeof(T) / DEEP_PANELS))
static bool NAMED(product)(const cpu_gemm *g);
static bool NAMED(in_bits)(const cpu_gemm *g) {
  for (int64_t i = 0; i < g->m; i += ROWS_NEAR) {
    cpu_gemm few = *g;
    few.m = g->m - i < ROWS_NEAR ? g->m - i : ROWS_NEAR;
    few.a = (const T *)g->a + (g->trans_a ? i : i * g->lda);
    few.c = (T *)g->c + i * g->ldc;
    if (!NAMED(product)(&few)) return false;
  }
  return true;
}

static bool NAMED(dots)(const cpu_gemm *g);
static bool NAMED(product)(const cpu_gemm *g) {
  if (NAMED(dots)(g)) {
    if (g->finish) cpu_gemm_finish(g->finish, g->c, g->m, g->n);
    return true;
  }
  int64_t most = DEEP;
  if (g->panels) most = DEEP_PANELS;
  int64_t deep = g->k < most ? g->k : most, tall = NAMED(tall)(g->m);
  tall = g->m < tall ? g->m : tall;
  int64_t wide = g->panels     ? 0
                 : g->n < WIDE ? (g->n + COLUMNS - 1) / COLUMNS * COLUMNS
                               : WIDE;
  T near[NEAR / sizeof(T)], *room = near; /* small ones go without malloc */
  if ((wide + tall) * deep > (int64_t)(NEAR / sizeof(T)))
    room = malloc((size_t)((wide + tall) * deep) * sizeof(T));
  if (!room) return g->panels && g->m > ROWS_NEAR && NAMED(in_bits)(g);
  for (int64_t from = 0; from < g->k; from += deep)
    for (int64_t column = 0; column < g->n; column += WIDE)
      NAMED(block)
  (g, column, g->n - column < WIDE ? g->n - column : WIDE, from,
   g->k - from < deep ? g->k - from : deep, room, room + wide * deep);
  if (room != near) free(room);
  return true;
}

/* ---- vectors ----------------------------------------------------------------- */

#define SUMS 4 /* vectors: enough to hide the latency of one */

/* The sum of x[i] * y[i] for i < k, by one order for all. */
static inline T NAMED(dot)(const T *x, const T *y, int64_t k) {
  VEC sum[SUMS];
  T left[2][HALF] = {{0}}, lanes[HALF];
  int64_t i = 0;
  UNROLL for (int j = 0; j < SUMS; j++) sum[j] = (VEC){0};
  for (; i + (int64_t)(SUMS * HALF) <= k; i += SUMS * HALF)
    UNROLL for (int j = 0; j < SUMS; j++) sum[j] +=
        *(const VEC *)(x + i + j * HALF) * *(const VEC *)(y + i + j * HALF);
  for (; i + (int64_t)HALF <= k; i += HALF)
    sum[0] += *(const VEC *)(x + i) * *(const VEC *)(y + i);
  if (i < k) {
    memcpy(left[0], x + i, (size_t)(k - i) * sizeof(T));
    memcpy(left[1], y + i, (size_t)(k - i) * sizeof(T));
    sum[1] += *(const VEC *)left[0] * *(const VEC *)left[1];
  }
  *(VEC *)lanes = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  for (size_t w = HALF / 2; w > 0; w /= 2)
    for (size_t j = 0; j < w; j++)
      lanes[j] += lanes[j + w];
  return lanes[0];
}

/* A product with a vector on one side, if both sides are packed along k: it reads the matrix
 * once, where it lies. False: it is none. */
static bool NAMED(dots)(const cpu_gemm *g) {
  bool row = g->m == 1 && g->trans_b && (!g->trans_a || g->lda == 1);
  bool column = g->n == 1 && !g->trans_a && (g->trans_b || g->ldb == 1);
  if (!g->vector || g->panels || (!row && !column)) return false;
  const T *x = row ? g->a : g->b, *matrix = row ? g->b : g->a;
  int64_t count = row ? g->n : g->m, step = row ? g->ldb : g->lda;
  int64_t apart = row ? 1 : g->ldc;
  for (int64_t i = 0; i < count; i++) {
    T *c = (T *)g->c + i * apart;
    T value = (T)g->alpha * NAMED(dot)(x, matrix + i * step, g->k);
    ROUND(value);
    *c = g->beta == 0 ? value : value + (T)g->beta * *c;
  }
  return true;
}
#undef SUMS

/* All of op(B). */
static inline void NAMED(pack)(const cpu_gemm *g, T *to) {
  for (int64_t j = 0; j < g->n; j += COLUMNS) {
    int64_t count = g->n - j < COLUMNS ? g->n - j : COLUMNS;
    NAMED(pack_b)(g, j, count, 0, g->k, to + j * g->k);
  }
}

#undef ROWS_NEAR
#undef NEAR_AHEAD
#undef NEAR_COLUMNS
#undef COLUMNS
#undef VEC
#undef HALF
