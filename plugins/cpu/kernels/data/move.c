/* move.c - ops that copy elements to other places: all as strided copies (copy.c). */
#include "dialect.h"
#include "families/view.h"
#include "kernels.h"

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
  const kd_tensor *x = &launch->inputs[0];
  const int64_t *perm = NULL;
  attr_ints(launch, "perm", &perm);
  return fill_from(launch, view_transpose(x->dims, x->rank, perm));
}

CPU_KERNEL(cpu_run_expand) {
  cpu_spread(&launch->inputs[0], &launch->outputs[0]);
  return KD_OK;
}

CPU_KERNEL(cpu_run_slice) {
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
  int64_t b = attr_int(launch, "blocksize", 1);
  bool crd = !strcmp(attr_string(launch, "mode", "DCR"), "CRD");
  return fill_from(launch,
                   view_depth_to_space(launch->inputs[0].dims,
                                       launch->outputs[0].dims[1], b, crd));
}

CPU_KERNEL(cpu_run_space_to_depth) {
  const int64_t *y = launch->outputs[0].dims;
  bool crd = !strcmp(attr_string(launch, "mode", "DCR"), "CRD");
  return fill_from(launch,
                   view_space_to_depth(launch->inputs[0].dims, y[2], y[3],
                                       attr_int(launch, "blocksize", 1), crd));
}

CPU_KERNEL(cpu_run_tile) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  if (2 * x->rank > STRIDED_RANK)
    return FAIL(KD_UNIMPLEMENTED, "Tile takes at most %d dimensions",
                STRIDED_RANK / 2);
  return fill_from(launch, view_tile(x->dims, y->dims, x->rank));
}

/* ---- joining and cutting --------------------------------------------------- */

CPU_KERNEL(cpu_run_concat) {
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
  int rank;
  /* x and y, what is not padded behind what is being one element, or one row */
  int64_t from[KD_MAX_RANK], to[KD_MAX_RANK];
  int64_t begin[KD_MAX_RANK], packed[KD_MAX_RANK];
  int64_t middle, behind; /* what comes from within a source's row */
  int64_t *places;        /* of what lies outside, where it comes from */
} pad_work;

#define FILL(T)                   \
  for (int64_t i = 0; i < n; i++) \
  ((T *)(void *)to)[i] = *(const T *)(const void *)value

void cpu_fill(void *target, const void *value, size_t size, int64_t n) {
  char *to = target;
  switch (size) {
    case 1:
      memset(to, *(const uint8_t *)value, (size_t)n);
      break;
    case 2:
      FILL(uint16_t);
      break;
    case 4:
      FILL(uint32_t);
      break;
    case 8:
      FILL(uint64_t);
      break;
    default:
      for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, value, size);
  }
}

#define PICK(T)                   \
  for (int64_t i = 0; i < n; i++) \
  ((T *)(void *)to)[i] = ((const T *)(const void *)row)[places[i]]

/* Padding of a row from the row itself. */
static void pick_places(char *to, const char *row, const int64_t *places,
                        int64_t n, size_t size) {
  switch (size) {
    CPU_SIZES(PICK)
    default:
      for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, row + (size_t)places[i] * size, size);
  }
}

/* The source's row of one of the result; NULL: it is padding. */
static const char *row_from(const pad_work *w, const int64_t *index) {
  int64_t row = 0;
  for (int d = 0; d < w->rank - 1; d++) {
    int64_t at = index[d] - w->begin[d];
    if (!WITHIN(at, w->from[d])) {
      if (!w->rule) return NULL;
      at = w->rule(at, w->from[d]);
    }
    row += at * w->packed[d];
  }
  return (const char *)w->x->data + (size_t)row * w->size;
}

