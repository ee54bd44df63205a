/* move.c - ops that copy elements to other places: all as strided copies. */
#include "families/view.h"
#include "kernels.h"

/* ---- the strided copy ----------------------------------------------------- */

typedef struct copy_work {
  const strided *space; /* operands: target, source */
  size_t size;
  char *to;
  const char *from;
} copy_work;

#define COPY_ROW(TYPE)            \
  for (int64_t i = 0; i < n; i++) \
  ((TYPE *)(void *)to)[i * st] = ((const TYPE *)(const void *)from)[i * ss]

typedef struct pair {
  uint64_t low, high;
} pair;

static void copy_row(char *to, int64_t st, const char *from, int64_t ss,
                     int64_t n, size_t size) {
  if (st == 1 && ss == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  switch (size) {
    case 1:
      COPY_ROW(uint8_t);
      break;
    case 2:
      COPY_ROW(uint16_t);
      break;
    case 4:
      COPY_ROW(uint32_t);
      break;
    case 8:
      COPY_ROW(uint64_t);
      break;
    default:
      COPY_ROW(pair);
  }
}

static void copy_rows(void *context, int64_t begin, int64_t end) {
  const copy_work *work = context;
  const strided *space = work->space;
  int last = space->rank - 1;
  int64_t size = (int64_t)work->size;
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
  strided_row(space, begin, offsets);
  strided_index(space, begin, index);
  for (int64_t i = begin; i < end; i++) {
    copy_row(work->to + offsets[0] * size, space->steps[0][last],
             work->from + offsets[1] * size, space->steps[1][last],
             space->dims[last], work->size);
    strided_next(space, index, offsets);
  }
}

void cpu_copy_strided(strided *space, size_t size, void *to, const void *from) {
  if (!strided_count(space)) return;
  strided_simplify(space);
  copy_work work = {space, size, to, from};
  int64_t row = space->dims[space->rank - 1];
  cpu_host->parallel_for(strided_rows(space), CPU_GRAIN / row + 1, copy_rows,
                         &work);
}

/* ---- one source, one target ----------------------------------------------- */

/* Between a packed tensor and one that lies as the view says; `scatter`: that is the
 * target. */
static void move_view(const view *v, size_t size, bool scatter, void *to,
                      const void *from) {
  int64_t packed[STRIDED_RANK];
  size_t skip = (size_t)v->from * size;
  strided space;
  strided_begin(&space, v->dims, v->rank);
  strided_packed(v->dims, v->rank, packed);
  strided_operand(&space, scatter ? v->strides : packed);
  strided_operand(&space, scatter ? packed : v->strides);
  cpu_copy_strided(&space, size, (char *)to + (scatter ? skip : 0),
                   (const char *)from + (scatter ? 0 : skip));
}

/* The launch's first output from its first input. */
static kd_status fill_from(const kd_launch *launch, view v) {
  const kd_tensor *y = &launch->outputs[0];
  move_view(&v, kd_dtype_size(y->dtype), false, y->data,
            launch->inputs[0].data);
  return KD_OK;
}

CPU_KERNEL(cpu_run_transpose) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  const int64_t *perm = NULL;
  attr_ints(launch, "perm", &perm);
  return fill_from(launch, view_transpose(x->dims, x->rank, perm));
}

CPU_KERNEL(cpu_run_expand) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  int64_t packed[KD_MAX_RANK];
  strided space;
  strided_begin(&space, y->dims, y->rank);
  strided_packed(y->dims, y->rank, packed);
  strided_operand(&space, packed);
  strided_broadcast(&space, x->dims, x->rank);
  cpu_copy_strided(&space, kd_dtype_size(y->dtype), y->data, x->data);
  return KD_OK;
}

