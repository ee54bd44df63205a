/* int8_amx.c - products of bytes by AMX: multiply4 of int8.h on x86's tile registers.
 *
 * An instruction adds a 16 x 64 tile of A times a 64 x 16 tile of B to 16 x 16 sums of 32
 * bits. Two by two tiles of C stay in registers 0 to 3 while k passes; 4 and 5 hold A, 6 and 7
 * B, so that each load serves two products:
 *
 *          6  7
 *       4  0  1
 *       5  2  3
 *
 * A tile of B is half a panel of int8.c as it lies: 16 rows of 16 quads, QUAD bytes apart.
 * Operands are filled up to 64 bytes of k, A with zeros. Fewer rows than FEW go by VNNI. */
#include <immintrin.h>

#include "int8.h"

#define ROWS  16             /* of a tile, and its columns */
#define DEPTH 64             /* bytes of k in a tile */
#define QUAD  (4 * 2 * ROWS) /* bytes of four rows of a panel */
#define FEW   4              /* rows that are not worth a tile */

/* What the processor is told of its tiles: 0 to 3 are C, 4 and 5 A, 6 and 7 B. */
typedef struct shape {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} shape;
_Static_assert(sizeof(shape) == 64, "the processor reads 64 bytes");

/* For up to 32 rows of A. */
static void take_shape(int64_t rows) {
  shape s = {.palette = 1};
  uint8_t low = (uint8_t)(rows < ROWS ? rows : ROWS);
  uint8_t high = (uint8_t)(rows > ROWS ? rows - ROWS : 1);
  const uint8_t counts[] = {low, low, high, high, low, high, ROWS, ROWS};
  for (int i = 0; i < 8; i++) {
    s.bytes[i] = DEPTH;
    s.rows[i] = counts[i];
  }
  _tile_loadconfig(&s);
}

/* A block of C: one or two tiles high and wide. TIMES: the instruction. */
#define BLOCK(name, TIMES)                                                     \
  static void name(bool tall, bool wide, int64_t quads, const uint8_t *a,      \
                   int64_t lead, const uint8_t *b, int32_t *c, int64_t step) { \
    const int64_t line = step * 4, down = ROWS * lead;                         \
    int32_t *below = c + ROWS * step;                                          \
    _tile_loadd(0, c, line);                                                   \
    if (wide) _tile_loadd(1, c + ROWS, line);                                  \
    if (tall) _tile_loadd(2, below, line);                                     \
    if (tall && wide) _tile_loadd(3, below + ROWS, line);                      \
    for (; quads > 0; quads -= ROWS, a += DEPTH, b += ROWS * QUAD) {           \
      _tile_loadd(6, b, QUAD);                                                 \
      _tile_loadd(4, a, lead);                                                 \
      TIMES(0, 4, 6);                                                          \
      if (wide) {                                                              \
        _tile_loadd(7, b + DEPTH, QUAD);                                       \
        TIMES(1, 4, 7);                                                        \
      }                                                                        \
      if (!tall) continue;                                                     \
      _tile_loadd(5, a + down, lead);                                          \
      TIMES(2, 5, 6);                                                          \
      if (wide) TIMES(3, 5, 7);                                                \
    }                                                                          \
    _tile_stored(0, c, line);                                                  \
    if (wide) _tile_stored(1, c + ROWS, line);                                 \
    if (tall) _tile_stored(2, below, line);                                    \
    if (tall && wide) _tile_stored(3, below + ROWS, line);                     \
  }
BLOCK(by_signed, _tile_dpbsud)
BLOCK(by_unsigned, _tile_dpbusd)

void cpu_int8_amx_multiply4(int64_t rows, int64_t count, int64_t quads,
                            const void *a, int64_t lead, const void *panel,
                            int32_t *c, int64_t step, bool signed_a) {
  const uint8_t *from = a;
  int64_t shaped = 0;
  if (rows < FEW) {
    cpu_int8_vnni.multiply4(rows, count, quads, a, lead, panel, c, step,
                            signed_a);
    return;
  }
  for (int64_t h; rows > 0; rows -= h, from += h * lead, c += h * step) {
    h = rows < 2 * ROWS ? rows : 2 * ROWS;
    if (h != shaped) take_shape(shaped = h);
    if (signed_a)
      by_signed(h > ROWS, count > ROWS, quads, from, lead, panel, c, step);
    else
      by_unsigned(h > ROWS, count > ROWS, quads, from, lead, panel, c, step);
  }
  _tile_release();
}
