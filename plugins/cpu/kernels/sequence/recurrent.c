/* recurrent.c - RNN, GRU, LSTM (ONNX, opset 14).
 *
 * The inputs' part of all gates and steps is one product; each step adds the
 * state's part, for all items of the batch at once, and applies the gates, a block of
 * units at a time (gates.c). Half floats are widened once. */
#include <strings.h>

#include "gates.h"
#include "kernels.h"
#include "shared.h"

static const struct {
  const char *name;
  double alpha, beta;
  bool has_alpha, has_beta;
} activations[CPU_GATES] = {
    [CPU_AFFINE] = {"Affine", 1, 0, true, true},
    [CPU_ELU] = {"Elu", 1, 0, true, false},
    [CPU_HARD_SIGMOID] = {"HardSigmoid", 0.2, 0.5, true, true},
    [CPU_LEAKY_RELU] = {"LeakyRelu", 0.01, 0, true, false},
    [CPU_RELU] = {"Relu", 0, 0, false, false},
    [CPU_SCALED_TANH] = {"ScaledTanh", 1, 1, true, true},
    [CPU_SIGMOID] = {"Sigmoid", 0, 0, false, false},
    [CPU_SOFTPLUS] = {"Softplus", 0, 0, false, false},
    [CPU_SOFTSIGN] = {"Softsign", 0, 0, false, false},
    [CPU_TANH] = {"Tanh", 0, 0, false, false},
    [CPU_THRESHOLDED_RELU] = {"ThresholdedRelu", 1, 0, true, false},
};

/* What is kept of constants: weights as steps and products want them. */
struct kd_kernel {
  cpu_shared *shared; /* first */
  void *r, *w;        /* NULL: they are not known before a launch */
  float *panels[2];   /* w of each direction, in place of w */
};

typedef struct recurrence {
  const kd_launch *launch;
  int kind;
  kd_dtype dtype; /* of the arithmetic: f32 or f64 */
  int64_t gates, steps, batch, inputs, hidden, directions;
  int64_t units, blocks; /* of a block, of a state */
  bool batch_first, coupled, linear_first;
  double clip; /* 0: none */
  const void *x, *w, *r, *b, *h0, *c0, *p;
  const void *packed;   /* r, by blocks */
  bool transposed;      /* w is [directions, inputs, rows] */
  float *const *panels; /* w of each direction, or NULL */
  const int32_t *lengths;
  const cpu_cells *cells;
  int64_t grain; /* blocks of a step that are worth a thread */
} recurrence;

/* One direction, and where it works in the workspace. */
typedef struct direction {
  const recurrence *of;
  int64_t number;
  bool backward;
  cpu_cell cell;
  char *from_x, *states[2], *bias, *peep;
  int64_t *rows;
} direction;

/* ---- reading the node ----------------------------------------------------------- */

/* Input `index` in the arithmetic's type: itself, or a widened copy. */
static bool recurrent_take(recurrence *n, uint32_t index, void **copies,
                           const void **out) {
  *out = NULL;
  if (!kd_has_input(n->launch, index)) return true;
  const kd_tensor *in = &n->launch->inputs[index];
  *out = in->data;
  if (in->dtype == n->dtype) return true;
  int64_t count = kd_elements(in);
  copies[index] = malloc((size_t)count * sizeof(float) + 1);
  if (!copies[index]) return false;
  cpu_convert(in->data, in->dtype, copies[index], n->dtype, count);
  *out = copies[index];
  return true;
}

/* Activation `index` of the node's list; alpha and beta are taken in turn by those
 * that have them. */
static kd_status read_activation(const recurrence *n, int64_t index,
                                 const char *fallback, int64_t *used,
                                 cpu_gate *out) {
  const kd_node_table *read = cpu_host->node;
  const char *const *names = NULL;
  const float *alphas = NULL, *betas = NULL;
  int64_t count = read->attr_strings(n->launch->node, "activations", &names);
  int64_t na = read->attr_floats(n->launch->node, "activation_alpha", &alphas);
  int64_t nb = read->attr_floats(n->launch->node, "activation_beta", &betas);
  const char *name = index < count ? names[index] : fallback;
  out->which = 0;
  while (out->which < CPU_GATES &&
         strcasecmp(activations[out->which].name, name) != 0)
    out->which++;
  if (out->which == CPU_GATES)
    return FAIL(KD_UNIMPLEMENTED, "there is no activation \"%s\"", name);
  out->alpha = activations[out->which].alpha;
  out->beta = activations[out->which].beta;
  if (activations[out->which].has_alpha && used[0] < na)
    out->alpha = (double)alphas[used[0]++];
  if (activations[out->which].has_beta && used[1] < nb)
    out->beta = (double)betas[used[1]++];
  return KD_OK;
}

