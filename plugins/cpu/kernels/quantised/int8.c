/* int8.c - matrix products of bytes with zero points, C = (A - za) (B - zb), in 32 bits.
 *
 * Two ways. Wide: both operands less their zero points, as 16 bits; pmaddwd adds products in
 * pairs, and sums need no correction. Narrow: a constant operand as signed bytes less its zero
 * point (int8_narrow.c), the other as unsigned bytes as they are; maddubs, VNNI or AMX add
 * products in quads. Sums then begin with the other's zero point times those of the constant:
 *
 *     sum over k of (a - za) b'  =  sum of a b'  -  za * sum of b'          b' = b - zb
 *
 * i8 is made u8 by flipping the highest bit, which adds 128 to value and zero point alike.
 *
 *     panel, wide    b00 b10 | b01 b11 | ...          each column's k = 0, 1; then k = 2, 3
 *     panel, narrow  b00 b10 b20 b30 | b01 ...        each column's k = 0 to 3; then 4 to 7
 *
 * Loops as in tiles.c: WIDE columns of B are packed, TALL rows of A pass over them, DEEP pairs
 * or quads of k at once; tiles of C stay in registers (int8_loops.c). A constant is packed when
 * the kernel is made. Threads share rows or columns of C, never k. Sums are exact modulo 2^32,
 * in any order; only `requantise` rounds. */
#include "int8.h"

#include "kernels.h"

static const cpu_int8_loops *chosen;

void cpu_int8_choose(void) {
  static cpu_int8_loops tiles;
  chosen = CPU_LOOPS(cpu_int8);
#if defined(KEEL_WITH_VNNI)
  cpu_bytes_isa bytes = cpu_bytes();
  if (bytes >= CPU_BYTES_VNNI)
    chosen = cpu_isa() == 2 ? &cpu_int8_vnni : &cpu_int8_avxvnni;
#if defined(KEEL_WITH_AMX)
  if (bytes == CPU_BYTES_AMX) {
    tiles = cpu_int8_vnni;
    tiles.rows = 32;
    tiles.depth = 64;
    tiles.multiply4 = cpu_int8_amx_multiply4;
    chosen = &tiles;
  }
#endif
#endif
  (void)tiles;
}

const cpu_int8_loops *cpu_int8_get(void) {
  return chosen;
}

/* ---- sizes ------------------------------------------------------------------------- */

#define DEEP   256 /* pairs of k at once: a panel of B stays in the first cache */
#define TALL   192    /* rows of a block of A; whole tiles */
#define WIDE   256    /* columns of a block of B at most */
#define BUDGET 393216 /* bytes of a block of B, unless one panel has more */

/* Rows of a tile must not all lie in one set of the first cache. */
int64_t cpu_int8_lead(int64_t k) {
  int64_t lead = cpu_up(k, k < 128 ? 2 : 32);
  return lead && lead % 512 == 0 ? lead + 32 : lead;
}

static int64_t panel_size(int64_t k) {
  return cpu_up(k, 2) * cpu_int8_get()->columns;
}

cpu_int8_cut cpu_int8_cut_of(int64_t m, int64_t n, int64_t k, int64_t jobs) {
  int64_t panel = cpu_int8_get()->columns;
  int64_t threads = cpu_host->worker_count(cpu_host);
  int64_t pieces = jobs < threads ? (threads + jobs - 1) / jobs : 1;
  cpu_int8_cut cut = {m, cpu_up(n, panel), 1, 1};
  if (pieces == 1 ||
      (double)m * (double)n * (double)k * (double)jobs < CPU_INT8_LITTLE)
    return cut;
  if (m >= n)
    cut.rows = cpu_up((m + pieces - 1) / pieces, cpu_int8_get()->rows);
  else
    cut.columns = cpu_up((n + pieces - 1) / pieces, panel);
  cut.row_pieces = (m + cut.rows - 1) / cut.rows;
  cut.column_pieces = (n + cut.columns - 1) / cut.columns;
  return cut;
}

/* Scratch memory of a piece. */
typedef struct room {
  int32_t *sums;
  int16_t *panels, *rows;
  uint8_t *bytes;
} room;

static void *int8_take(char *memory, int64_t *at, int64_t bytes) {
  void *taken = memory ? memory + *at : NULL;
  *at += cpu_up(bytes, 64);
  return taken;
}