static void pad_row(const pad_work *w, char *to, const char *row) {
  int64_t n = w->to[w->rank - 1], rest = n - w->behind;
  char *last = to + (size_t)w->behind * w->size;
  if (!row) {
    cpu_fill(to, w->fill, w->size, n);
    return;
  }
  if (w->rule) {
    pick_places(to, row, w->places, w->middle, w->size);
    pick_places(last, row, w->places + w->middle, rest, w->size);
  } else {
    cpu_fill(to, w->fill, w->size, w->middle);
    cpu_fill(last, w->fill, w->size, rest);
  }
  if (w->behind > w->middle)
    memcpy(to + (size_t)w->middle * w->size,
           row + (size_t)(w->middle - w->begin[w->rank - 1]) * w->size,
           (size_t)(w->behind - w->middle) * w->size);
}

#define SHORT \
  8 /* elements of a row that take longer to call for than to store */

#define STRIDED(T)                                               \
  do {                                                           \
    const T *from = (const void *)row;                           \
    T *at = (void *)to;                                          \
    for (int64_t i = 0; i < n; i++, from += taken, at += length) \
      for (int64_t k = 0; k < taken; k++)                        \
        at[k] = from[k];                                         \
  } while (0)

/* `taken` elements of each of n rows that follow each other, to every `length` of `to`. */
static void put_rows(char *to, const char *row, int64_t n, int64_t taken,
                     int64_t length, size_t size) {
  switch (size) {
    CPU_SIZES(STRIDED)
    default:
      for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)(i * length) * size,
               row + (size_t)(i * taken) * size, (size_t)taken * size);
  }
}

/* Rows of a few elements in one value: all are filled, and what the source has is stored, as many
 * rows at a time as differ in one dimension only. */
static void pad_short_rows(void *context, int64_t first, int64_t end) {
  const pad_work *w = context;
  const int last = w->rank - 1, along = w->rank - 2;
  const int64_t length = w->to[last];
  int64_t index[KD_MAX_RANK], rest = first;
  char *y = (char *)w->y->data + (size_t)(first * length) * w->size;
  cpu_fill(y, w->fill, w->size, (end - first) * length);
  for (int d = along; d >= 0; rest /= w->to[d--])
    index[d] = rest % w->to[d];
  for (int64_t i = first, n; i < end; i += n) {
    int64_t low = w->begin[along], high = low + w->from[along];
    n = w->to[along] - index[along];
    n = n < end - i ? n : end - i;
    low = low > index[along] ? low : index[along];
    high = high < index[along] + n ? high : index[along] + n;
    int64_t at = (i - first + low - index[along]) * length + w->middle;
    index[along] = low;
    const char *row = high > low ? row_from(w, index) : NULL;
    if (row)
      put_rows(y + (size_t)at * w->size,
               row + (size_t)(w->middle - w->begin[last]) * w->size, high - low,
               w->from[last], length, w->size);
    index[along] = w->to[along];
    for (int d = along; d >= 0 && index[d] == w->to[d]; d--) {
      index[d] = 0;
      if (d) index[d - 1]++;
    }
  }
}

static void pad_rows(void *context, int64_t first, int64_t end) {
  const pad_work *w = context;
  size_t bytes = (size_t)w->to[w->rank - 1] * w->size;
  int64_t index[KD_MAX_RANK], rest = first;
  for (int d = w->rank - 2; d >= 0; rest /= w->to[d--])
    index[d] = rest % w->to[d];
  for (int64_t i = first; i < end; i++) {
    pad_row(w, (char *)w->y->data + (size_t)i * bytes, row_from(w, index));
    for (int d = w->rank - 2; d >= 0 && ++index[d] == w->to[d]; d--)
      index[d] = 0;
  }
}

/* Dimensions at the end that are not padded join the one before them: as an element of
 * their size or, where padding is one value, as a longer row. */
