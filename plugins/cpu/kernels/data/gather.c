/* gather.c - ops that pick or place elements by indices, and that make data. */
#include <stdatomic.h>

#include "dialect.h"
#include "families/view.h"
#include "kernels.h"

typedef struct check_work {
  const kd_tensor *indices;
  const int64_t *dims;
  int64_t count;
  atomic_bool outside;
} check_work;

/* The least and the largest of every `step`th index are enough. */
#define SPAN(I, step)                                   \
  for (int64_t i = begin; i < end; i++) {               \
    int64_t index = ((const I *)data)[i * (step) + at]; \
    least = index < least ? index : least;              \
    most = index > most ? index : most;                 \
  }
#define SPAN_BY(I) \
  if (step == 1)   \
    SPAN(I, 1)     \
  else             \
    SPAN(I, step)

static void check_tuples(void *context, int64_t begin, int64_t end) {
  check_work *work = context;
  const void *data = work->indices->data;
  int64_t step = work->count;
  for (int64_t at = 0; at < step && begin < end; at++) {
    int64_t least = 0, most = -work->dims[at];
    if (work->indices->dtype == KD_I64) {
      SPAN_BY(int64_t)
    } else {
      SPAN_BY(int32_t)
    }
    if (least < -work->dims[at] || most >= work->dims[at])
      atomic_store(&work->outside, true);
  }
}

/* Fails where an index leaves its dimension: they name places in `count` dimensions in
 * turn. */
static kd_status check_indices(const kd_launch *launch, const int64_t *dims,
                               int64_t count) {
  const kd_tensor *indices = &launch->inputs[1];
  int64_t n = kd_elements(indices);
  check_work work = {.indices = indices, .dims = dims, .count = count};
  cpu_host->parallel_for(cpu_host, n / count, CPU_GRAIN / count + 1,
                         check_tuples, &work);
  for (int64_t i = 0; i < n && atomic_load(&work.outside); i++)
    if (!index_fits(int_at(indices, i), dims[i % count]))
      return FAIL(KD_OUT_OF_RANGE,
                  "%s: index %lld (element %lld) in a dimension of %lld",
                  cpu_host->node->op(launch->node),
                  (long long)int_at(indices, i), (long long)i,
                  (long long)dims[i % count]);
  return KD_OK;
}

/* ---- the families' kernels, on rows -----------------------------------------
 *
 * What lies side by side is moved as one: an element is a row of n here, and its
 * value where it lies in the source. */

typedef void (*combiner)(void *to, const void *from, int64_t n);

typedef struct rows_work {
  const kd_tensor *indices;
  const char *from;
  char *to;
  combiner combine; /* NULL: rows are copied */
  int64_t n;
  size_t size; /* bytes of a row */
  /* the kernels' parameters */
  int64_t picked, dim, depth, per_batch, batch_size;
  int rank, axis;
  const int64_t *dims, *sizes;
  int64_t steps[KD_MAX_RANK];
} rows_work;

static void set_row(const rows_work *work, int64_t to, int64_t from) {
  char *target = work->to + (size_t)to * work->size;
  const char *source = work->from + (size_t)from * work->size;
  if (work->combine)
    work->combine(target, source, work->n);
  else if (work->size == 4) /* without a call */
    memcpy(target, source, 4);
  else if (work->size == 8)
    memcpy(target, source, 8);
  else
    memcpy(target, source, work->size);
}

#define FAMILY_BODY
#define ITEMS         end
#define X_t           int64_t
#define X(i)          (i)
#define UPDATE(i)     (i)
#define SET_Y(i, v)   set_row(work, i, v)
#define ZERO_OF(type) 0 /* indices were checked */
#define INDEX_t       int64_t
#define INDEX(i)      int_at(work->indices, i)
#define INNER         1
#define SLICE         1
#define PICKED        work->picked
#define TUPLES        work->picked
#define DIM           work->dim
#define DEPTH         work->depth
#define PER_BATCH     work->per_batch
#define BATCH_SIZE    work->batch_size
#define RANK          work->rank
#define AXIS          work->axis
#define DIMS(d)       work->dims[d]
#define SIZES(d)      work->sizes[d]
#define STEPS(d)      work->steps[d]

static void gather_rows(void *context, int64_t begin, int64_t end) {
  const rows_work *work = context;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/gather.k"
  }
}

