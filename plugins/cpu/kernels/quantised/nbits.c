/* nbits.c - com.microsoft's MatMulNBits: A times weights quantised in blocks.
 *
 *     weight = (number - zero point) * scale       both of each block of a column
 *
 * Three ways. Where the model allows it (accuracy_level 4, 4 bits), rows of A are quantised to
 * bytes, a scale a block, and multiplied with the numbers as they are: exact in 32 bits for a
 * group of 32, then f32. The kernel keeps such weights' scales as halves over the largest of
 * their column. Else, for a few rows, numbers become floats in registers, or a column at a
 * time; for more, PANEL columns are expanded and multiplied by tiles.c.
 *
 * Numbers of 4 bits are read less 8, and other zero points taken off by the sums of A's blocks:
 *
 *     sum of a (number - zero)  =  sum of a (number - 8)  -  (zero - 8) * sum of a
 *
 * Weights are the most to read: rows pass over a column, and threads share columns. */
#include "nbits.h"

#include <stdatomic.h>

#include "kernels.h"
#include "shared.h"

#define FEW        8        /* rows for which no panel is made */
#define PANEL      64       /* columns that are expanded at once */
#define LEAST_HALF 0x1p-14f /* with all its digits */
#define TALL       32       /* rows of bytes, some 8 KiB each */

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

/* What is held in a form of its own. Where rows may be bytes, that are all weights, with scales
 * as halves, in huge pages; else scales and zero points of another float type, as floats. */
struct kd_kernel {
  cpu_shared *shared; /* first */
  cpu_region *all;    /* has data, halves and largest: */
  const uint8_t *data;
  const cpu_f16 *halves;
  const float *largest;
  float *scales, *zeros;
};

typedef struct nbits_work {
  const cpu_nbits_loops *loops;
  cpu_nbits w;
  cpu_nbits_line *lines; /* of each row; NULL: panels are made */
  int64_t m, line; /* line: numbers of a row, up to the end of its last block */
  const float *a, *bias;
  float *y;
  bool bytes, quads; /* of A; whether weights of 4 bits are met as they are */
  bool by_lines;     /* weights are: else panels of floats are made */
  atomic_bool failed;
} nbits_work;

static const cpu_nbits_loops *loops_get(void) {
#if defined(KEEL_WITH_VNNI)
  if (cpu_bytes() >= CPU_BYTES_VNNI)
    return cpu_isa() == 2 ? &cpu_nbits_vnni : &cpu_nbits_avxvnni;
#endif
  return CPU_LOOPS(cpu_nbits);
}

/* ---- the kernel --------------------------------------------------------------------------- */

/* A constant of another float type, as floats; NULL: it is none, or has them. */
static float *floats_of(const kd_node *node, uint32_t input) {
  kd_tensor tensor;
  if (cpu_host->node->constant(node, input, &tensor) != KD_OK ||
      tensor.dtype == KD_F32 || tensor.dtype == KD_U8)
    return NULL;
  int64_t count = kd_elements(&tensor);
  float *floats = malloc((size_t)(count + 1) * sizeof *floats);
  if (floats) cpu_convert(tensor.data, tensor.dtype, floats, KD_F32, count);
  return floats; /* without memory, it is converted again and again */
}

