/* int8_narrow.c - constant operands as signed bytes less their zero points, in quads (int8.c).
 *
 * The sum of each row or column is kept, for the other operand's zero point. VNNI takes all
 * bytes. Before it, maddubs adds a pair of products in 16 bits and saturates: 255 * 128 fits,
 * 255 * (100 + 100) does not. Such a pair of weights is split, its rest in a quad of its own:
 *
 *     (100, 100) = (100, 28) + (0, 72)
 *
 * A line, a row of A or a panel of B, lists its quads that have rests; they are multiplied
 * once more by themselves, so that sums stay exact. Too many of them (1 quad in 8 of panels, in
 * 32 of rows), or weights that are not bytes less their zero point, are widened instead. */
#include "int8.h"

/* Rows of a tile must not all lie in one set of the first cache. */
int64_t cpu_int8_lead4(int64_t k) {
  int64_t lead = cpu_up(k, k < 128 ? cpu_int8_get()->depth : 64);
  return lead && lead % 512 == 0 ? lead + 64 : lead;
}

int64_t cpu_int8_panel4(int64_t k) {
  return cpu_up(k, cpu_int8_get()->depth) * cpu_int8_get()->columns;
}

void cpu_int8_narrow_drop(cpu_int8_narrow *narrow) {
  if (!narrow) return;
  free(narrow->bytes);
  free(narrow->sums);
  free(narrow->first);
  free(narrow->quads);
  free(narrow->more);
  free(narrow);
}

/* What is being made: lines are rows, or panels of columns. */
typedef struct making {
  cpu_int8_narrow *narrow;
  const cpu_int8_bytes *from;
  bool rows;
  int64_t n, k, width, size; /* width: of a line; size: its bytes */
  int64_t count, room;       /* rests */
} making;

/* Element p of k in row or column `at`, less its zero point; 0 behind the last ones. */
static int int8_narrow_element(const making *m, int64_t at, int64_t p) {
  const cpu_int8_bytes *from = m->from;
  if (p >= m->k || at >= m->n) return 0;
  int64_t i = m->rows ? at * from->step + p : p * from->step + at;
  return (from->data[i] ^ from->flip) -
         from->zeros[from->zero_count > 1 ? at : 0];
}

/* Four rows of a line; its rest goes to `rest`. False: it does not fit bytes. */
static bool make_quad(making *m, int64_t line, int64_t quad, int8_t *rest,
                      bool *out_any) {
  int8_t *to = m->narrow->bytes + line * m->size + quad * m->width * 4;
  for (int64_t c = 0; c < m->width; c++, to += 4, rest += 4) {
    int w[4];
    for (int i = 0; i < 4; i++) {
      w[i] = int8_narrow_element(m, line * m->width + c, quad * 4 + i);
      if (w[i] < -128 || w[i] > 127) return false;
      m->narrow->sums[line * m->width + c] += w[i];
    }
    if (cpu_int8_get()->any_pairs) {
      for (int i = 0; i < 4; i++)
        to[i] = (int8_t)w[i];
      continue;
    }
    cpu_int8_split(w[0], w[1], to, rest);
    cpu_int8_split(w[2], w[3], to + 2, rest + 2);
    *out_any |= rest[1] || rest[3];
  }
  return true;
}

static bool keep_rest(making *m, int64_t quad, const int8_t *rest) {
  cpu_int8_narrow *narrow = m->narrow;
  size_t size = (size_t)m->width * 4;
  if (m->count == m->room) {
    m->room = 2 * m->room + 16;
    int32_t *quads =
        realloc(narrow->quads, (size_t)m->room * sizeof *narrow->quads);
    if (quads) narrow->quads = quads;
    int8_t *more = realloc(narrow->more, (size_t)m->room * size);
    if (more) narrow->more = more;
    if (!quads || !more) return false;
  }
  narrow->quads[m->count] = (int32_t)quad;
  memcpy(narrow->more + (size_t)m->count++ * size, rest, size);
  return true;
}

static bool make_lines(making *m, int64_t lines) {
  int64_t quads = (m->k + 3) / 4, most = lines * quads / (m->rows ? 32 : 8);
  for (int64_t line = 0; line < lines; line++) {
    for (int64_t q = 0; q < quads; q++) {
      int8_t rest[CPU_INT8_COLUMNS * 4];
      bool any = false;
      if (!make_quad(m, line, q, rest, &any)) return false;
      if (any && (m->count >= most || !keep_rest(m, q, rest))) return false;
    }
    m->narrow->first[line + 1] = m->count;
  }
  return true;
}

cpu_int8_narrow *cpu_int8_narrow_make(const cpu_int8_bytes *from, bool rows,
                                      int64_t n, int64_t k) {
  const cpu_int8_loops *loops = cpu_int8_get();
  if (!loops->multiply4) return NULL;
  making m = {.narrow = calloc(1, sizeof *m.narrow),
              .from = from,
              .rows = rows,
              .n = n,
              .k = k,
              .width = rows ? 1 : loops->columns,
              .size = rows ? cpu_int8_lead4(k) : cpu_int8_panel4(k)};
  int64_t lines = (n + m.width - 1) / m.width;
  if (!m.narrow) return NULL;
  m.narrow->bytes = aligned_alloc(64, (size_t)cpu_up(lines * m.size + 1, 64));
  m.narrow->sums = calloc((size_t)(lines * m.width + 1), 4);
  m.narrow->first = calloc((size_t)lines + 1, sizeof *m.narrow->first);
  bool made = m.narrow->bytes && m.narrow->sums && m.narrow->first;
  if (made) memset(m.narrow->bytes, 0, (size_t)(lines * m.size));
  if (made && make_lines(&m, lines)) return m.narrow;
  cpu_int8_narrow_drop(m.narrow);
  return NULL;
}
