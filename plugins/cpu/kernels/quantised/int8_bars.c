/* int8_bars.c - products of bytes whose left operand is constant, for AVX2: convolutions.
 *
 * A bar is what BLIS calls a micro-panel of A: 6 rows (4, 2 and 1 at a group's end), step by
 * step of k, a step being a pair of 16 bits or a quad of bytes (int8.c):
 *
 *     row 0, row 1 ... row 5 of step 0 | row 0 ... row 5 of step 1 | ...
 *
 * Loops go the other way round than in tiles.c: a block of columns is packed into panels that
 * stay in the second cache, and each bar passes over all of them. Weights, the larger operand,
 * are so read once for each block, as one stream. The 6 x 16 sums of a bar and a panel are
 * requantised before the next.
 *
 * Threads share rows or columns (cpu_int8_cut_of). Sums are exact; only results round. */
#include "int8_bars.h"

#define WIDE   256    /* columns of a block at most */
#define BUDGET 262144 /* bytes of its panels, unless one has more */
#define DEEP   32     /* rows of columns that are gathered at once */
#define RESTS  5      /* one of so many steps may have a rest */

static const cpu_int8_bar_loops *loops_get(void) {
#if defined(KEEL_WITH_BARS)
  if (cpu_int8_get() == &cpu_int8_avx2) return &cpu_int8_bars_avx2;
#endif
  return NULL;
}

/* The rows of a bar that begins with `left` rows to go. */
static int64_t height(int64_t left) {
  return left >= CPU_BAR_ROWS ? CPU_BAR_ROWS : left >= 4 ? 4 : left < 2 ? 1 : 2;
}

static int64_t bars_of(int64_t m) {
  int64_t left = m % CPU_BAR_ROWS, count = m / CPU_BAR_ROWS;
  for (; left > 0; left -= height(left))
    count++;
  return count;
}

/* The bar of a group that begins with row `row`. */
static int64_t bar_at(int64_t m, int64_t row) {
  int64_t bar = row / CPU_BAR_ROWS, at = bar * CPU_BAR_ROWS;
  for (; at < row; at += height(m - at))
    bar++;
  return bar;
}

/* Bytes of a panel for each row of k. */
static int64_t row_bytes(const cpu_int8_bars *bars) {
  return CPU_BAR_COLUMNS * (bars->narrow ? 1 : 2);
}

/* ---- making them ----------------------------------------------------------------------- */

void cpu_int8_bars_drop(cpu_int8_bars *bars) {
  if (!bars) return;
  free(bars->factors);
  free(bars->sums);
  free(bars->first);
  free(bars->steps_of);
  free(bars->rests);
  free(bars);
}

/* Element p of k of row `row`, less its zero point; 0 behind the last one. */
static int int8_bars_element(const cpu_int8_bytes *from, int64_t row, int64_t k,
                             int64_t p) {
  if (p >= k) return 0;
  return (from->data[row * from->step + p] ^ from->flip) -
         from->zeros[from->zero_count > 1 ? row : 0];
}

