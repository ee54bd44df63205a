/* elementwise.c - elementwise ops: which loop, broadcasting, sharing the work. */
#include "elementwise.h"

#include "blocked/blocked.h"
#include "kernels.h"
#include "small.h"

const cpu_loops *cpu_loops_get(void) {
  return CPU_LOOPS(cpu_loops);
}

/* ---- one argument --------------------------------------------------------- */

typedef struct unary_work {
  cpu_unary loop;
  const char *x;
  char *y;
  size_t x_size, y_size;
  double a, b;
} unary_work;

static void unary_piece(void *context, int64_t begin, int64_t end) {
  const unary_work *work = context;
  work->loop(work->x + (size_t)begin * work->x_size,
             work->y + (size_t)begin * work->y_size, end - begin, work->a,
             work->b);
}

static void elementwise_unary(const kd_launch *launch, uint32_t op) {
  const kd_tensor *x = &launch->inputs[0];
  const cpu_unary_row *row = &cpu_loops_get()->unary[op];
  size_t size = kd_dtype_size(x->dtype);
  unary_work work = {.loop = row->loops[x->dtype],
                     .x = x->data,
                     .y = launch->outputs[0].data,
                     .x_size = size,
                     .y_size = size};
  if (x->strides) {
    cpu_spread(x, &launch->outputs[0]);
    work.x = work.y;
  }
  if (row->a && *row->a) work.a = attr_float(launch, row->a, 0);
  if (row->b && *row->b) work.b = attr_float(launch, row->b, 0);
  int64_t n = cpu_lying(x);
  if (n <= CPU_GRAIN)
    work.loop(work.x, work.y, n, work.a, work.b);
  else
    cpu_host->parallel_for(cpu_host, n, CPU_GRAIN, unary_piece, &work);
  cpu_fill_up(&launch->outputs[0]);
}

CPU_KERNEL(cpu_run_unary) {
  elementwise_unary(launch, (uint32_t)(uintptr_t)launch->data);
  return KD_OK;
}

uint32_t cpu_gelu_row(const kd_node *node) {
  const char *form = cpu_host->node->attr_string(node, "approximate", "none");
  return strcmp(form, "tanh") ? UNARY_GeluErf : UNARY_GeluTanh;
}

void (*cpu_activation_loop(const char *name))(const void *x, void *y, int64_t n,
                                              double a, double b) {
  static const struct {
    const char *name;
    uint32_t row;
  } rows[] = {{"Relu", UNARY_Relu},
              {"Gelu", UNARY_GeluErf},
              {"GeluTanh", UNARY_GeluTanh},
              {"Silu", UNARY_Silu}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name))
      return cpu_loops_get()->unary[rows[i].row].loops[KD_F32];
  return NULL;
}

CPU_KERNEL(cpu_run_gelu) {
  elementwise_unary(launch, cpu_gelu_row(launch->node));
  return KD_OK;
}

/* ---- two arguments -------------------------------------------------------- */

typedef struct binary_work {
  cpu_binary loop;
  strided space; /* operands x, y; the result is packed */
  const char *x, *y;
  char *z;
  size_t in_size, out_size;
} binary_work;

static void binary_rows(void *context, int64_t begin, int64_t end) {
  const binary_work *work = context;
  const strided *space = &work->space;
  int64_t row = space->dims[space->rank - 1];
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
  strided_row(space, begin, offsets);
  strided_index(space, begin, index);
  for (int64_t i = begin; i < end; i++) {
    work->loop(work->x + offsets[0] * (int64_t)work->in_size,
               space->steps[0][space->rank - 1],
               work->y + offsets[1] * (int64_t)work->in_size,
               space->steps[1][space->rank - 1],
               work->z + i * row * (int64_t)work->out_size, row);
    strided_next(space, index, offsets);
  }
}

/* One long row is cut, instead of many rows dealt out. */
static void binary_piece(void *context, int64_t begin, int64_t end) {
  const binary_work *work = context;
  int64_t sx = work->space.steps[0][0], sy = work->space.steps[1][0];
  work->loop(work->x + begin * sx * (int64_t)work->in_size, sx,
             work->y + begin * sy * (int64_t)work->in_size, sy,
             work->z + (size_t)begin * work->out_size, end - begin);
}

/* z = op(x, y), where x and y broadcast to z. */
static void binary(int op, const kd_tensor *x, const kd_tensor *y,
                   const kd_tensor *z) {
  binary_work work = {.loop = cpu_loops_get()->binary[op].loops[x->dtype],
                      .x = x->data,
                      .y = y->data,
                      .z = z->data,
                      .in_size = kd_dtype_size(x->dtype),
                      .out_size = kd_dtype_size(z->dtype)};
  strided_begin(&work.space, z->dims, z->rank);
  strided_tensor(&work.space, x);
  strided_tensor(&work.space, y);
  if (!strided_count(&work.space)) return;
  strided_simplify(&work.space);
  int64_t row = work.space.dims[work.space.rank - 1];
  if (work.space.rank == 1 && row <= CPU_GRAIN)
    binary_piece(&work, 0, row);
  else if (work.space.rank == 1)
    cpu_host->parallel_for(cpu_host, row, CPU_GRAIN, binary_piece, &work);
  else
    cpu_host->parallel_for(cpu_host, strided_rows(&work.space),
                           CPU_GRAIN / row + 1, binary_rows, &work);
}