CPU_KERNEL(cpu_run_slice) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  view v = view_whole(x->dims, x->rank);
  int64_t count = kd_elements(&launch->inputs[1]);
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = axis_of(
        kd_has_input(launch, 3) ? int_at(&launch->inputs[3], i) : i, x->rank);
    view_slice(&v, axis, int_at(&launch->inputs[1], i),
               kd_has_input(launch, 4) ? int_at(&launch->inputs[4], i) : 1,
               y->dims[axis]);
  }
  return fill_from(launch, v);
}

CPU_KERNEL(cpu_run_depth_to_space) {
  (void)self;
  (void)stream;
  int64_t b = attr_int(launch, "blocksize", 1);
  bool crd = !strcmp(attr_string(launch, "mode", "DCR"), "CRD");
  return fill_from(launch,
                   view_depth_to_space(launch->inputs[0].dims,
                                       launch->outputs[0].dims[1], b, crd));
}

CPU_KERNEL(cpu_run_space_to_depth) {
  (void)self;
  (void)stream;
  const int64_t *y = launch->outputs[0].dims;
  return fill_from(launch,
                   view_space_to_depth(launch->inputs[0].dims, y[2], y[3],
                                       attr_int(launch, "blocksize", 1)));
}

CPU_KERNEL(cpu_run_tile) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  if (2 * x->rank > STRIDED_RANK)
    return FAIL(KD_UNIMPLEMENTED, "Tile takes at most %d dimensions",
                STRIDED_RANK / 2);
  return fill_from(launch, view_tile(x->dims, y->dims, x->rank));
}

/* ---- joining and cutting --------------------------------------------------- */

CPU_KERNEL(cpu_run_concat) {
  (void)self;
  (void)stream;
  const kd_tensor *y = &launch->outputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", 0), y->rank);
  int64_t at = 0;
  for (uint32_t i = 0; i < launch->input_count; i++) {
    const kd_tensor *x = &launch->inputs[i];
    view v = view_part(y->dims, y->rank, axis, at, x->dims[axis]);
    move_view(&v, kd_dtype_size(y->dtype), true, y->data, x->data);
    at += x->dims[axis];
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_split) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", 0), x->rank);
  int64_t at = 0;
  for (uint32_t i = 0; i < launch->output_count; i++) {
    const kd_tensor *y = &launch->outputs[i];
    view v = view_part(x->dims, x->rank, axis, at, y->dims[axis]);
    move_view(&v, kd_dtype_size(x->dtype), false, y->data, x->data);
    at += y->dims[axis];
  }
  return KD_OK;
}

/* ---- Pad ------------------------------------------------------------------- */

static int64_t mirrored(int64_t at, int64_t dim) {
  int64_t period = 2 * (dim - 1);
  if (dim == 1) return 0;
  at %= period;
  at += at < 0 ? period : 0;
  return at < dim ? at : period - at;
}

typedef enum pad_mode {
  PAD_CONSTANT,
  PAD_EDGE,
  PAD_REFLECT,
  PAD_WRAP
} pad_mode;

/* Where an element comes from along one dimension; -1: it is padding. */
static int64_t pad_source(int64_t at, int64_t dim, pad_mode mode) {
  if (at >= 0 && at < dim) return at;
  switch (mode) {
    case PAD_EDGE:
      return at < 0 ? 0 : dim - 1;
    case PAD_REFLECT:
      return mirrored(at, dim);
    case PAD_WRAP:
      return ((at % dim) + dim) % dim;
    default:
      return -1;
  }
}

static void read_pads(const kd_launch *launch, int64_t *begin) {
  uint32_t rank = launch->inputs[0].rank;
  const kd_tensor *pads = &launch->inputs[1];
  bool named = kd_has_input(launch, 3);
  int64_t count = named ? kd_elements(&launch->inputs[3]) : rank;
  for (uint32_t i = 0; i < rank; i++)
    begin[i] = 0;
  for (int64_t i = 0; i < count; i++)
    begin[axis_of(named ? int_at(&launch->inputs[3], i) : i, rank)] =
        int_at(pads, i);
}