static int32_t as_int(const void *bytes) {
  int32_t value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

static void make_wide(cpu_int8_bars *bars, const cpu_int8_bytes *from,
                      int64_t row, int64_t rows, int32_t *to) {
  for (int64_t s = 0; s < bars->steps; s++)
    for (int64_t i = 0; i < rows; i++) {
      const int16_t both[] = {
          (int16_t)int8_bars_element(from, row + i, bars->k, 2 * s),
          (int16_t)int8_bars_element(from, row + i, bars->k, 2 * s + 1)};
      *to++ = as_int(both);
    }
}

/* A step of a row as what fits pairs and a rest; false: it is no bytes. */
static bool int8_bars_split(const cpu_int8_bars *bars,
                            const cpu_int8_bytes *from, int64_t row,
                            int64_t step, int32_t *out_fits,
                            int32_t *out_rest) {
  int w[4];
  int8_t fits[4], rest[4];
  for (int i = 0; i < 4; i++) {
    w[i] = int8_bars_element(from, row, bars->k, 4 * step + i);
    if (w[i] < -128 || w[i] > 127) return false;
    bars->sums[row] += w[i];
  }
  cpu_int8_split(w[0], w[1], fits, rest);
  cpu_int8_split(w[2], w[3], fits + 2, rest + 2);
  *out_fits = as_int(fits);
  *out_rest = as_int(rest);
  return true;
}

/* Bars of bytes; false: they would be slower, or cannot be. */
static bool make_narrow(cpu_int8_bars *bars, const cpu_int8_bytes *from,
                        int64_t bar, int64_t row, int64_t rows, int32_t *to,
                        int64_t most) {
  int64_t counts[CPU_BAR_ROWS] = {0}, begin = bars->first[bar], count = 0;
  for (int64_t s = 0; s < bars->steps; s++)
    for (int64_t i = 0; i < rows; i++) {
      int32_t rest;
      if (!int8_bars_split(bars, from, row + i, s, to++, &rest)) return false;
      if (!rest) continue;
      int64_t at = begin + counts[i]++ * rows + i;
      if (at >= most) return false;
      bars->steps_of[at] = (int32_t)s;
      bars->rests[at] = rest;
      if (counts[i] > count) count = counts[i];
    }
  bars->first[bar + 1] = begin + count * rows;
  return bars->first[bar + 1] <= most;
}

/* Both ways; narrow ones first. */
static bool make_bars(cpu_int8_bars *bars, const cpu_int8_bytes *from,
                      int64_t groups, int64_t most) {
  int64_t bar = 0;
  for (int64_t g = 0; g < groups; g++)
    for (int64_t row = 0, rows; row < bars->m; row += rows, bar++) {
      int64_t at = g * bars->m + row;
      int32_t *to = bars->factors + at * bars->steps;
      rows = height(bars->m - row);
      if (!bars->narrow)
        make_wide(bars, from, at, rows, to);
      else if (!make_narrow(bars, from, bar, at, rows, to, most))
        return false;
    }
  return true;
}

cpu_int8_bars *cpu_int8_bars_make(const cpu_int8_bytes *from, int64_t n,
                                  int64_t group, int64_t k) {
  if (!loops_get() || n % group) return NULL;
  cpu_int8_bars *bars = calloc(1, sizeof *bars);
  if (!bars) return NULL;
  bars->m = n / group;
  bars->k = k;
  bars->per_group = bars_of(bars->m);
  bars->factors =
      aligned_alloc(64, (size_t)cpu_up(n * cpu_up(k, 4) * 2 + 1, 64));
  bars->sums = calloc((size_t)n + 1, sizeof *bars->sums);
  bars->first =
      calloc((size_t)(group * bars->per_group + 1), sizeof *bars->first);
  int64_t most = n * ((k + 3) / 4) / RESTS;
  bars->steps_of = calloc((size_t)most + 1, sizeof *bars->steps_of);
  bars->rests = calloc((size_t)most + 1, sizeof *bars->rests);
  if (!bars->factors || !bars->sums || !bars->first || !bars->steps_of ||
      !bars->rests) {
    cpu_int8_bars_drop(bars);
    return NULL;
  }
  bars->narrow = true;
  bars->steps = (k + 3) / 4;
  if (make_bars(bars, from, group, most)) return bars;
  bars->narrow = false;
  bars->steps = (k + 1) / 2;
  make_bars(bars, from, group, 0);
  return bars;
}

/* ---- a piece ---------------------------------------------------------------------------- */

typedef struct block {
  const cpu_int8_product *p;
  const cpu_int8_bars *bars;
  const cpu_int8_rounding *rounding;
  int64_t column, n;
  uint8_t *panels, *gathered;
  int64_t panel; /* bytes */
  int32_t sums[CPU_BAR_ROWS * CPU_BAR_COLUMNS];
} block;

/* Rows [row, row + rows) of the columns, `step` bytes apart. */
static void pack_rows(const block *b, const uint8_t *from, int64_t step,
                      int64_t row, int64_t rows) {
  const cpu_int8_loops *loops = cpu_int8_get();
  const cpu_int8_product *p = b->p;
  uint8_t *to = b->panels + row * row_bytes(b->bars);
  int16_t zeros[CPU_BAR_COLUMNS];
  for (int i = 0; i < CPU_BAR_COLUMNS; i++)
    zeros[i] = (int16_t)*p->b.zeros;
  for (int64_t c = 0; c < b->n; c += CPU_BAR_COLUMNS, to += b->panel) {
    int64_t count = cpu_least(b->n - c, CPU_BAR_COLUMNS);
    if (b->bars->narrow)
      loops->pack4(from + c, step, rows, count, p->b.flip, to);
    else
      loops->pack(from + c, step, rows, count, p->b.flip, zeros,
                  (int16_t *)(void *)to);
  }
}

static void pack_block(const block *b) {
  const cpu_int8_product *p = b->p;
  for (int64_t row = 0, rows; row < p->k; row += rows) {
    int64_t step = p->b.step;
    rows = p->columns ? cpu_least(p->k - row, DEEP) : p->k;
    const uint8_t *from = p->columns
                              ? p->columns(p->context, row, rows, b->column,
                                           b->n, b->gathered, &step)
                              : p->b.data + b->column;
    pack_rows(b, from, step, row, rows);
  }
}

/* The sums of a bar and a panel, to which `first` of each row is added. */
static void give_sums(block *b, int64_t row, int64_t rows, int64_t column,
                      int64_t n, const int32_t *first) {
  for (int64_t i = 0; i < rows; i++) {
    int32_t *sums = b->sums + i * CPU_BAR_COLUMNS;
    for (int64_t c = 0; c < n; c++)
      sums[c] = (int32_t)((uint32_t)sums[c] + (uint32_t)first[i]);
    b->p->give(b->p->context, row + i, column, n, sums);
  }
}

/* One bar, which begins with row `row` of the product, by all panels. */
static void multiply_bar(block *b, int64_t bar, int64_t row, int64_t rows) {
  const cpu_int8_bar_loops *loops = loops_get();
  const cpu_int8_bars *bars = b->bars;
  const cpu_int8_rounding *r = b->rounding;
  const int64_t of_all = b->p->first_row + row, begin = bars->first[bar];
  const int64_t rests = (bars->first[bar + 1] - begin) / rows;
  const int32_t *a = bars->factors + of_all * bars->steps;
  const uint8_t *panel = b->panels;
  int32_t first[CPU_BAR_ROWS];
  for (int64_t i = 0; i < rows; i++) {
    uint32_t less = (uint32_t)*b->p->b.zeros * (uint32_t)bars->sums[of_all + i];
    uint32_t bias = r && r->bias ? (uint32_t)r->bias[row + i] : 0;
    first[i] = (int32_t)(bias - (bars->narrow ? less : 0));
  }
  for (int64_t c = 0; c < b->n; c += CPU_BAR_COLUMNS, panel += b->panel) {
    int64_t n = cpu_least(b->n - c, CPU_BAR_COLUMNS), column = b->column + c;
    if (bars->narrow)
      loops->narrow(rows, n, bars->steps, a, panel, rests,
                    bars->steps_of + begin, bars->rests + begin, b->sums);
    else
      loops->wide(rows, n, bars->steps, a, panel, b->sums);
    if (r)
      loops->round(b->sums, rows, n, first, r->scales + row, r->zero,
                   r->is_signed, r->to + row * r->step + column, r->step);
    else
      give_sums(b, row, rows, column, n, first);
  }
}

bool cpu_int8_bars_piece(const cpu_int8_product *p, const cpu_int8_bars *bars,
                         const cpu_int8_rounding *rounding,
                         const cpu_int8_cut *cut, int64_t piece) {
  int64_t row = piece / cut->column_pieces * cut->rows;
  int64_t column = piece % cut->column_pieces * cut->columns;
  int64_t last_row = cpu_least(row + cut->rows, p->m);
  int64_t last_column = cpu_least(column + cut->columns, p->n);
  block b = {.p = p,
             .bars = bars,
             .rounding = rounding,
             .panel = cpu_up(p->k, 4) * row_bytes(bars)};
  int64_t panels = cpu_least(WIDE, BUDGET / b.panel * CPU_BAR_COLUMNS);
  int64_t wide =
      cpu_up(cpu_least(last_column - column, panels > 0 ? panels : 1),
             CPU_BAR_COLUMNS);
  int64_t size = wide / CPU_BAR_COLUMNS * b.panel;
  b.panels = aligned_alloc(64, (size_t)(size + cpu_up(wide * DEEP + 64, 64)));
  if (!b.panels) return false;
  b.gathered = b.panels + size;
  for (; column < last_column; column += wide) {
    b.column = column;
    b.n = cpu_least(last_column - column, wide);
    pack_block(&b);
    int64_t group = p->first_row / bars->m * bars->per_group;
    int64_t bar = group + bar_at(bars->m, row);
    for (int64_t at = row, rows; at < last_row; at += rows) {
      rows = height(bars->m - at);
      multiply_bar(&b, bar++, at, rows);
    }
  }
  free(b.panels);
  return true;
}