static void gather_nd_rows(void *context, int64_t begin, int64_t end) {
  const rows_work *work = context;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/gather_nd.k"
  }
}

/* one item: updates keep their order */
static void scatter_nd_rows(void *context, int64_t begin, int64_t end) {
  const rows_work *work = context;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/scatter_nd.k"
  }
}

/* ---- gathering ------------------------------------------------------------ */

static void make_rows(rows_work *work, const kd_launch *launch,
                      const kd_tensor *from, int64_t n) {
  work->indices = &launch->inputs[1];
  work->from = from->data;
  work->to = launch->outputs[0].data;
  work->n = n;
  work->size = (size_t)n * kd_dtype_size(from->dtype);
}

CPU_KERNEL(cpu_run_gather) {
  const kd_tensor *x = &launch->inputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", 0), x->rank);
  rows_work work = {.picked = kd_elements(&launch->inputs[1]),
                    .dim = x->dims[axis]};
  kd_status status = check_indices(launch, &x->dims[axis], 1);
  make_rows(&work, launch, x, product(x->dims, axis + 1, x->rank));
  if (status == KD_OK && work.size)
    cpu_host->parallel_for(cpu_host, product(x->dims, 0, axis) * work.picked,
                           CPU_GRAIN * 4 / (int64_t)work.size + 1, gather_rows,
                           &work);
  return status;
}

/* Tuples of indices name slices of x from dimension `first` on. */
static kd_status make_tuples(rows_work *work, const kd_launch *launch,
                             const kd_tensor *from, uint32_t first) {
  const kd_tensor *x = &launch->inputs[0], *indices = &launch->inputs[1];
  int64_t depth = indices->dims[indices->rank - 1];
  uint32_t behind = first + (uint32_t)depth;
  work->depth = depth;
  work->picked = depth ? kd_elements(indices) / depth : 0;
  work->sizes = x->dims + first;
  strided_packed(work->sizes, (uint32_t)depth, work->steps);
  make_rows(work, launch, from, product(x->dims, behind, x->rank));
  return depth ? check_indices(launch, work->sizes, depth) : KD_OK;
}

CPU_KERNEL(cpu_run_gather_nd) {
  const kd_tensor *x = &launch->inputs[0];
  uint32_t batch_dims = (uint32_t)attr_int(launch, "batch_dims", 0);
  int64_t batches = product(x->dims, 0, batch_dims);
  rows_work work = {0};
  kd_status status = make_tuples(&work, launch, x, batch_dims);
  work.per_batch = batches ? work.picked / batches : 0;
  work.batch_size =
      product(x->dims, batch_dims, batch_dims + (uint32_t)work.depth);
  if (status == KD_OK && work.size)
    cpu_host->parallel_for(cpu_host, work.picked,
                           CPU_GRAIN * 4 / (int64_t)work.size + 1,
                           gather_nd_rows, &work);
  return status;
}

/* ---- GatherElements: the result's index space, with x's strides ------------ */

typedef struct pick_work {
  const kd_tensor *x, *indices, *y;
  strided space;       /* operand 0: x, that stands still along the axis */
  int64_t dim, step;   /* of the axis */
  atomic_bool outside; /* an index leaves it */
} pick_work;

#define PICK_BY(TYPE, I)                                                   \
  for (int64_t k = 0; k < n; k++) {                                        \
    int64_t given = ((const I *)work->indices->data)[at + k];              \
    int64_t place = given + (given < 0 ? dim : 0);                         \
    bool within = (uint64_t)place < (uint64_t)dim;                         \
    outside |= !within;                                                    \
    ((TYPE *)y)[at + k] =                                                  \
        ((const TYPE *)x)[from + k * apart + (within ? place : 0) * step]; \
  }
#define PICK_ROW(TYPE)     \
  if (wide)                \
    PICK_BY(TYPE, int64_t) \
  else                     \
    PICK_BY(TYPE, int32_t)

typedef struct sixteen {
  uint64_t low, high;
} sixteen;

static void pick_rows(void *context, int64_t begin, int64_t end) {
  pick_work *work = context;
  bool outside = false;
  const strided *space = &work->space;
  const void *x = work->x->data;
  void *y = work->y->data;
  int last = space->rank - 1;
  int64_t n = space->dims[last], apart = space->steps[0][last];
  int64_t dim = work->dim, step = work->step;
  bool wide = work->indices->dtype == KD_I64;
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
  strided_row(space, begin, offsets);
  strided_index(space, begin, index);
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * n, from = offsets[0];
    switch (kd_dtype_size(work->x->dtype)) {
      CPU_SIZES(PICK_ROW)
      default:
        PICK_ROW(sixteen);
    }
    strided_next(space, index, offsets);
  }
  if (outside) atomic_store(&work->outside, true);
}