/* Bytes of a panel, and of a row of A, as they are made here. */
static int64_t panel_bytes(const cpu_int8_product *p) {
  return p->narrow_a ? cpu_int8_panel4(p->k) : 2 * panel_size(p->k);
}

static int64_t row_bytes(const cpu_int8_product *p) {
  return p->narrow_b ? cpu_int8_lead4(p->k) : 2 * cpu_int8_lead(p->k);
}

/* Gives out memory, and returns how much; NULL: only that. What is not needed has none. */
static int64_t int8_lay_out(const cpu_int8_product *p, int64_t wide,
                            char *memory, room *out) {
  int64_t at = 0;
  int64_t panels = wide / cpu_int8_get()->columns;
  out->sums = int8_take(memory, &at, TALL * wide * 4);
  bool has_a = p->ready_a || p->narrow_a, has_b = p->ready_b || p->narrow_b;
  out->panels = int8_take(memory, &at, has_b ? 0 : panels * panel_bytes(p));
  out->rows = int8_take(memory, &at, has_a ? 0 : TALL * row_bytes(p));
  out->bytes =
      int8_take(memory, &at, p->columns ? wide * p->k + CPU_INT8_SLACK : 0);
  return at;
}

/* Columns [column, column + n) of B as bytes, rows *out_step apart: where they lie, or gathered
 * into scratch memory. */
static const uint8_t *columns_of(const cpu_int8_product *p, int64_t column,
                                 int64_t n, const room *r, int64_t *out_step) {
  *out_step = p->b.step;
  return p->columns
             ? p->columns(p->context, 0, p->k, column, n, r->bytes, out_step)
             : p->b.data + column;
}

/* Their panels of 16 bits: those of a constant B, or packed into scratch memory. */
static const int16_t *panels_of(const cpu_int8_product *p, int64_t column,
                                int64_t n, const room *r) {
  const cpu_int8_loops *loops = cpu_int8_get();
  int64_t size = panel_size(p->k), step;
  if (p->ready_b) return p->ready_b + column / loops->columns * size;
  const uint8_t *from = columns_of(p, column, n, r, &step);
  for (int64_t c = 0; c < n; c += loops->columns) {
    int64_t count = cpu_least(n - c, loops->columns);
    int16_t zeros[CPU_INT8_COLUMNS];
    for (int64_t i = 0; i < count; i++)
      zeros[i] = (int16_t)p->b.zeros[p->b.zero_count > 1 ? column + c + i : 0];
    loops->pack(from + c, step, p->k, count, p->b.flip, zeros,
                r->panels + c / loops->columns * size);
  }
  return r->panels;
}

/* Their panels of bytes, in quads of k: those of a narrow B, or packed into scratch memory. */
static const uint8_t *quad_panels_of(const cpu_int8_product *p, int64_t column,
                                     int64_t n, const room *r) {
  const cpu_int8_loops *loops = cpu_int8_get();
  int64_t size = cpu_int8_panel4(p->k), first = column / loops->columns, step;
  if (p->narrow_b) return (const uint8_t *)p->narrow_b->bytes + first * size;
  const uint8_t *from = columns_of(p, column, n, r, &step);
  uint8_t *panels = (uint8_t *)r->panels;
  for (int64_t c = 0; c < n; c += loops->columns)
    loops->pack4(from + c, step, p->k, n - c, p->b.flip,
                 panels + c / loops->columns * size);
  return panels;
}

static void widen_rows(const cpu_int8_bytes *a, int64_t row, int64_t rows,
                       int64_t k, int16_t *to) {
  int64_t lead = cpu_int8_lead(k);
  for (int64_t r = 0; r < rows; r++, to += lead) {
    cpu_int8_get()->widen(a->data + (row + r) * a->step, k, a->flip,
                          a->zeros[(row + r) % a->zero_count], to);
    if (k & 1) to[k] = 0;
  }
}

/* Rows [row, row + rows) of C by the panels of columns [column, column + n). */
static void multiply_block(const cpu_int8_product *p, int64_t row, int64_t rows,
                           int64_t column, int64_t n, const int16_t *panels,
                           const room *r, int64_t wide) {
  const cpu_int8_loops *loops = cpu_int8_get();
  int64_t pairs = (p->k + 1) / 2, lead = cpu_int8_lead(p->k);
  const int16_t *a = p->ready_a ? p->ready_a + row * lead : r->rows;
  if (!p->ready_a) widen_rows(&p->a, row, rows, p->k, r->rows);
  int64_t from = 0;
  do {
    for (int64_t c = 0; c < n; c += loops->columns)
      loops->multiply(rows, n - c, cpu_least(pairs - from, DEEP), a + 2 * from,
                      lead,
                      panels + c / loops->columns * panel_size(p->k) +
                          2 * from * loops->columns,
                      r->sums + c, wide, from > 0);
    from += DEEP;
  } while (from < pairs);
  for (int64_t i = 0; i < rows; i++)
    p->give(p->context, row + i, column, n, r->sums + i * wide);
}

