/* copy.c - the strided copy, by planes.
 *
 * A plane is two dimensions, the last one being that in which the target lies side by
 * side. Where the source does so in another one, that is the plane's other dimension. */
#include "cpu.h"

#define PASTED(a, b) a##_##b
#define JOINED(a, b) PASTED(a, b)
#define NAMED(name)  JOINED(name, TYPE)

#define EIGHT 8
#define NEAR  256 /* elements of a row that is read again */
#define LONG  64  /* bytes of a row that are worth a call */

typedef struct pair {
  uint64_t low, high;
} pair;

/* Defines square_name: eight by eight elements of type T, transposed. */
#define SQUARE(T, name)                                              \
  static inline void square_##name(T *to, int64_t tj, const T *from, \
                                   int64_t si) {                     \
    for (int64_t j = 0; j < EIGHT; j++)                              \
      for (int64_t i = 0; i < EIGHT; i++)                            \
        to[j * tj + i] = from[j + i * si];                           \
  }
SQUARE(uint8_t, 1)
SQUARE(uint16_t, 2)
SQUARE(uint64_t, 8)
SQUARE(pair, 16)

/* By exchanging rows and columns of four in registers. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define CAN_TURN
#endif
#endif
#ifdef CAN_TURN
#define MIX __builtin_shufflevector
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));

static inline void turn_four(uint32_t *to, int64_t tj, const uint32_t *from,
                             int64_t si) {
  four a = *(const four *)from, b = *(const four *)(from + si);
  four c = *(const four *)(from + 2 * si), d = *(const four *)(from + 3 * si);
  four p = MIX(a, b, 0, 4, 1, 5), q = MIX(a, b, 2, 6, 3, 7);
  four r = MIX(c, d, 0, 4, 1, 5), s = MIX(c, d, 2, 6, 3, 7);
  *(four *)to = MIX(p, r, 0, 1, 4, 5);
  *(four *)(to + tj) = MIX(p, r, 2, 3, 6, 7);
  *(four *)(to + 2 * tj) = MIX(q, s, 0, 1, 4, 5);
  *(four *)(to + 3 * tj) = MIX(q, s, 2, 3, 6, 7);
}

static inline void square_4(uint32_t *to, int64_t tj, const uint32_t *from,
                            int64_t si) {
  for (int64_t j = 0; j < EIGHT; j += 4)
    for (int64_t i = 0; i < EIGHT; i += 4)
      turn_four(to + j * tj + i, tj, from + j + i * si, si);
}
#else
SQUARE(uint32_t, 4)
#endif

#define T    uint8_t
#define TYPE 1
#include "copy_typed.h"
#undef T
#undef TYPE
#define T    uint16_t
#define TYPE 2
#include "copy_typed.h"
#undef T
#undef TYPE
#define T    uint32_t
#define TYPE 4
#include "copy_typed.h"
#undef T
#undef TYPE
#define T    uint64_t
#define TYPE 8
#include "copy_typed.h"
#undef T
#undef TYPE
#define T    pair
#define TYPE 16
#include "copy_typed.h"
#undef T
#undef TYPE

typedef void (*plane_loop)(void *to, int64_t tj, int64_t ti, const void *from,
                           int64_t sj, int64_t si, int64_t m, int64_t n);

static plane_loop loop_of(size_t size) {
  return size == 1   ? plane_1
         : size == 2 ? plane_2
         : size == 4 ? plane_4
         : size == 8 ? plane_8
                     : plane_16;
}

typedef struct copy_work {
  strided outer; /* all but the plane; its last dimension is 1 */
  plane_loop plane;
  int64_t m, n, tj, ti, sj, si;
  int64_t tall, wide, down, across; /* size of a part, and how many there are */
  int64_t size;
  char *to;
  const char *from;
} copy_work;