CPU_KERNEL(cpu_run_gather_elements) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", 0), x->rank);
  int64_t strides[KD_MAX_RANK] = {0};
  pick_work work = {.x = x, .indices = &launch->inputs[1], .y = y};
  if (!kd_elements(y)) return KD_OK;
  if (!kd_elements(x)) return check_indices(launch, &x->dims[axis], 1);
  strided_packed(x->dims, x->rank, strides);
  work.dim = x->dims[axis];
  work.step = strides[axis];
  strides[axis] = 0;
  strided_begin(&work.space, y->dims, y->rank);
  strided_operand(&work.space, strides);
  strided_simplify(&work.space);
  int64_t row = work.space.dims[work.space.rank - 1];
  cpu_host->parallel_for(cpu_host, strided_rows(&work.space),
                         CPU_GRAIN / row + 1, pick_rows, &work);
  return atomic_load(&work.outside) ? check_indices(launch, &x->dims[axis], 1)
                                    : KD_OK;
}

/* ---- scattering ----------------------------------------------------------- */

#define EACH "data/combine_typed.h"
#include "each_float.h"
#include "each_int.h"
#define TYPE truth /* bool */
#include EACH
#undef TYPE

static const struct {
  const char *name;
  combiner by_type[KD_DTYPE_COUNT];
} combiners[] = {
#define COMBINE(reduction, expression) \
  {#reduction,                         \
   {FLOAT_TABLE(reduction),            \
    INT_TABLE(reduction), [KD_BOOL] = reduction##_truth}},
#include "families/rules.def"
};

/* Complex numbers are only moved. */
CPU_SUPPORTS(scatter) {
  kd_type type;
  kd_status status = cpu_host->node->input_type(node, 0, &type);
  const char *name = cpu_host->node->attr_string(node, "reduction", "none");
  if (status == KD_OK && strcmp(name, "none") != 0 &&
      (type.dtype == KD_C64 || type.dtype == KD_C128))
    return FAIL(KD_UNIMPLEMENTED, "reduction \"%s\" of %s", name,
                kd_dtype_name(type.dtype));
  return KD_OK;
}

/* How updates meet what is there, which the output has already. */
static kd_status begin_scatter(const kd_launch *launch, combiner *out_combine) {
  const kd_tensor *x = &launch->inputs[0];
  const char *name = attr_string(launch, "reduction", "none");
  *out_combine = NULL;
  for (size_t i = 0; i < sizeof combiners / sizeof *combiners; i++)
    if (!strcmp(name, combiners[i].name))
      *out_combine = combiners[i].by_type[x->dtype];
  if (!*out_combine && strcmp(name, "none") != 0)
    return FAIL(KD_UNIMPLEMENTED, "reduction \"%s\" of %s", name,
                kd_dtype_name(x->dtype));
  return KD_OK;
}

/* Lines along the axis, in rows of those that lie beside each other; operands: x, updates. */
typedef struct lines_work {
  const kd_tensor *indices, *updates;
  char *y;
  combiner combine; /* NULL: elements are copied */
  strided space;
  int64_t dim, line;          /* of the axis: of x, of updates */
  int64_t to_step, from_step; /* along it */
  int64_t piece;              /* lines of a row that go together */
  size_t size;
} lines_work;

static inline int64_t target_of(const lines_work *w, int64_t from) {
  int64_t given = int_at(w->indices, from);
  return (given + (given < 0 ? w->dim : 0)) * w->to_step;
}

#define SCATTER(T)                                      \
  for (int64_t k = 0; k < n; k++, to += sx, from += su) \
  ((T *)w->y)[to + target_of(w, from)] = ((const T *)w->updates->data)[from]

/* n updates, one of each line of a row or all of a line. */
static void scatter_some(const lines_work *w, int64_t to, int64_t sx,
                         int64_t from, int64_t su, int64_t n) {
  const char *updates = w->updates->data;
  if (!w->combine && w->size == 4) {
    SCATTER(uint32_t);
  } else if (!w->combine && w->size == 8) {
    SCATTER(uint64_t);
  } else {
    for (int64_t k = 0; k < n; k++, to += sx, from += su) {
      char *target = w->y + (size_t)(to + target_of(w, from)) * w->size;
      if (w->combine)
        w->combine(target, updates + (size_t)from * w->size, 1);
      else
        memcpy(target, updates + (size_t)from * w->size, w->size);
    }
  }
}

/* A line's updates keep their order: line by line where the axis is the last one, or
 * all lines of a row at once. */
static void scatter_lines(void *context, int64_t begin, int64_t end) {
  const lines_work *w = context;
  const strided *space = &w->space;
  int last = space->rank - 1;
  int64_t sx = space->steps[0][last], su = space->steps[1][last];
  int64_t parts = (space->dims[last] + w->piece - 1) / w->piece;
  for (int64_t part = begin; part < end; part++) {
    int64_t offsets[STRIDED_OPERANDS], first = part % parts * w->piece;
    int64_t left = space->dims[last] - first;
    int64_t n = left < w->piece ? left : w->piece;
    strided_row(space, part / parts, offsets);
    int64_t to = offsets[0] + first * sx, from = offsets[1] + first * su;
    for (int64_t k = 0; k < n && w->from_step == 1; k++)
      scatter_some(w, to + k * sx, 0, from + k * su, 1, w->line);
    for (int64_t i = 0; i < w->line && w->from_step != 1; i++)
      scatter_some(w, to, sx, from + i * w->from_step, su, n);
  }
}

CPU_KERNEL(cpu_run_scatter_elements) {
  const kd_tensor *x = &launch->inputs[0], *indices = &launch->inputs[1];
  uint32_t axis = axis_of(attr_int(launch, "axis", 0), x->rank);
  int64_t of_x[KD_MAX_RANK] = {0}, of_updates[KD_MAX_RANK] = {0};
  int64_t dims[KD_MAX_RANK];
  lines_work work = {.indices = indices,
                     .updates = &launch->inputs[2],
                     .y = launch->outputs[0].data,
                     .dim = x->dims[axis],
                     .line = indices->dims[axis],
                     .size = kd_dtype_size(x->dtype)};
  kd_status status = check_indices(launch, &x->dims[axis], 1);
  if (status == KD_OK) status = begin_scatter(launch, &work.combine);
  if (status != KD_OK || !kd_elements(indices)) return status;
  strided_packed(x->dims, x->rank, of_x);
  strided_packed(indices->dims, x->rank, of_updates);
  work.to_step = of_x[axis];
  work.from_step = of_updates[axis];
  memcpy(dims, indices->dims, x->rank * sizeof *dims);
  dims[axis] = 1;
  strided_begin(&work.space, dims, x->rank);
  strided_operand(&work.space, of_x);
  strided_operand(&work.space, of_updates);
  strided_simplify(&work.space);
  int64_t beside = work.space.dims[work.space.rank - 1];
  work.piece = CPU_GRAIN / 4 / work.line + 64;
  work.piece = work.piece < beside ? work.piece : beside;
  cpu_host->parallel_for(
      cpu_host,
      strided_rows(&work.space) * ((beside + work.piece - 1) / work.piece),
      CPU_GRAIN / 4 / (work.line * work.piece) + 1, scatter_lines, &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_scatter_nd) {
  rows_work work = {0};
  kd_status status = make_tuples(&work, launch, &launch->inputs[2], 0);
  if (status == KD_OK) status = begin_scatter(launch, &work.combine);
  if (status == KD_OK && work.size) scatter_nd_rows(&work, 0, 1);
  return status;
}

/* A tensor's elements, all of one value. */
typedef struct fill_work {
  char *to;
  const void *value;
  size_t size;
} fill_work;

static void fill_part(void *context, int64_t begin, int64_t end) {
  const fill_work *work = context;
  cpu_fill(work->to + (size_t)begin * work->size, work->value, work->size,
           end - begin);
}

static void fill_all(const kd_tensor *y, const void *value) {
  fill_work work = {y->data, value, kd_dtype_size(y->dtype)};
  cpu_host->parallel_for(cpu_host, kd_elements(y), CPU_GRAIN * 2, fill_part,
                         &work);
}

typedef struct hot_work {
  const kd_tensor *indices;
  char *y;
  const char *on;
  int64_t depth, inner;
  size_t size;
} hot_work;

static void set_hot(void *context, int64_t begin, int64_t end) {
  const hot_work *w = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t given = cpu_get_whole(w->indices->data, w->indices->dtype, i);
    int64_t hot = FROM_END(int64_t, given, w->depth);
    if (!WITHIN(hot, w->depth)) continue;
    int64_t to = (i / w->inner * w->depth + hot) * w->inner + i % w->inner;
    memcpy(w->y + (size_t)to * w->size, w->on, w->size);
  }
}

CPU_KERNEL(cpu_run_one_hot) {
  const kd_tensor *indices = &launch->inputs[0], *y = &launch->outputs[0];
  const char *values = launch->inputs[2].data;
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), y->rank);
  hot_work work = {.indices = indices,
                   .y = y->data,
                   .depth = y->dims[axis],
                   .inner = product(y->dims, axis + 1, y->rank),
                   .size = kd_dtype_size(y->dtype)};
  work.on = values + work.size;
  if (!kd_elements(y)) return KD_OK;
  fill_all(y, values);
  cpu_host->parallel_for(cpu_host, kd_elements(indices), CPU_GRAIN / 8, set_hot,
                         &work);
  return KD_OK;
}