/* What inputs' types and attributes say. */
static void read_shape(recurrence *n, const kd_launch *launch) {
  n->launch = launch;
  n->kind = (int)(uintptr_t)launch->data;
  n->dtype = launch->inputs[0].dtype == KD_F64 ? KD_F64 : KD_F32;
  const kd_tensor *x = &launch->inputs[0];
  n->gates = n->kind == CPU_LSTM ? 4 : n->kind == CPU_GRU ? 3 : 1;
  n->batch_first = attr_int(launch, "layout", 0) != 0;
  n->steps = x->dims[n->batch_first];
  n->batch = x->dims[!n->batch_first];
  n->inputs = x->dims[2];
  n->hidden = launch->inputs[2].dims[2];
  n->directions = launch->inputs[1].dims[0];
  n->units = CPU_BLOCK_BYTES / (int64_t)kd_dtype_size(n->dtype);
  n->blocks = (n->hidden + n->units - 1) / n->units;
  n->clip = (double)attr_float(launch, "clip", 0);
  n->coupled = attr_int(launch, "input_forget", 0) != 0;
  n->linear_first = attr_int(launch, "linear_before_reset", 0) != 0;
}

static kd_status check_inputs(recurrence *n) {
  if (n->directions < 1 || n->directions > 2)
    return FAIL(KD_INVALID_ARGUMENT, "weights of %lld directions",
                (long long)n->directions);
  int64_t states = n->directions * n->batch * n->hidden;
  const struct {
    uint32_t index;
    int64_t count;
  } sizes[] = {{1, n->directions * n->gates * n->hidden * n->inputs},
               {2, n->directions * n->gates * n->hidden * n->hidden},
               {3, n->directions * 2 * n->gates * n->hidden},
               {4, n->batch},
               {5, states},
               {6, states},
               {7, n->directions * 3 * n->hidden}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (kd_has_input(n->launch, sizes[i].index) &&
        kd_elements(&n->launch->inputs[sizes[i].index]) != sizes[i].count)
      return FAIL(KD_INVALID_ARGUMENT, "input %u has %lld elements, not %lld",
                  sizes[i].index,
                  (long long)kd_elements(&n->launch->inputs[sizes[i].index]),
                  (long long)sizes[i].count);
  if (kd_has_input(n->launch, 4)) n->lengths = n->launch->inputs[4].data;
  for (int64_t i = 0; n->lengths && i < n->batch; i++)
    if (n->lengths[i] < 0 || n->lengths[i] > n->steps)
      return FAIL(KD_INVALID_ARGUMENT,
                  "sequence_lens[%lld] is %d of %lld steps", (long long)i,
                  n->lengths[i], (long long)n->steps);
  return KD_OK;
}

/* ---- numbers in the arithmetic's type ------------------------------------------------ */

static double recurrent_get(const recurrence *n, const void *data, int64_t i) {
  return n->dtype == KD_F64 ? ((const double *)data)[i]
                            : (double)((const float *)data)[i];
}

static void set(const recurrence *n, void *data, int64_t i, double x) {
  if (n->dtype == KD_F64)
    ((double *)data)[i] = x;
  else
    ((float *)data)[i] = (float)x;
}

static const void *recurrent_at(const recurrence *n, const void *data,
                                int64_t i) {
  return (const char *)data + (size_t)i * kd_dtype_size(n->dtype);
}

static int64_t length_of(const recurrence *n, int64_t item) {
  return n->lengths ? n->lengths[item] : n->steps;
}

/* ---- weights by blocks ----------------------------------------------------------- */

static const cpu_cells *cells_get(kd_dtype dtype) {
  return *CPU_LOOPS(cpu_cells) + (dtype == KD_F64);
}

typedef struct pack_work {
  const cpu_cells *cells;
  const char *from;
  char *to;
  int64_t gates, hidden, blocks, units;
  size_t size;
} pack_work;

static void pack_blocks(void *context, int64_t begin, int64_t end) {
  const pack_work *work = context;
  int64_t panels = work->gates * work->hidden;
  for (int64_t i = begin; i < end; i++)
    work->cells->pack(
        work->from +
            (size_t)(i / work->blocks * panels * work->hidden) * work->size,
        work->gates, work->hidden, i % work->blocks,
        work->to + (size_t)(i * panels * work->units) * work->size);
}

/* r [directions, gates * hidden, hidden]; NULL: there is no memory. */
static void *recurrent_pack(const void *r, kd_dtype dtype, int64_t directions,
                            int64_t gates, int64_t hidden) {
  size_t size = kd_dtype_size(dtype);
  pack_work work = {.cells = cells_get(dtype),
                    .from = r,
                    .gates = gates,
                    .hidden = hidden,
                    .units = CPU_BLOCK_BYTES / (int64_t)size,
                    .size = size};
  work.blocks = (hidden + work.units - 1) / work.units;
  int64_t panel = gates * hidden * work.units;
  work.to = malloc((size_t)(directions * work.blocks * panel) * size + 1);
  if (work.to)
    cpu_host->parallel_for(cpu_host, directions * work.blocks,
                           CPU_GRAIN / (panel + 1) + 1, pack_blocks, &work);
  return work.to;
}

/* A constant in the arithmetic's type, where it is not that already. */
static void *widened(const kd_tensor *in, kd_dtype dtype) {
  int64_t count = kd_elements(in);
  void *out = malloc((size_t)count * kd_dtype_size(dtype) + 1);
  if (out) cpu_convert(in->data, in->dtype, out, dtype, count);
  return out;
}

/* w [directions, rows, inputs] as [directions, inputs, rows]. */
static void *recurrent_turn(const kd_tensor *w, kd_dtype dtype) {
  const int64_t rows = w->dims[1], inputs = w->dims[2];
  const int64_t strides[] = {rows * inputs, 1, inputs};
  const int64_t dims[] = {w->dims[0], inputs, rows};
  void *wide = widened(w, dtype), *out = NULL;
  size_t bytes = (size_t)kd_elements(w) * kd_dtype_size(dtype);
  kd_tensor from = {.dtype = dtype,
                    .rank = 3,
                    .dims = dims,
                    .strides = strides,
                    .data = wide};
  if (wide) out = malloc(bytes + 1);
  kd_tensor to = from;
  to.strides = NULL;
  to.data = out;
  if (out) cpu_spread(&from, &to);
  free(wide);
  return out;
}

/* w of each direction as products want it; false: to be transposed. */
static bool pack_inputs(kd_kernel *kernel, const kd_tensor *w) {
  int64_t rows = w->dims[1], inputs = w->dims[2];
  if (w->dtype == KD_F64 || cpu_wants_openblas() || rows < 1 || inputs < 1 ||
      w->dims[0] > 2)
    return false;
  float *wide = widened(w, KD_F32);
  for (int64_t d = 0; wide && d < w->dims[0]; d++) {
    cpu_gemm gemm = {.dtype = KD_F32,
                     .trans_b = true,
                     .n = rows,
                     .k = inputs,
                     .b = wide + d * rows * inputs,
                     .ldb = inputs};
    kernel->panels[d] = cpu_gemm_pack(&gemm, 1);
  }
  free(wide);
  if (kernel->panels[0] && (w->dims[0] < 2 || kernel->panels[1])) return true;
  for (int d = 0; d < 2; d++) {
    free(kernel->panels[d]);
    kernel->panels[d] = NULL;
  }
  return false;
}

static int64_t gates_of(const kd_node *node) {
  const char *op = cpu_host->node->op(node);
  return op[0] == 'L' ? 4 : op[0] == 'G' ? 3 : 1; /* LSTM, GRU, RNN */
}

static void recurrent_free(kd_kernel *kernel) {
  free(kernel->r);
  free(kernel->w);
  free(kernel->panels[0]);
  free(kernel->panels[1]);
  free(kernel);
}

static void recurrent_make(const kd_node *node, kd_kernel *kernel) {
  const kd_node_table *read = cpu_host->node;
  int64_t gates = gates_of(node);
  kd_tensor w, r;
  if (read->constant(node, 1, &w) != KD_OK ||
      read->constant(node, 2, &r) != KD_OK || w.rank != 3 || r.rank != 3 ||
      w.dims[0] != r.dims[0] || w.dims[1] != gates * r.dims[2] ||
      r.dims[1] != w.dims[1])
    return;
  kd_dtype dtype = r.dtype == KD_F64 ? KD_F64 : KD_F32;
  void *wide = widened(&r, dtype);
  if (wide)
    kernel->r = recurrent_pack(wide, dtype, r.dims[0], gates, r.dims[2]);
  free(wide);
  if (!pack_inputs(kernel, &w)) kernel->w = recurrent_turn(&w, dtype);
}

CPU_CREATE(recurrent) {
  static const cpu_kernel_kind kind = {sizeof(kd_kernel), recurrent_make,
                                       recurrent_free};
  cpu_share_key key = {cpu_constant_id(node, 1),
                       "recurrent",
                       {cpu_constant_id(node, 2), gates_of(node)}};
  return cpu_share_kernel(&key, &kind, node, out_kernel);
}

/* ---- a step ---------------------------------------------------------------------- */

/* Where an item's row of the inputs' part is at a time. */
static int64_t recurrent_row_of(const recurrence *n, int64_t time,
                                int64_t item) {
  return n->batch_first ? item * n->steps + time : time * n->batch + item;
}

static void recurrent_give(const recurrence *n, uint32_t output, int64_t to,
                           const void *from, int64_t item) {
  if (!kd_has_output(n->launch, output)) return;
  const kd_tensor *out = &n->launch->outputs[output];
  cpu_convert(recurrent_at(n, from, item * n->hidden), n->dtype,
              (char *)out->data + (size_t)to * kd_dtype_size(out->dtype),
              out->dtype, n->hidden);
}

static void first_blocks(void *context, int64_t begin, int64_t end) {
  const direction *d = context;
  for (int64_t i = begin; i < end; i++)
    d->of->cells->step(&d->cell, i, true);
}

static void all_blocks(void *context, int64_t begin, int64_t end) {
  const direction *d = context;
  for (int64_t i = begin; i < end; i++)
    d->of->cells->step(&d->cell, i, false);
}

static void run_step(direction *d, int64_t step) {
  const recurrence *n = d->of;
  for (int64_t item = 0; item < n->batch; item++) {
    int64_t length = length_of(n, item);
    int64_t time = d->backward ? length - 1 - step : step;
    d->rows[item] = step < length ? recurrent_row_of(n, time, item) : -1;
  }
  d->cell.before = d->states[step % 2];
  d->cell.after = d->states[1 - step % 2];
  if (n->kind == CPU_GRU && !n->linear_first)
    cpu_host->parallel_for(cpu_host, n->blocks, n->grain, first_blocks, d);
  cpu_host->parallel_for(cpu_host, n->blocks, n->grain, all_blocks, d);
  for (int64_t item = 0; item < n->batch; item++) {
    int64_t row = d->rows[item], wide = n->directions * n->hidden;
    if (row < 0) continue;
    recurrent_give(
        n, 0,
        n->batch_first
            ? row * wide + d->number * n->hidden
            : (row - item) * wide + (d->number * n->batch + item) * n->hidden,
        d->cell.after, item);
  }
}

/* ---- a direction ------------------------------------------------------------------- */

static void begin_state(const recurrence *n, int64_t d, int64_t item,
                        const void *from, void *to) {
  int64_t first =
      n->batch_first ? item * n->directions + d : d * n->batch + item;
  size_t bytes = (size_t)n->hidden * kd_dtype_size(n->dtype);
  char *here = (char *)to + (size_t)item * bytes;
  if (from)
    memcpy(here, (const char *)from + (size_t)first * bytes, bytes);
  else
    memset(here, 0, bytes);
}

static void run_steps(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    direction *d = (direction *)context + i;
    const recurrence *n = d->of;
    for (int64_t item = 0; item < n->batch; item++) {
      begin_state(n, i, item, n->h0, d->states[0]);
      begin_state(n, i, item, n->c0, d->cell.cell);
    }
    for (int64_t step = 0; step < n->steps; step++)
      run_step(d, step);
    for (int64_t item = 0; item < n->batch; item++) {
      int64_t to =
          n->batch_first ? item * n->directions + i : i * n->batch + item;
      recurrent_give(n, 1, to * n->hidden, d->states[n->steps % 2], item);
      if (n->kind == CPU_LSTM)
        recurrent_give(n, 2, to * n->hidden, d->cell.cell, item);
    }
  }
}