static void copy_part(const copy_work *w, int64_t part,
                      const int64_t *offsets) {
  int64_t j = part / w->across * w->tall, i = part % w->across * w->wide;
  int64_t m = w->m - j < w->tall ? w->m - j : w->tall;
  int64_t n = w->n - i < w->wide ? w->n - i : w->wide;
  w->plane(w->to + (offsets[0] + j * w->tj + i * w->ti) * w->size, w->tj, w->ti,
           w->from + (offsets[1] + j * w->sj + i * w->si) * w->size, w->sj,
           w->si, m, n);
}

static void copy_parts(void *context, int64_t begin, int64_t end) {
  const copy_work *w = context;
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
  int64_t parts = w->down * w->across, part = begin % parts;
  strided_row(&w->outer, begin / parts, offsets);
  strided_index(&w->outer, begin / parts, index);
  for (int64_t i = begin; i < end; i++) {
    copy_part(w, part, offsets);
    if (++part < parts) continue;
    part = 0;
    strided_next(&w->outer, index, offsets);
  }
}

/* Takes dimension `at` out of the space. */
static void copy_take_out(strided *space, int at, int64_t *dim,
                          int64_t *to_step, int64_t *from_step) {
  *dim = space->dims[at];
  *to_step = space->steps[0][at];
  *from_step = space->steps[1][at];
  space->rank--;
  for (int d = at; d < space->rank; d++) {
    space->dims[d] = space->dims[d + 1];
    space->steps[0][d] = space->steps[0][d + 1];
    space->steps[1][d] = space->steps[1][d + 1];
  }
}

/* A part is some CPU_GRAIN elements, and not less than a square. */
static void copy_cut(copy_work *w) {
  w->wide = w->n < CPU_GRAIN ? w->n : CPU_GRAIN;
  w->tall = CPU_GRAIN / w->wide;
  w->tall = (w->tall + EIGHT - 1) / EIGHT * EIGHT;
  w->tall = w->tall < w->m ? w->tall : w->m;
  w->down = (w->m + w->tall - 1) / w->tall;
  w->across = (w->n + w->wide - 1) / w->wide;
}

void cpu_copy_strided(strided *space, size_t size, void *to, const void *from) {
  if (!strided_count(space)) return;
  strided_simplify(space);
  copy_work w = {.plane = loop_of(size),
                 .m = 1,
                 .size = (int64_t)size,
                 .to = to,
                 .from = from};
  int other = space->rank - 2;
  for (int d = 0; d < space->rank - 1; d++)
    if (space->steps[1][space->rank - 1] != 1 && space->steps[1][d] == 1)
      other = d;
  copy_take_out(space, space->rank - 1, &w.n, &w.ti, &w.si);
  if (other >= 0) copy_take_out(space, other, &w.m, &w.tj, &w.sj);
  w.outer = *space;
  w.outer.dims[w.outer.rank++] = 1;
  copy_cut(&w);
  int64_t parts = w.down * w.across, each = w.tall * w.wide;
  cpu_host->parallel_for(cpu_host, strided_rows(&w.outer) * parts,
                         CPU_GRAIN / each + 1, copy_parts, &w);
}

void cpu_spread(const kd_tensor *from, const kd_tensor *to) {
  int64_t packed[KD_MAX_RANK];
  strided space;
  strided_begin(&space, to->dims, to->rank);
  strided_packed(to->dims, to->rank, packed);
  strided_operand(&space, packed);
  strided_tensor(&space, from);
  cpu_copy_strided(&space, kd_dtype_size(to->dtype), to->data, from->data);
}

kd_status cpu_pack_input(const kd_launch *launch, uint32_t input, kd_tensor *in,
                         void **out_memory) {
  *out_memory = cpu_host->allocate(cpu_host, in->size + 1, 0);
  if (!*out_memory)
    return FAIL(KD_OUT_OF_MEMORY, "no %llu bytes to pack input %u of %s",
                (unsigned long long)in->size, input,
                cpu_host->node->op(launch->node));
  in->strides = NULL;
  in->data = *out_memory;
  cpu_spread(&launch->inputs[input], in);
  return KD_OK;
}