/* ---- making data ----------------------------------------------------------- */

CPU_KERNEL(cpu_run_constant_of_shape) {
  const kd_tensor *y = &launch->outputs[0];
  kd_tensor value;
  static const uint64_t zero[2];
  if (!y->size) return KD_OK;
  kd_status status = cpu_host->node->attr_tensor(launch->node, "value", &value);
  if (status != KD_OK && status != KD_NOT_FOUND) return status;
  fill_all(y, status == KD_OK ? value.data : (const void *)zero);
  return KD_OK;
}

CPU_KERNEL(cpu_run_range) {
  const kd_tensor *y = &launch->outputs[0];
  kd_dtype dtype = y->dtype;
  int64_t n = kd_elements(y);
  if (dtype == KD_I64 || dtype == KD_I32 || dtype == KD_I16) {
    uint64_t start = (uint64_t)cpu_get_whole(launch->inputs[0].data, dtype, 0);
    uint64_t delta = (uint64_t)cpu_get_whole(launch->inputs[2].data, dtype, 0);
    for (int64_t i = 0; i < n && dtype == KD_I64; i++)
      ((uint64_t *)y->data)[i] = start + (uint64_t)i * delta;
    for (int64_t i = 0; i < n && dtype != KD_I64; i++) {
      uint64_t value = start + (uint64_t)i * delta;
      memcpy((char *)y->data + (size_t)i * kd_dtype_size(dtype), &value,
             kd_dtype_size(dtype));
    }
    return KD_OK;
  }
  double start = cpu_get(launch->inputs[0].data, dtype, 0);
  double delta = cpu_get(launch->inputs[2].data, dtype, 0);
  for (int64_t i = 0; i < n; i++)
    cpu_set(y->data, dtype, i, start + (double)i * delta);
  return KD_OK;
}

