/* int8.h - products of bytes, exact in 32 bits: operands, loops and pieces (int8.c). */
#ifndef KEEL_CPU_INT8_H
#define KEEL_CPU_INT8_H

#include "cpu.h"

/* ---- loops, for one instruction set ----------------------------------------- */

/* A byte means (byte ^ flip) - zero: i8 are flipped by 0x80 and have 128 added to their
 * zero point. Less its zero point a byte fits 16 bits, and so do all factors here: pairs
 * of their products are added in 32 bits without loss. */
typedef struct cpu_int8_loops {
  int64_t columns; /* of a panel */
  int64_t rows;    /* of a tile */
  int64_t depth;   /* bytes of k that narrow operands are filled up to */
  bool any_pairs;  /* multiply4 takes products whose pairs do not fit 16 bits */

  void (*widen)(const uint8_t *from, int64_t n, uint8_t flip, int zero,
                int16_t *to);

  /* The same of n elements of each row, `stride` apart. */
  void (*widen_rows)(const uint8_t *from, int64_t rows, int64_t n,
                     int64_t from_step, int64_t stride, uint8_t flip, int zero,
                     int16_t *to, int64_t to_step);

  /* One panel: rows 0..k of `count` columns, `step` bytes apart, as pairs of rows
   * [k / 2][columns][2], filled up with zeros. zeros: one a column. */
  void (*pack)(const uint8_t *from, int64_t step, int64_t k, int64_t count,
               uint8_t flip, const int16_t *zeros, int16_t *to);

  /* C (rows x count, `step` apart; a panel's columns are written) = or += A times one
   * panel, over `pairs` of k. Rows of A are `lead` apart. */
  void (*multiply)(int64_t rows, int64_t count, int64_t pairs, const int16_t *a,
                   int64_t lead, const int16_t *panel, int32_t *c, int64_t step,
                   bool add);

  /* Bytes as they are, with no zero point: rows of `k` as quads [k / 4][columns][4]. */
  void (*pack4)(const uint8_t *from, int64_t step, int64_t k, int64_t count,
                uint8_t flip, uint8_t *to);

  /* C += A times one panel, over `quads` of k: A's bytes are signed and the panel's are
   * not, or the other way round. Pairs of products must fit 16 bits, unless any_pairs.
   * A and the panel have `depth` bytes at least, A zeros behind k. NULL: there are no such
   * instructions. */
  void (*multiply4)(int64_t rows, int64_t count, int64_t quads, const void *a,
                    int64_t lead, const void *panel, int32_t *c, int64_t step,
                    bool signed_a);

  /* Sums of taps times what lies below them, for rows of n results, one behind the other:
   * tap t of a row sees x + offsets[t], and the next row lies `step` further. Reads and
   * writes up to 16 elements behind the rows. */
  void (*taps)(const int16_t *x, int64_t rows, int64_t step, int64_t n,
               const int64_t *offsets, const int16_t *w, int64_t taps,
               int32_t *sums);

  /* to = saturate(round(scale * (sum + bias)) + zero); scales: `step` apart. */
  void (*requantise)(const int32_t *sums, int64_t n, const float *scale,
                     int64_t step, int32_t bias, int zero, bool is_signed,
                     uint8_t *to);
} cpu_int8_loops;

#define CPU_INT8_COLUMNS 32 /* of a panel, at most */

extern const cpu_int8_loops cpu_int8_base, cpu_int8_avx2, cpu_int8_avx512;
/* those two with instructions that add four products at once: AVX-VNNI, AVX512-VNNI */
extern const cpu_int8_loops cpu_int8_avxvnni, cpu_int8_vnni;

void cpu_int8_amx_multiply4(int64_t rows, int64_t count, int64_t quads,
                            const void *a, int64_t lead, const void *panel,
                            int32_t *c, int64_t step, bool signed_a);

const cpu_int8_loops *cpu_int8_get(void);

/* ---- products ----------------------------------------------------------------- */

/* Bytes of one type as an operand. */
typedef struct cpu_int8_bytes {
  const uint8_t *data;
  uint8_t flip;
  int64_t step;       /* from a row to the next */
  const int *zeros;   /* flipped as the bytes */
  int64_t zero_count; /* 1, or one a row (A) or column (B) */
} cpu_int8_bytes;

/* An operand as signed bytes less its zero points, by lines: rows of A, cpu_int8_lead4(k)
 * bytes apart, or panels of B, cpu_int8_panel4(k). What does not fit pairs comes again:
 * those first[line] to first[line + 1], in place of the bytes of `quads`. */