static void join_dims(pad_work *w, const int64_t *pads) {
  int64_t inner = 1;
  int rank = (int)w->x->rank;
  while (rank > 1 && pads[rank - 1] == 0 &&
         w->x->dims[rank - 1] == w->y->dims[rank - 1])
    inner *= w->x->dims[--rank];
  w->rank = rank;
  for (int d = 0; d < rank; d++) {
    w->from[d] = w->x->dims[d];
    w->to[d] = w->y->dims[d];
    w->begin[d] = pads[d];
  }
  if (w->rule) {
    w->size *= (size_t)inner;
  } else {
    w->from[rank - 1] *= inner;
    w->to[rank - 1] *= inner;
    w->begin[rank - 1] *= inner;
  }
  strided_packed(w->from, (uint32_t)rank, w->packed);
}

/* What comes from where in a row; false: there is no memory. */
static bool plan_row(pad_work *w) {
  int64_t n = w->to[w->rank - 1], size = w->from[w->rank - 1];
  int64_t begin = w->begin[w->rank - 1];
  w->middle = begin < 0 ? 0 : begin < n ? begin : n;
  w->behind = begin + size < w->middle ? w->middle
              : begin + size < n       ? begin + size
                                       : n;
  if (!w->rule) return true;
  int64_t outside = w->middle + n - w->behind;
  w->places = malloc((size_t)(outside + 1) * sizeof *w->places);
  for (int64_t i = 0; i < outside && w->places; i++) {
    int64_t at = (i < w->middle ? i : i - w->middle + w->behind) - begin;
    w->places[i] = WITHIN(at, size) ? at : w->rule(at, size);
  }
  return w->places != NULL;
}

/* Whether all of a source's row stands in a short one. */
static bool short_rows(const pad_work *w) {
  return !w->rule && w->rank > 1 && w->to[w->rank - 1] <= SHORT &&
         w->behind - w->middle == w->from[w->rank - 1];
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
  int64_t pads[KD_MAX_RANK] = {0};
  read_pads(launch, pads);
  join_dims(&work, pads);
  if (!plan_row(&work)) return FAIL(KD_OUT_OF_MEMORY, "no memory for padding");
  int64_t row = work.to[work.rank - 1];
  cpu_host->parallel_for(cpu_host, product(work.to, 0, (uint32_t)work.rank - 1),
                         CPU_GRAIN / row + 1,
                         short_rows(&work) ? pad_short_rows : pad_rows, &work);
  free(work.places);
  return KD_OK;
}

/* ---- others ---------------------------------------------------------------- */

typedef struct trilu_work {
  const kd_tensor *x, *y;
  int64_t rows, columns, k;
  size_t size;
  bool upper;
} trilu_work;

/* What is kept of a row is one piece, at its end or at its start. */
static void trilu_rows(void *context, int64_t begin, int64_t end) {
  const trilu_work *w = context;
  size_t bytes = (size_t)w->columns * w->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t edge = w->k > w->columns ? w->columns
                   : w->k < -w->rows ? 0
                                     : i % w->rows + w->k + !w->upper;
    edge = edge < 0 ? 0 : edge < w->columns ? edge : w->columns;
    size_t cut = (size_t)edge * w->size, from = w->upper ? cut : 0;
    size_t kept = w->upper ? bytes - cut : cut;
    char *to = (char *)w->y->data + (size_t)i * bytes;
    const char *x = (const char *)w->x->data + (size_t)i * bytes;
    if (to != x) memcpy(to + from, x + from, kept);
    memset(to + (w->upper ? 0 : cut), 0, bytes - kept);
  }
}

CPU_KERNEL(cpu_run_trilu) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  bool upper = attr_int(launch, "upper", 1) != 0;
  int64_t k = kd_has_input(launch, 1) ? int_at(&launch->inputs[1], 0) : 0;
  if (x->rank < 2) return FAIL(KD_INVALID_ARGUMENT, "Trilu needs a matrix");
  int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  size_t size = kd_dtype_size(x->dtype);
  trilu_work work = {x, y, rows, columns, k, size, upper};
  if (x->size)
    cpu_host->parallel_for(cpu_host, kd_elements(x) / columns,
                           CPU_GRAIN / columns + 1, trilu_rows, &work);
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