CPU_KERNEL(cpu_run_pad) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const char *name = attr_string(launch, "mode", "constant");
  pad_mode mode = !strcmp(name, "edge")      ? PAD_EDGE
                  : !strcmp(name, "reflect") ? PAD_REFLECT
                  : !strcmp(name, "wrap")    ? PAD_WRAP
                                             : PAD_CONSTANT;
  size_t size = kd_dtype_size(x->dtype);
  char zero[16] = {0};
  const char *fill = kd_has_input(launch, 2) && kd_elements(&launch->inputs[2])
                         ? launch->inputs[2].data
                         : zero;
  int64_t begin[KD_MAX_RANK], at[KD_MAX_RANK] = {0}, packed[KD_MAX_RANK];
  if (strcmp(name, "constant") != 0 && mode == PAD_CONSTANT)
    return FAIL(KD_UNIMPLEMENTED, "Pad has no mode \"%s\"", name);
  if (mode != PAD_CONSTANT && !kd_elements(x) && kd_elements(y))
    return FAIL(KD_INVALID_ARGUMENT, "there is nothing to pad with");
  read_pads(launch, begin);
  strided_packed(x->dims, x->rank, packed);
  char *to = y->data;
  for (int64_t i = 0, n = kd_elements(y); i < n; i++, to += size) {
    int64_t from = 0;
    for (uint32_t d = 0; d < x->rank && from >= 0; d++) {
      int64_t source = pad_source(at[d] - begin[d], x->dims[d], mode);
      from = source < 0 ? -1 : from + source * packed[d];
    }
    memcpy(to, from < 0 ? fill : (const char *)x->data + from * (int64_t)size,
           size);
    for (uint32_t d = x->rank; d-- > 0;) {
      if (++at[d] < y->dims[d]) break;
      at[d] = 0;
    }
  }
  return KD_OK;
}

/* ---- others ---------------------------------------------------------------- */

CPU_KERNEL(cpu_run_trilu) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  bool upper = attr_int(launch, "upper", 1) != 0;
  int64_t k = kd_has_input(launch, 1) ? int_at(&launch->inputs[1], 0) : 0;
  if (x->rank < 2) return FAIL(KD_INVALID_ARGUMENT, "Trilu needs a matrix");
  int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  size_t size = kd_dtype_size(x->dtype);
  int64_t n = kd_elements(x);
  if (x->data != y->data && x->size) memcpy(y->data, x->data, x->size);
  for (int64_t i = 0; i < n; i++) {
    int64_t r = i / columns % rows, c = i % columns;
    bool keep = upper ? c - r >= k : c - r <= k;
    if (!keep) memset((char *)y->data + (size_t)i * size, 0, size);
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_reverse_sequence) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  int64_t batch_axis = attr_int(launch, "batch_axis", 1);
  if (x->rank < 2) return FAIL(KD_INVALID_ARGUMENT, "needs two dimensions");
  int64_t first = x->dims[0], second = x->dims[1];
  int64_t inner = product(x->dims, 2, x->rank);
  size_t size = (size_t)inner * kd_dtype_size(x->dtype);
  const kd_tensor *lengths = &launch->inputs[1];
  if (kd_elements(lengths) != (batch_axis ? second : first))
    return FAIL(KD_INVALID_ARGUMENT, "one length is needed for each batch");
  for (int64_t i = 0; i < first; i++)
    for (int64_t k = 0; k < second; k++) {
      int64_t time = batch_axis ? i : k, batch = batch_axis ? k : i;
      int64_t length = int_at(lengths, batch);
      int64_t steps = batch_axis ? first : second;
      if (length < 0 || length > steps)
        return FAIL(KD_INVALID_ARGUMENT, "length %lld of %lld steps",
                    (long long)length, (long long)steps);
      int64_t from = time < length ? length - 1 - time : time;
      int64_t at = batch_axis ? from * second + k : i * second + from;
      memcpy((char *)y->data + (size_t)(i * second + k) * size,
             (const char *)x->data + (size_t)at * size, size);
    }
  return KD_OK;
}