CPU_KERNEL(cpu_run_binary) {
  int op = (int)(uintptr_t)launch->data;
  const kd_tensor *z = &launch->outputs[0];
  if (z->layout != BLOCKED) {
    binary(op, &launch->inputs[0], &launch->inputs[1], z);
    return KD_OK;
  }
  /* all three lie alike */
  int64_t count = cpu_lying(z);
  kd_tensor row[] = {launch->inputs[0], launch->inputs[1], *z};
  for (int i = 0; i < 3; i++) {
    row[i].dims = &count;
    row[i].rank = 1;
  }
  binary(op, &row[0], &row[1], &row[2]);
  cpu_fill_up(z);
  return KD_OK;
}

CPU_KERNEL(cpu_run_mod) {
  binary(attr_int(launch, "fmod", 0) ? BINARY_FMod : BINARY_Mod,
         &launch->inputs[0], &launch->inputs[1], &launch->outputs[0]);
  return KD_OK;
}

CPU_KERNEL(cpu_run_shift) {
  const char *direction = attr_string(launch, "direction", "");
  if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
    return FAIL(KD_INVALID_ARGUMENT, "direction is \"%s\"", direction);
  binary(*direction == 'L' ? BINARY_ShiftLeft : BINARY_ShiftRight,
         &launch->inputs[0], &launch->inputs[1], &launch->outputs[0]);
  return KD_OK;
}

/* ---- any number of arguments ---------------------------------------------- */

/* Adds x, broadcast, to sums of z's shape. */
static void add_wide(const kd_tensor *x, const kd_tensor *z, float *sums) {
  strided space;
  strided_begin(&space, z->dims, z->rank);
  strided_tensor(&space, x);
  if (!strided_count(&space)) return;
  strided_simplify(&space);
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int64_t row = space.dims[space.rank - 1], rows = strided_rows(&space);
  int64_t step = space.steps[0][space.rank - 1];
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < row; i++)
      sums[r * row + i] +=
          (float)cpu_get(x->data, x->dtype, offsets[0] + i * step);
    strided_next(&space, index, offsets);
  }
}

/* The sum of 16-bit floats, kept in f32, divided by `count`. */
static kd_status sum_wide(const kd_launch *launch, double count) {
  const kd_tensor *z = &launch->outputs[0];
  int64_t n = kd_elements(z);
  float *sums = cpu_host->allocate(cpu_host, (uint64_t)n * sizeof *sums + 1, 0);
  if (!sums)
    return FAIL(KD_OUT_OF_MEMORY, "no %lld bytes for sums",
                (long long)n * (long long)sizeof *sums);
  memset(sums, 0, (size_t)n * sizeof *sums);
  for (uint32_t i = 0; i < launch->input_count; i++)
    add_wide(&launch->inputs[i], z, sums);
  for (int64_t i = 0; i < n; i++)
    cpu_set(z->data, z->dtype, i, (double)sums[i] / count);
  cpu_host->release(cpu_host, sums);
  return KD_OK;
}

static bool is_narrow(kd_dtype dtype) {
  return dtype == KD_F16 || dtype == KD_BF16;
}

CPU_KERNEL(cpu_run_variadic) {
  const kd_tensor *z = &launch->outputs[0];
  if ((uintptr_t)launch->data == BINARY_Add && is_narrow(z->dtype) &&
      launch->input_count > 2)
    return sum_wide(launch, 1);
  cpu_spread(&launch->inputs[0], z);
  for (uint32_t i = 1; i < launch->input_count; i++)
    binary((int)(uintptr_t)launch->data, z, &launch->inputs[i], z);
  return KD_OK;
}

CPU_KERNEL(cpu_run_mean) {
  const kd_tensor *z = &launch->outputs[0];
  if (is_narrow(z->dtype)) return sum_wide(launch, launch->input_count);
  kd_launch sum = *launch;
  sum.data = (const void *)(uintptr_t)BINARY_Add;
  cpu_run_variadic(self, stream, &sum);
  double count = launch->input_count;
  uint64_t scalar = 0;
  cpu_set(&scalar, z->dtype, 0, count);
  kd_tensor divisor = {.data = &scalar, .dtype = z->dtype};
  binary(BINARY_Div, z, &divisor, z);
  return KD_OK;
}

/* Clip: the larger of x and min, then the smaller of that and max. */
CPU_KERNEL(cpu_run_clip) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const kd_tensor *from = x;
  if (kd_has_input(launch, 1)) {
    binary(BINARY_Max, x, &launch->inputs[1], y);
    from = y;
  }
  if (kd_has_input(launch, 2)) {
    binary(BINARY_Min, from, &launch->inputs[2], y);
    from = y;
  }
  if (from == x && x->data != y->data && x->size)
    memcpy(y->data, x->data, x->size);
  return KD_OK;
}

/* ---- Cast ------------------------------------------------------------------ */

typedef struct cast_work {
  const kd_tensor *x, *y;
} cast_work;

static void cast_piece(void *context, int64_t begin, int64_t end) {
  const cast_work *work = context;
  cpu_convert(
      (const char *)work->x->data +
          (size_t)begin * kd_dtype_size(work->x->dtype),
      work->x->dtype,
      (char *)work->y->data + (size_t)begin * kd_dtype_size(work->y->dtype),
      work->y->dtype, end - begin);
}

CPU_KERNEL(cpu_run_cast) {
  if (cpu_cast_small(launch)) return KD_OK;
  cast_work work = {&launch->inputs[0], &launch->outputs[0]};
  cpu_host->parallel_for(cpu_host, kd_elements(work.x), CPU_GRAIN, cast_piece,
                         &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_not) {
  const uint8_t *x = launch->inputs[0].data;
  uint8_t *y = launch->outputs[0].data;
  for (int64_t i = 0, n = kd_elements(&launch->inputs[0]); i < n; i++)
    y[i] = !x[i];
  return KD_OK;
}