CPU_KERNEL(cpu_run_eye_like) {
  const kd_tensor *y = &launch->outputs[0];
  int64_t k = attr_int(launch, "k", 0), columns = y->dims[1];
  for (int64_t r = 0; r < y->dims[0]; r++)
    for (int64_t c = 0; c < columns; c++)
      cpu_set(y->data, y->dtype, r * columns + c, c - r == k);
  return KD_OK;
}

/* Windows of ONNX-17: a0 - a1 cos + a2 cos, over size or size - 1. */
CPU_KERNEL(cpu_run_window) {
  const kd_tensor *y = &launch->outputs[0];
  const char *op = cpu_host->node->op(launch->node);
  bool periodic = attr_int(launch, "periodic", 1) != 0;
  int64_t n = kd_elements(y);
  double span = (double)(periodic ? n : n - 1);
  double a0 = *op == 'B' ? 0.42 : 0.5, a1 = 0.5, a2 = *op == 'B' ? 0.08 : 0;
  if (!strcmp(op, "HammingWindow")) {
    a0 = 25.0 / 46;
    a1 = 1 - a0;
  }
  for (int64_t i = 0; i < n; i++) {
    double at = 2 * 3.14159265358979323846 * (double)i / span;
    cpu_set(y->data, y->dtype, i, a0 - a1 * cos(at) + a2 * cos(2 * at));
  }
  return KD_OK;
}
