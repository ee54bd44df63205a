/* move.c - ops that copy elements to other places: all as strided copies. */
#include "dialect.h"
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
  cpu_host->parallel_for(cpu_host, strided_rows(space), CPU_GRAIN / row + 1,
                         copy_rows, &work);
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

/* ---- one source, one target ----------------------------------------------- */

/* A packed tensor from one that lies as the view says. */
static void gather_view(const view *v, size_t size, void *to,
                        const void *from) {
  int64_t packed[STRIDED_RANK];
  strided space;
  strided_begin(&space, v->dims, v->rank);
  strided_packed(v->dims, v->rank, packed);
  strided_operand(&space, packed);
  strided_operand(&space, v->strides);
  cpu_copy_strided(&space, size, to,
                   (const char *)from + (size_t)v->from * size);
}

/* The launch's first output from its first input. */
static kd_status fill_from(const kd_launch *launch, view v) {
  const kd_tensor *y = &launch->outputs[0];
  gather_view(&v, kd_dtype_size(y->dtype), y->data, launch->inputs[0].data);
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
  cpu_spread(&launch->inputs[0], &launch->outputs[0]);
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
  bool crd = !strcmp(attr_string(launch, "mode", "DCR"), "CRD");
  return fill_from(launch,
                   view_space_to_depth(launch->inputs[0].dims, y[2], y[3],
                                       attr_int(launch, "blocksize", 1), crd));
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
  size_t size = kd_dtype_size(y->dtype);
  int64_t at = 0, packed[KD_MAX_RANK];
  strided_packed(y->dims, y->rank, packed);
  for (uint32_t i = 0; i < launch->input_count; i++) {
    const kd_tensor *x = &launch->inputs[i];
    strided space;
    strided_begin(&space, x->dims, x->rank);
    strided_operand(&space, packed);
    strided_tensor(&space, x);
    cpu_copy_strided(&space, size,
                     (char *)y->data + (size_t)(at * packed[axis]) * size,
                     x->data);
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
    gather_view(&v, kd_dtype_size(x->dtype), y->data, x->data);
    at += y->dims[axis];
  }
  return KD_OK;
}

/* ---- Pad ------------------------------------------------------------------- */

#define PAD(mode, expression)                              \
  static int64_t padded_##mode(int64_t at, int64_t size) { \
    return expression;                                     \
  }
#include "families/rules.def"

typedef int64_t (*pad_rule)(int64_t at, int64_t size);

static const struct {
  const char *mode;
  pad_rule rule;
} pad_rules[] = {
#define PAD(mode, expression) {#mode, padded_##mode},
#include "families/rules.def"
};

typedef struct pad_work {
  const kd_tensor *x, *y;
  pad_rule rule; /* NULL: padding is `fill` */
  const char *fill;
  size_t size;
  int64_t begin[KD_MAX_RANK], packed[KD_MAX_RANK];
} pad_work;

static void pad_one(const pad_work *work, char *to, const char *row, int64_t at,
                    int64_t size) {
  if (!WITHIN(at, size) && work->rule) at = work->rule(at, size);
  memcpy(to,
         row && WITHIN(at, size) ? row + (size_t)at * work->size : work->fill,
         work->size);
}

/* Rows of the result; what lies within the source's row is copied at once. */
static void pad_rows(void *context, int64_t first, int64_t end) {
  const pad_work *work = context;
  const kd_tensor *x = work->x, *y = work->y;
  int last = (int)x->rank - 1;
  int64_t n = y->dims[last], size = x->dims[last], begin = work->begin[last];
  int64_t middle = begin < 0 ? 0 : begin < n ? begin : n; /* where it starts */
  int64_t behind = begin + size < middle ? middle
                   : begin + size < n    ? begin + size
                                         : n;
  for (int64_t i = first; i < end; i++) {
    char *to = (char *)y->data + (size_t)(i * n) * work->size;
    const char *row = x->data;
    int64_t rest = i;
    for (int d = last - 1; d >= 0; rest /= y->dims[d--]) {
      int64_t at = rest % y->dims[d] - work->begin[d];
      bool within = WITHIN(at, x->dims[d]);
      if (!within && work->rule) at = work->rule(at, x->dims[d]);
      if (row && (within || work->rule))
        row += (size_t)(at * work->packed[d]) * work->size;
      else
        row = NULL;
    }
    for (int64_t k = 0; k < (row || work->rule ? middle : n); k++)
      pad_one(work, to + (size_t)k * work->size, row, k - begin, size);
    if (!row) continue;
    if (behind > middle)
      memcpy(to + (size_t)middle * work->size,
             row + (size_t)(middle - begin) * work->size,
             (size_t)(behind - middle) * work->size);
    for (int64_t k = behind; k < n; k++)
      pad_one(work, to + (size_t)k * work->size, row, k - begin, size);
  }
}