/* What all inputs give to all gates. */
static void take_inputs(const direction *d) {
  const recurrence *n = d->of;
  int64_t rows = n->gates * n->hidden;
  cpu_gemm gemm = {
      .dtype = n->dtype,
      .trans_b = !n->transposed,
      .m = n->steps * n->batch,
      .n = rows,
      .k = n->inputs,
      .alpha = 1,
      .a = n->x,
      .b = n->w ? recurrent_at(n, n->w, d->number * rows * n->inputs) : NULL,
      .c = d->from_x,
      .lda = n->inputs,
      .ldb = n->transposed ? rows : n->inputs,
      .ldc = rows};
  if (n->panels) gemm.panels = n->panels[d->number];
  cpu_gemm_run(&gemm);
}

/* Biases and peepholes by blocks. */
static void spread_weights(const direction *d) {
  const recurrence *n = d->of;
  int64_t rows = n->gates * n->hidden, i = d->number;
  bool apart = n->kind == CPU_GRU; /* the candidate's are two */
  for (int64_t k = 0; k < n->hidden; k++) {
    int64_t block = k / n->units, unit = k % n->units;
    for (int64_t g = 0; n->b && g < n->gates; g++) {
      double x = recurrent_get(n, n->b, i * 2 * rows + g * n->hidden + k);
      double h = recurrent_get(n, n->b, (i * 2 + 1) * rows + g * n->hidden + k);
      int64_t to = (block * (n->gates + 1) + g) * n->units + unit;
      if (apart && g == 2) set(n, d->bias, to + n->units, h);
      set(n, d->bias, to, apart && g == 2 ? x : x + h);
    }
    for (int64_t g = 0; n->p && g < 3; g++)
      set(n, d->peep, (block * 3 + g) * n->units + unit,
          recurrent_get(n, n->p, (i * 3 + g) * n->hidden + k));
  }
}