static size_t nbits_up(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* Scales over the largest of their column. False: some are so much smaller that a half would
 * not keep its digits. */
static bool halve_scales(const float *scales, int64_t columns, int64_t blocks,
                         cpu_f16 *halves, float *largest) {
  bool kept = true;
  for (int64_t n = 0; n < columns; n++, scales += blocks, halves += blocks) {
    float most = 0;
    for (int64_t b = 0; b < blocks; b++)
      most = fabsf(scales[b]) > most ? fabsf(scales[b]) : most;
    for (int64_t b = 0; b < blocks; b++) {
      kept &= scales[b] == 0 || fabsf(scales[b]) >= most * LEAST_HALF;
      halves[b] = float_f16(most > 0 ? scales[b] / most : 0);
    }
    kept &= most < INFINITY;
    largest[n] = most;
  }
  return kept;
}

static void drop_weights(kd_kernel *kernel) {
  if (kernel->all) cpu_weights_drop(kernel->all);
  kernel->all = NULL;
  kernel->halves = NULL;
}

/* All weights, where they and their scales are constants, and rows may be bytes. */
static void hold_weights(const kd_node *node, kd_kernel *kernel) {
  const kd_node_table *read = cpu_host->node;
  kd_tensor data, scales;
  int64_t size = read->attr_int(node, "block_size", 32);
  if (read->attr_int(node, "accuracy_level", 0) != 4 ||
      read->attr_int(node, "bits", 4) != 4 || size < CPU_NBITS_GROUP ||
      read->constant(node, B, &data) != KD_OK ||
      read->constant(node, SCALES, &scales) != KD_OK)
    return;
  int64_t count = kd_elements(&scales), columns = data.dims[0];
  size_t bytes = nbits_up((size_t)data.size);
  size_t halves = nbits_up((size_t)count * sizeof(cpu_f16));
  float *floats = malloc((size_t)(count + 1) * sizeof *floats);
  char *all = floats ? cpu_weights_take(bytes + halves + (size_t)columns * 4,
                                        &kernel->all)
                     : NULL;
  if (all) {
    memcpy(all, data.data, (size_t)data.size);
    cpu_convert(scales.data, scales.dtype, floats, KD_F32, count);
    kernel->data = (const uint8_t *)all;
    kernel->halves = (const cpu_f16 *)(all + bytes);
    kernel->largest = (const float *)(all + bytes + halves);
    if (!halve_scales(floats, columns, data.dims[1], (cpu_f16 *)(all + bytes),
                      (float *)(all + bytes + halves)))
      drop_weights(kernel);
  }
  free(floats);
}

static void nbits_free(kd_kernel *kernel) {
  drop_weights(kernel);
  free(kernel->scales);
  free(kernel->zeros);
  free(kernel);
}

static void nbits_make(const kd_node *node, kd_kernel *kernel) {
  hold_weights(node, kernel);
  if (!kernel->all) kernel->scales = floats_of(node, SCALES);
  kernel->zeros = floats_of(node, ZEROS);
}

CPU_CREATE(nbits) {
  static const cpu_kernel_kind kind = {sizeof(kd_kernel), nbits_make,
                                       nbits_free};
  const kd_node_table *read = cpu_host->node;
  cpu_share_key key = {
      cpu_constant_id(node, B),
      "nbits",
      {cpu_constant_id(node, SCALES), cpu_constant_id(node, ZEROS),
       read->attr_int(node, "block_size", 32),
       read->attr_int(node, "accuracy_level", 0),
       read->attr_int(node, "bits", 4)}};
  return cpu_share_kernel(&key, &kind, node, out_kernel);
}

uint64_t cpu_taken_nbits(kd_kernel *kernel) {
  uint64_t taken = kernel->all ? UINT64_C(1) << B | UINT64_C(1) << SCALES : 0;
  return taken | (kernel->scales ? UINT64_C(1) << SCALES : 0) |
         (kernel->zeros ? UINT64_C(1) << ZEROS : 0);
}

/* ---- memory of a launch --------------------------------------------------------------------- */

typedef struct scratch {
  char *at; /* NULL: only counted */
  uint64_t used;
} scratch;

static void *nbits_take(scratch *s, int64_t count, size_t size) {
  void *taken = s->at ? s->at + s->used : NULL;
  s->used += ((uint64_t)count * size + 63) / 64 * 64;
  return taken;
}

static void lay_line(nbits_work *work, cpu_nbits_line *line, scratch *s) {
  int64_t half = work->line / 2, groups = work->line / CPU_NBITS_GROUP;
  line->sums = nbits_take(s, work->w.blocks, sizeof(float));
  if (work->bytes) {
    line->even8 = nbits_take(s, half, 1);
    line->odd8 = nbits_take(s, half, 1);
    line->scales = nbits_take(s, groups, sizeof(float));
    line->less = nbits_take(s, groups, sizeof(int32_t));
  } else if (work->quads) {
    line->even = nbits_take(s, half, sizeof(float));
    line->odd = nbits_take(s, half, sizeof(float));
  }
}

typedef struct rooms {
  float *a, *y, *bias, *scales, *zeros; /* of tensors of other types */
} rooms;

static void nbits_lay_out(nbits_work *work, const kd_launch *launch,
                          const kd_kernel *self, scratch *s, rooms *out) {
  bool other = launch->inputs[A].dtype != KD_F32;
  bool whole = work->line == work->w.k; /* rows end where blocks do */
  cpu_nbits_line counted = {0};
  bool padded = work->by_lines && !whole;
  int64_t lead = work->by_lines ? work->line : work->w.k;
  *out = (rooms){0};
  if (other || padded) out->a = nbits_take(s, work->m * lead, sizeof(float));
  if (other) out->y = nbits_take(s, work->m * work->w.n, sizeof(float));
  if (other && kd_has_input(launch, BIAS))
    out->bias = nbits_take(s, work->w.n, sizeof(float));
  if (other && !self->scales && !self->all)
    out->scales = nbits_take(s, work->w.n * work->w.blocks, sizeof(float));
  if (other && !self->zeros && kd_has_input(launch, ZEROS) &&
      launch->inputs[ZEROS].dtype != KD_U8)
    out->zeros = nbits_take(s, work->w.n * work->w.blocks, sizeof(float));
  if (!work->by_lines) return;
  work->lines = nbits_take(s, work->m, sizeof *work->lines);
  for (int64_t i = 0; i < work->m; i++)
    lay_line(work, work->lines ? &work->lines[i] : &counted, s);
}

static void read_shapes(const kd_launch *launch, const kd_kernel *self,
                        nbits_work *work) {
  const kd_tensor *a = &launch->inputs[A];
  cpu_nbits *w = &work->w;
  w->n = attr_int(launch, "N", 1);
  w->k = attr_int(launch, "K", 1);
  w->size = attr_int(launch, "block_size", 32);
  w->bits = attr_int(launch, "bits", 4);
  w->blocks = (w->k + w->size - 1) / w->size;
  work->line = w->blocks * w->size;
  work->m = product(a->dims, 0, a->rank - 1);
  work->quads = w->bits == 4 && w->size >= CPU_NBITS_GROUP;
  work->bytes = self->all != NULL;
  work->by_lines = work->bytes || work->m <= FEW;
}

CPU_WORKSPACE(nbits) {
  nbits_work work = {.loops = NULL};
  scratch counted = {NULL, 0};
  rooms rooms;
  read_shapes(launch, self, &work);
  nbits_lay_out(&work, launch, self, &counted, &rooms);
  return counted.used;
}

/* ---- operands as floats ------------------------------------------------------------------- */

static const float *floats_in(const kd_launch *launch, uint32_t index,
                              const float *held, float *room) {
  const kd_tensor *tensor = &launch->inputs[index];
  if (held) return held;
  if (tensor->dtype == KD_F32) return tensor->data;
  cpu_convert(tensor->data, tensor->dtype, room, KD_F32, kd_elements(tensor));
  return room;
}

static void read_weights(const kd_launch *launch, const kd_kernel *self,
                         const rooms *rooms, nbits_work *work) {
  cpu_nbits *w = &work->w;
  w->data = self->all ? self->data : launch->inputs[B].data;
  w->halves = self->halves;
  w->largest = self->largest;
  if (!self->all)
    w->scales = floats_in(launch, SCALES, self->scales, rooms->scales);
  if (self->zeros)
    w->zeros = self->zeros;
  else if (kd_has_input(launch, ZEROS) && launch->inputs[ZEROS].dtype == KD_U8)
    w->packed_zeros = launch->inputs[ZEROS].data;
  else if (kd_has_input(launch, ZEROS))
    w->zeros = floats_in(launch, ZEROS, NULL, rooms->zeros);
  if (kd_has_input(launch, BIAS))
    work->bias = floats_in(launch, BIAS, NULL, rooms->bias);
}

/* A as floats; for a few rows, each up to the end of its last block. */
static const float *read_rows(const kd_launch *launch, const nbits_work *work,
                              float *room) {
  const kd_tensor *a = &launch->inputs[A];
  int64_t k = work->w.k, lead = work->by_lines ? work->line : k;
  size_t size = kd_dtype_size(a->dtype);
  if (!room) return a->data;
  for (int64_t i = 0; i < work->m; i++) {
    const char *from = (const char *)a->data + (size_t)(i * k) * size;
    cpu_convert(from, a->dtype, room + i * lead, KD_F32, k);
    memset(room + i * lead + k, 0, (size_t)(lead - k) * sizeof *room);
  }
  return room;
}

static void sum_blocks(const nbits_work *work, const cpu_nbits_line *line) {
  for (int64_t b = 0; b < work->w.blocks; b++) {
    const float *x = line->x + b * work->w.size;
    float sum = 0;
    for (int64_t i = 0; i < work->w.size; i++)
      sum += x[i];
    line->sums[b] = sum;
  }
}

static void make_lines(void *context, int64_t from, int64_t to) {
  nbits_work *work = context;
  bool zeros = work->w.zeros || work->w.packed_zeros;
  for (int64_t i = from; i < to; i++) {
    cpu_nbits_line *line = &work->lines[i];
    line->x = work->a + i * work->line;
    if (work->bytes)
      work->loops->narrow(&work->w, line);
    else if (work->quads)
      work->loops->part(line->x, work->line, line->even, line->odd);
    if (work->quads && !work->bytes && zeros) sum_blocks(work, line);
  }
}

/* ---- products ------------------------------------------------------------------------------- */

static float bias_at(const nbits_work *work, int64_t column) {
  return work->bias ? work->bias[column] : 0;
}

/* Columns times a few rows of floats. */
static void run_columns(void *context, int64_t from, int64_t to) {
  nbits_work *work = context;
  const cpu_nbits *w = &work->w;
  float *column = NULL;
  if (!work->quads) {
    column = malloc((size_t)work->line * sizeof *column);
    if (!column) {
      work->failed = true;
      return;
    }
  }
  for (int64_t n = from; n < to; n++) {
    if (column) work->loops->expand(w, n, column);
    for (int64_t i = 0; i < work->m; i++) {
      const cpu_nbits_line *line = &work->lines[i];
      float sum = column ? work->loops->dot(line->x, column, work->line)
                         : work->loops->dot4(w, n, line);
      work->y[i * w->n + n] = sum + bias_at(work, n);
    }
  }
  free(column);
}

/* Columns times rows of bytes: some rows stay in the second cache while all columns pass. */
static void run_bytes(void *context, int64_t from, int64_t to) {
  nbits_work *work = context;
  const cpu_nbits *w = &work->w;
  for (int64_t first = 0; first < work->m; first += TALL) {
    int64_t end = first + TALL < work->m ? first + TALL : work->m;
    for (int64_t n = from; n < to; n++)
      for (int64_t i = first; i < end; i += CPU_NBITS_ROWS) {
        float sums[CPU_NBITS_ROWS];
        int64_t rows = end - i < CPU_NBITS_ROWS ? end - i : CPU_NBITS_ROWS;
        work->loops->dot4_bytes(w, n, &work->lines[i], rows, sums);
        for (int64_t r = 0; r < rows; r++)
          work->y[(i + r) * w->n + n] = sums[r] + bias_at(work, n);
      }
  }
}

/* Panels of columns, for all rows. */
static void run_panels(void *context, int64_t from, int64_t to) {
  nbits_work *work = context;
  const cpu_nbits *w = &work->w;
  float *panel = malloc((size_t)(PANEL * work->line) * sizeof *panel);
  if (!panel) {
    work->failed = true;
    return;
  }
  for (int64_t p = from; p < to; p++) {
    int64_t first = p * PANEL, count = w->n - first;
    if (count > PANEL) count = PANEL;
    for (int64_t n = 0; n < count; n++)
      work->loops->expand(w, first + n, panel + n * work->line);
    const cpu_gemm gemm = {.dtype = KD_F32,
                           .trans_b = true,
                           .m = work->m,
                           .n = count,
                           .k = w->k,
                           .alpha = 1,
                           .a = work->a,
                           .b = panel,
                           .c = work->y + first,
                           .lda = w->k,
                           .ldb = work->line,
                           .ldc = w->n};
    cpu_gemm_here(&gemm);
    for (int64_t i = 0; work->bias && i < work->m; i++)
      for (int64_t n = first; n < first + count; n++)
        work->y[i * w->n + n] += work->bias[n];
  }
  free(panel);
}

CPU_KERNEL(cpu_run_nbits) {
  nbits_work work = {.loops = loops_get()};
  scratch s = {launch->workspace.data, 0};
  const kd_tensor *y = &launch->outputs[0];
  rooms rooms;
  if (!kd_elements(y)) return KD_OK;
  read_shapes(launch, self, &work);
  nbits_lay_out(&work, launch, self, &s, &rooms);
  read_weights(launch, self, &rooms, &work);
  work.a = read_rows(launch, &work, rooms.a);
  work.y = rooms.y ? rooms.y : y->data;
  if (work.by_lines) {
    int64_t grain = 100000 / (work.line * work.m) + 1;
    cpu_host->parallel_for(cpu_host, work.m, 20000 / work.line + 1, make_lines,
                           &work);
    cpu_host->parallel_for(cpu_host, work.w.n, grain < 16 ? 16 : grain,
                           work.bytes ? run_bytes : run_columns, &work);
  } else {
    cpu_host->parallel_for(cpu_host, (work.w.n + PANEL - 1) / PANEL, 1,
                           run_panels, &work);
  }
  if (work.failed)
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a panel of weights");
  if (rooms.y) cpu_convert(rooms.y, KD_F32, y->data, y->dtype, kd_elements(y));
  return KD_OK;
}