static void read_pads(const kd_launch *launch, int64_t *begin) {
  uint32_t rank = launch->inputs[0].rank;
  const kd_tensor *pads = &launch->inputs[1];
  bool named = kd_has_input(launch, 3);
  int64_t count = named ? kd_elements(&launch->inputs[3]) : rank;
  for (int64_t i = 0; i < count; i++)
    begin[axis_of(named ? int_at(&launch->inputs[3], i) : i, rank)] =
        int_at(pads, i);
}

CPU_KERNEL(cpu_run_pad) {
  (void)self;
  (void)stream;
  static const char zero[16];
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const char *mode = attr_string(launch, "mode", "constant");
  bool valued = kd_has_input(launch, 2) && kd_elements(&launch->inputs[2]);
  pad_work work = {.x = x,
                   .y = y,
                   .fill = valued ? launch->inputs[2].data : zero,
                   .size = kd_dtype_size(x->dtype)};
  for (size_t i = 0; i < sizeof pad_rules / sizeof *pad_rules; i++)
    if (!strcmp(mode, pad_rules[i].mode)) work.rule = pad_rules[i].rule;
  if (!work.rule && strcmp(mode, "constant") != 0)
    return FAIL(KD_UNIMPLEMENTED, "Pad has no mode \"%s\"", mode);
  if (!kd_elements(y)) return KD_OK;
  if (work.rule && !kd_elements(x))
    return FAIL(KD_INVALID_ARGUMENT, "there is nothing to pad with");
  if (!x->rank) {
    memcpy(y->data, x->data, work.size);
    return KD_OK;
  }
  read_pads(launch, work.begin);
  strided_packed(x->dims, x->rank, work.packed);
  int64_t row = y->dims[y->rank - 1];
  cpu_host->parallel_for(cpu_host, kd_elements(y) / row, CPU_GRAIN / row + 1,
                         pad_rows, &work);
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

/* The families' kernel on rows: an element is all behind the first two dimensions,
 * and its value where it lies. */
typedef struct reverse_work {
  const kd_tensor *lengths;
  const char *x;
  char *y;
  size_t size;
  int64_t first, second;
  bool batch_second;
} reverse_work;

static void reverse_rows(void *context, int64_t begin, int64_t end) {
  const reverse_work *work = context;
#define FAMILY_BODY
#define ITEMS        end
#define INNER        1
#define FIRST        work->first
#define SECOND       work->second
#define BATCH_SECOND work->batch_second
#define LENGTH(i)    int_at(work->lengths, i)
#define X(i)         (i)
#define SET_Y(i, v)                                                          \
  memcpy(work->y + (size_t)(i)*work->size, work->x + (size_t)(v)*work->size, \
         work->size)
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/reverse_sequence.k"
  }
}

CPU_KERNEL(cpu_run_reverse_sequence) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *lengths = &launch->inputs[1];
  bool batch_second = attr_int(launch, "batch_axis", 1) != 0;
  if (x->rank < 2) return FAIL(KD_INVALID_ARGUMENT, "needs two dimensions");
  reverse_work work = {
      .lengths = lengths,
      .x = x->data,
      .y = launch->outputs[0].data,
      .size = (size_t)product(x->dims, 2, x->rank) * kd_dtype_size(x->dtype),
      .first = x->dims[0],
      .second = x->dims[1],
      .batch_second = batch_second};
  int64_t steps = batch_second ? work.first : work.second;
  if (kd_elements(lengths) != (batch_second ? work.second : work.first))
    return FAIL(KD_INVALID_ARGUMENT, "one length is needed for each batch");
  for (int64_t i = 0, n = kd_elements(lengths); i < n; i++)
    if (int_at(lengths, i) < 0 || int_at(lengths, i) > steps)
      return FAIL(KD_INVALID_ARGUMENT, "length %lld of %lld steps",
                  (long long)int_at(lengths, i), (long long)steps);
  if (work.size)
    cpu_host->parallel_for(cpu_host, work.first * work.second,
                           CPU_GRAIN * 4 / (int64_t)work.size + 1, reverse_rows,
                           &work);
  return KD_OK;
}