/* Bytes of what a direction needs: rows, biases, peepholes, five states, the inputs' part. */
typedef struct room {
  size_t rows, biases, peep, state, inputs, all;
} room;

static room room_of(const recurrence *n) {
  size_t size = kd_dtype_size(n->dtype), items = (size_t)n->batch;
  size_t lane = (size_t)(n->blocks * n->units) * size;
  size_t gates = (size_t)n->gates, hidden = (size_t)n->hidden;
  room r = {.rows = items * sizeof(int64_t),
            .biases = lane * (gates + 1),
            .peep = 3 * lane,
            .state = items * hidden * size,
            .inputs = (size_t)n->steps * items * gates * hidden * size};
  r.all = r.rows + r.biases + r.peep + 5 * r.state + r.inputs;
  r.all = (r.all + 63) / 64 * 64;
  return r;
}

CPU_WORKSPACE(recurrent) {
  recurrence n = {0};
  read_shape(&n, launch);
  return n.directions > 0 ? (uint64_t)n.directions * room_of(&n).all : 0;
}

static void recurrent_make_room(direction *d) {
  const recurrence *n = d->of;
  room r = room_of(n);
  char *at_all = n->launch->workspace.data;
  d->rows = (int64_t *)(void *)(at_all + (size_t)d->number * r.all);
  d->bias = (char *)d->rows + r.rows;
  d->peep = d->bias + r.biases;
  d->states[0] = d->peep + r.peep;
  d->states[1] = d->states[0] + r.state;
  d->from_x = d->states[1] + 4 * r.state;
  if (r.all) memset(d->bias, 0, r.biases + r.peep);
  d->cell =
      (cpu_cell){.kind = n->kind,
                 .gates = n->gates,
                 .hidden = n->hidden,
                 .batch = n->batch,
                 .coupled = n->coupled,
                 .linear_first = n->linear_first,
                 .clip = n->clip,
                 .weights = recurrent_at(
                     n, n->packed,
                     d->number * n->blocks * n->gates * n->hidden * n->units),
                 .bias = d->bias,
                 .peep = n->p ? d->peep : NULL,
                 .from_x = d->from_x,
                 .rows = d->rows,
                 .cell = d->states[1] + r.state,
                 .gated = d->states[1] + 2 * r.state,
                 .update = d->states[1] + 3 * r.state};
}