/* ---- an operand is narrow ---------------------------------------- */

/* Rows of A, which have room for what follows k: times 0, but no number out of thin air. */
static void copy_rows(const cpu_int8_bytes *a, int64_t row, int64_t rows,
                      int64_t k, uint8_t *to) {
  int64_t lead = cpu_int8_lead4(k);
  for (int64_t r = 0; r < rows; r++, to += lead) {
    const uint8_t *from = a->data + (row + r) * a->step;
    for (int64_t i = 0; i < k; i++)
      to[i] = from[i] ^ a->flip;
    memset(to + k, 0, (size_t)(lead - k));
  }
}

/* What the zero point of the other operand takes off. */
static void begin_sums(const cpu_int8_product *p, int64_t row, int64_t rows,
                       int64_t column, int64_t n, int64_t wide, int32_t *to) {
  const cpu_int8_narrow *narrow = p->narrow_a ? p->narrow_a : p->narrow_b;
  n = cpu_up(n, cpu_int8_get()->columns);
  const int32_t *last = NULL; /* rows of one zero point are alike */
  for (int64_t i = row; i < row + rows; i++, to += wide) {
    uint32_t zero = (uint32_t)(p->narrow_a ? p->b.zeros[0]
                                           : p->a.zeros[i % p->a.zero_count]);
    if (p->narrow_a) {
      const int32_t first =
          (int32_t) - (zero * (uint32_t)narrow->sums[p->first_row + i]);
      for (int64_t c = 0; c < n; c++)
        to[c] = first;
    } else if (last && p->a.zero_count == 1) {
      memcpy(to, last, (size_t)n * sizeof *to);
    } else {
      for (int64_t c = 0; c < n; c++)
        to[c] = (int32_t) - (zero * (uint32_t)narrow->sums[column + c]);
    }
    last = to;
  }
}

/* What did not fit pairs, of one panel of columns. */
static void add_rests(const cpu_int8_product *p, int64_t row, int64_t rows,
                      int64_t column, int64_t n, const uint8_t *a,
                      const uint8_t *panel, int32_t *sums, int64_t wide) {
  const cpu_int8_loops *loops = cpu_int8_get();
  const cpu_int8_narrow *narrow = p->narrow_a ? p->narrow_a : p->narrow_b;
  int64_t quad = 4 * loops->columns, lead = cpu_int8_lead4(p->k);
  if (!narrow->more) return;
  if (p->narrow_b) {
    const int64_t *first = &narrow->first[column / loops->columns];
    for (int64_t i = first[0]; i < first[1]; i++)
      loops->multiply4(rows, n, 1, a + 4 * narrow->quads[i], lead,
                       narrow->more + i * quad, sums, wide, false);
    return;
  }
  for (int64_t r = 0; r < rows; r++, sums += wide) {
    const int64_t *first = &narrow->first[p->first_row + row + r];
    for (int64_t i = first[0]; i < first[1]; i++)
      loops->multiply4(1, n, 1, narrow->more + 4 * i, lead,
                       panel + narrow->quads[i] * quad, sums, wide, true);
  }
}

static void multiply4_block(const cpu_int8_product *p, int64_t row,
                            int64_t rows, int64_t column, int64_t n,
                            const uint8_t *panels, const room *r,
                            int64_t wide) {
  const cpu_int8_loops *loops = cpu_int8_get();
  int64_t quads = (p->k + 3) / 4, lead = cpu_int8_lead4(p->k);
  int64_t size = cpu_int8_panel4(p->k);
  const uint8_t *a = (const uint8_t *)r->rows;
  if (p->narrow_a)
    a = (const uint8_t *)p->narrow_a->bytes + (p->first_row + row) * lead;
  else
    copy_rows(&p->a, row, rows, p->k, (uint8_t *)r->rows);
  begin_sums(p, row, rows, column, n, wide, r->sums);
  for (int64_t from = 0; from < quads; from += DEEP)
    for (int64_t c = 0; c < n; c += loops->columns)
      loops->multiply4(
          rows, n - c, cpu_least(quads - from, DEEP), a + 4 * from, lead,
          panels + c / loops->columns * size + 4 * from * loops->columns,
          r->sums + c, wide, p->narrow_a != NULL);
  for (int64_t c = 0; c < n; c += loops->columns)
    add_rests(p, row, rows, column + c, n - c, a,
              panels + c / loops->columns * size, r->sums + c, wide);
  for (int64_t i = 0; i < rows; i++)
    p->give(p->context, row + i, column, n, r->sums + i * wide);
}