typedef struct cpu_int8_narrow {
  int8_t *bytes;
  int32_t *sums; /* of each row or column */
  int64_t *first;
  int32_t *quads;
  int8_t *more; /* a quad of a line for each */
} cpu_int8_narrow;

int64_t cpu_int8_lead4(int64_t k);
int64_t cpu_int8_panel4(int64_t k);

/* Rows of A or columns of B, `n` of them; NULL: they don't fit, or no memory. */
cpu_int8_narrow *cpu_int8_narrow_make(const cpu_int8_bytes *from, bool rows,
                                      int64_t n, int64_t k);
void cpu_int8_narrow_drop(cpu_int8_narrow *narrow);

/* a and b as parts whose positive ones, and negative ones, come to 128 at most. */
static inline void cpu_int8_split(int a, int b, int8_t *part, int8_t *rest) {
  int fits = a > 0 && b > 128 - a    ? 128 - a
             : a < 0 && b < -128 - a ? -128 - a
                                     : b;
  part[0] = (int8_t)a;
  part[1] = (int8_t)fits;
  rest[0] = 0;
  rest[1] = (int8_t)(b - fits);
}

/* One row of sums, for the result. */
typedef void (*cpu_int8_give)(const void *context, int64_t row, int64_t column,
                              int64_t n, const int32_t *sums);
/* What columns of B may write behind the last one. */
#define CPU_INT8_SLACK 32
/* Rows [row, row + rows) of columns [column, column + n) of B as bytes, rows `step` apart;
 * `room` is for rows * n. */
typedef const uint8_t *(*cpu_int8_columns)(const void *context, int64_t row,
                                           int64_t rows, int64_t column,
                                           int64_t n, uint8_t *room,
                                           int64_t *out_step);

/* C = A B, (m x k) (k x n). Either operand may be ready: A's rows widened, cpu_int8_lead(k)
 * apart, and B as panels, each of up(k, 2) * columns elements. With a narrow one, the other
 * has one zero point, or one a row of A. */
typedef struct cpu_int8_product {
  int64_t m, n, k;
  cpu_int8_bytes a, b;
  const int16_t *ready_a, *ready_b;
  const cpu_int8_narrow *narrow_a, *narrow_b; /* or as such: one of them */
  int64_t first_row;                          /* of A, in narrow_a */
  cpu_int8_columns columns;                   /* NULL: b.data and b.step say */
  cpu_int8_give give;
  const void *context;
} cpu_int8_product;

int64_t cpu_int8_lead(int64_t k);

/* Products of bytes that are not worth a second thread. */
#define CPU_INT8_LITTLE 1000000

/* Pieces of a product of that size, `jobs` of them at once, for all threads. */
typedef struct cpu_int8_cut {
  int64_t rows, columns; /* of one piece */
  int64_t row_pieces, column_pieces;
} cpu_int8_cut;
cpu_int8_cut cpu_int8_cut_of(int64_t m, int64_t n, int64_t k, int64_t jobs);

/* One piece on the calling thread; false where there is no memory. */
bool cpu_int8_piece(const cpu_int8_product *p, const cpu_int8_cut *cut,
                    int64_t piece);

/* Packs a whole matrix; the caller frees it. NULL: no memory. */
int16_t *cpu_int8_pack_b(const cpu_int8_bytes *b, int64_t n, int64_t k);
int16_t *cpu_int8_widen_a(const cpu_int8_bytes *a, int64_t m, int64_t k);

/* ---- zero points and scales ---------------------------------------------------- */

static inline uint8_t cpu_int8_flip(kd_dtype dtype) {
  return dtype == KD_I8 ? 0x80 : 0;
}

/* The zero points of bytes of type `dtype`, flipped as they are; NULL: no memory. `given`
 * may be NULL or absent: 0. */
int *cpu_int8_zeros(const kd_tensor *given, kd_dtype dtype, int64_t *out_count);

/* An operand that is a constant and is not empty, and its zero points, which are absent or
 * constants, too; false: they are not. */
bool cpu_int8_constant(const kd_node *node, uint32_t input, uint32_t zero,
                       kd_tensor *out, kd_tensor *out_zero);
/* Whether zero points are absent, one, or `count`. */
static inline bool cpu_int8_zeros_fit(const kd_tensor *zero, int64_t count) {
  return zero->dtype == KD_NONE || kd_elements(zero) == 1 ||
         kd_elements(zero) == count;
}

#endif /* KEEL_CPU_INT8_H */