/* ---- the kernel --------------------------------------------------------------------- */

static kd_status begin_directions(const recurrence *n, direction *d) {
  static const char *const names[] = {"Sigmoid", "Tanh", "Tanh"};
  int64_t used[2] = {0, 0};
  int64_t each = n->kind == CPU_LSTM ? 3 : n->kind == CPU_GRU ? 2 : 1;
  bool reverse =
      !strcmp(attr_string(n->launch, "direction", "forward"), "reverse");
  kd_status status = KD_OK;
  for (int64_t i = 0; i < n->directions && status == KD_OK; i++) {
    d[i].of = n;
    d[i].number = i;
    d[i].backward = reverse || i == 1;
    recurrent_make_room(&d[i]);
    cpu_gate *gates[3] = {&d[i].cell.f, &d[i].cell.g, &d[i].cell.h};
    for (int64_t g = 0; g < each && status == KD_OK; g++)
      status = read_activation(n, i * each + g,
                               n->kind == CPU_RNN ? "Tanh" : names[g], used,
                               gates[g]);
    spread_weights(&d[i]);
  }
  return status;
}

/* Directions are shared by threads where that is worth it, and so are the blocks of
 * a step where threads are left. */
static void run_directions(recurrence *n, direction *d) {
  int64_t width = cpu_host->worker_count(cpu_host);
  double block = 2.0 * (double)(n->batch * n->gates * n->hidden * n->units);
  bool both = n->directions > 1 && width > 1 &&
              block * (double)(n->blocks * n->steps) > 4e5;
  const int64_t worth = (int64_t)(1.5e5 / (block + 1)) + 1;
  const int64_t share = (n->blocks + width - 1) / width;
  n->grain = both && width <= n->directions ? n->blocks
             : share > worth                ? share
                                            : worth;
  for (int64_t i = 0; i < n->directions; i++)
    take_inputs(&d[i]);
  if (both)
    cpu_host->parallel_for(cpu_host, n->directions, 1, run_steps, d);
  else
    run_steps(d, 0, n->directions);
}