/* ---- one piece ----------------------------------------------------------------------------- */

bool cpu_int8_piece(const cpu_int8_product *p, const cpu_int8_cut *cut,
                    int64_t piece) {
  int64_t panel = cpu_int8_get()->columns;
  int64_t row = piece / cut->column_pieces * cut->rows;
  int64_t column = piece % cut->column_pieces * cut->columns;
  int64_t last_row = cpu_least(row + cut->rows, p->m);
  int64_t last_column = cpu_least(column + cut->columns, p->n);
  int64_t wide = cpu_least(WIDE, cpu_up(last_column - column, panel));
  if (!p->ready_b && !p->narrow_b && p->k * 2 * wide > BUDGET)
    wide = BUDGET / (2 * p->k) > panel ? BUDGET / (2 * p->k) / panel * panel
                                       : panel;
  room r = {0};
  char *memory = aligned_alloc(64, (size_t)int8_lay_out(p, wide, NULL, &r));
  if (!memory) return false;
  int8_lay_out(p, wide, memory, &r);
  for (int64_t c = column; c < last_column; c += wide) {
    int64_t n = cpu_least(last_column - c, wide);
    bool narrow = p->narrow_a || p->narrow_b;
    const uint8_t *quads = narrow ? quad_panels_of(p, c, n, &r) : NULL;
    const int16_t *panels = narrow ? NULL : panels_of(p, c, n, &r);
    for (int64_t i = row; i < last_row; i += TALL)
      if (narrow)
        multiply4_block(p, i, cpu_least(last_row - i, TALL), c, n, quads, &r,
                        wide);
      else
        multiply_block(p, i, cpu_least(last_row - i, TALL), c, n, panels, &r,
                       wide);
  }
  free(memory);
  return true;
}

/* ---- operands that are constants ----------------------------------------------------- */

int16_t *cpu_int8_pack_b(const cpu_int8_bytes *b, int64_t n, int64_t k) {
  int64_t panel = cpu_int8_get()->columns, panels = (n + panel - 1) / panel;
  cpu_int8_product p = {.n = n, .k = k, .b = *b};
  room r = {.panels = aligned_alloc(
                64, (size_t)cpu_up(panels * panel_size(k) * 2 + 1, 64))};
  if (r.panels) panels_of(&p, 0, n, &r);
  return r.panels;
}

int16_t *cpu_int8_widen_a(const cpu_int8_bytes *a, int64_t m, int64_t k) {
  int16_t *rows =
      aligned_alloc(64, (size_t)cpu_up(m * cpu_int8_lead(k) * 2 + 1, 64));
  if (rows) widen_rows(a, 0, m, k, rows);
  return rows;
}

int *cpu_int8_zeros(const kd_tensor *given, kd_dtype dtype,
                    int64_t *out_count) {
  bool there = given && given->data && given->dtype != KD_NONE;
  int64_t count = there ? kd_elements(given) : 1;
  int *zeros = malloc((size_t)(count + 1) * sizeof *zeros);
  *out_count = count;
  for (int64_t i = 0; zeros && i < count; i++)
    zeros[i] = (there ? (int)cpu_get(given->data, given->dtype, i) : 0) +
               cpu_int8_flip(dtype);
  return zeros;
}

bool cpu_int8_constant(const kd_node *node, uint32_t input, uint32_t zero,
                       kd_tensor *out, kd_tensor *out_zero) {
  const kd_node_table *read = cpu_host->node;
  kd_type type;
  *out_zero = (kd_tensor){.dtype = KD_NONE};
  return read->constant(node, input, out) == KD_OK && kd_elements(out) >= 1 &&
         (read->input_type(node, zero, &type) != KD_OK ||
          read->constant(node, zero, out_zero) == KD_OK);
}