CPU_KERNEL(cpu_run_recurrent) {
  recurrence n = {0};
  void *copies[8] = {0}, *packed = NULL;
  direction d[2] = {0};
  read_shape(&n, launch);
  kd_status status = check_inputs(&n);
  if (status != KD_OK) return status;
  n.cells = cells_get(n.dtype);
  n.transposed = self && self->w;
  if (self && self->panels[0]) n.panels = self->panels;
  const struct {
    uint32_t index;
    const void **to;
  } taken[] = {{0, &n.x}, {3, &n.b}, {5, &n.h0}, {6, &n.c0},
               {7, &n.p}, {1, &n.w}, {2, &n.r}};
  bool room = true;
  size_t count = sizeof taken / sizeof *taken;
  if (n.transposed) n.w = self->w;
  for (size_t i = 0; i < count && room; i++)
    if (!(taken[i].index == 1 && (n.transposed || n.panels)) &&
        !(taken[i].index == 2 && self && self->r))
      room = recurrent_take(&n, taken[i].index, copies, taken[i].to);
  if (self && self->r)
    n.packed = self->r;
  else if (room)
    n.packed = packed =
        recurrent_pack(n.r, n.dtype, n.directions, n.gates, n.hidden);
  if (n.lengths && kd_has_output(launch, 0) && launch->outputs[0].size)
    memset(launch->outputs[0].data, 0, launch->outputs[0].size);
  status = room && n.packed ? begin_directions(&n, d)
                            : FAIL(KD_OUT_OF_MEMORY, "no memory for weights");
  if (status == KD_OK) run_directions(&n, d);
  free(packed);
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
    free(copies[i]);
  return status;
}
