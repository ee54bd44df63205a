/* dynamic.c - ops whose output's size depends on data. */
#include "kernels.h"
#include "keys.h"

CPU_KERNEL(cpu_run_compress) {
  const kd_tensor *x = &launch->inputs[0], *condition = &launch->inputs[1];
  const uint8_t *keep = condition->data;
  bool flat = cpu_host->node->attr_kind(launch->node, "axis") == KD_ATTR_ABSENT;
  int64_t axis_attr = attr_int(launch, "axis", 0);
  int64_t all = kd_elements(x), dims[KD_MAX_RANK];
  if (!flat && (axis_attr < -(int64_t)x->rank || axis_attr >= (int64_t)x->rank))
    return FAIL(KD_INVALID_ARGUMENT, "axis is %lld", (long long)axis_attr);
  uint32_t axis = flat ? 0 : axis_of(axis_attr, x->rank);
  int64_t dim = flat ? all : x->dims[axis];
  int64_t outer = flat ? 1 : product(x->dims, 0, axis);
  int64_t inner = flat ? 1 : product(x->dims, axis + 1, x->rank);
  int64_t length = kd_elements(condition), kept = 0;
  length = length < dim ? length : dim;
  for (int64_t i = 0; i < length; i++)
    kept += keep[i] != 0;
  for (uint32_t i = 0; i < x->rank && !flat; i++)
    dims[i] = x->dims[i];
  dims[axis] = kept;
  kd_tensor y;
  kd_status status =
      cpu_host->set_output(launch, 0, flat ? 1 : x->rank, dims, &y);
  if (status != KD_OK) return status;
  size_t size = (size_t)inner * kd_dtype_size(x->dtype);
  char *to = y.data;
  for (int64_t o = 0; o < outer && size; o++)
    for (int64_t i = 0; i < length; i++)
      if (keep[i]) {
        memcpy(to, (const char *)x->data + (size_t)(o * dim + i) * size, size);
        to += size;
      }
  return KD_OK;
}

/* ---- NonZero ----------------------------------------------------------------- */

/* Zeros of floats have any sign. */
#define FLAGS(T, part)            \
  for (int64_t i = 0; i < n; i++) \
  flags[i] = (((const T *)from)[i] & (T)(part)) != 0

/* Of n elements, which ones are not zero. */
static void flag_elements(const kd_tensor *x, int64_t first, int64_t n,
                          uint8_t *flags) {
  size_t size = kd_dtype_size(x->dtype);
  const void *from = (const char *)x->data + (size_t)first * size;
  bool real = (KD_TYPES_FLOAT & KD_TYPES(x->dtype)) != 0;
  if (x->dtype == KD_C64 || x->dtype == KD_C128) {
    kd_dtype part = x->dtype == KD_C64 ? KD_F32 : KD_F64;
    for (int64_t i = 0; i < n; i++)
      flags[i] = cpu_get(from, part, 2 * i) != 0 ||
                 cpu_get(from, part, 2 * i + 1) != 0;
    return;
  }
  if (size == 1)
    FLAGS(uint8_t, UINT8_MAX);
  else if (size == 2)
    FLAGS(uint16_t, real ? INT16_MAX : UINT16_MAX);
  else if (size == 4)
    FLAGS(uint32_t, real ? INT32_MAX : UINT32_MAX);
  else
    FLAGS(uint64_t, real ? INT64_MAX : UINT64_MAX);
}

#define FLAGGED 1024 /* elements at once */

typedef struct places {
  const int64_t *dims;
  int rank;
  int64_t count, at; /* of those that are not zero; how many are written */
  int64_t index[KD_MAX_RANK];
  int64_t *to;
} places;

/* The flagged ones of n elements, the first of which stands at p->index. */
static void write_places(places *p, const uint8_t *flags, int64_t n) {
  int last = p->rank - 1;
  for (int64_t i = 0, run; i < n; i += run) {
    int64_t left = p->dims[last] - p->index[last];
    run = left < n - i ? left : n - i;
    for (int64_t k = 0; k < run; k++) {
      if (!flags[i + k]) continue;
      for (int d = 0; d < last; d++)
        p->to[d * p->count + p->at] = p->index[d];
      p->to[last * p->count + p->at++] = p->index[last] + k;
    }
    p->index[last] += run;
    for (int d = last; d > 0 && p->index[d] == p->dims[d]; d--) {
      p->index[d] = 0;
      p->index[d - 1]++;
    }
  }
}

CPU_KERNEL(cpu_run_non_zero) {
  const kd_tensor *x = &launch->inputs[0];
  int64_t n = kd_elements(x);
  uint8_t flags[FLAGGED];
  places p = {.dims = x->dims, .rank = (int)x->rank};
  for (int64_t i = 0; i < n; i += FLAGGED) {
    int64_t some = n - i < FLAGGED ? n - i : FLAGGED;
    flag_elements(x, i, some, flags);
    for (int64_t k = 0; k < some; k++)
      p.count += flags[k];
  }
  int64_t dims[2] = {x->rank, p.count};
  kd_tensor y;
  kd_status status = cpu_host->set_output(launch, 0, 2, dims, &y);
  if (status != KD_OK) return status;
  p.to = y.data;
  /* a scalar has no places: none to tell, if not zero */
  for (int64_t i = 0; i < n && x->rank; i += FLAGGED) {
    int64_t some = n - i < FLAGGED ? n - i : FLAGGED;
    flag_elements(x, i, some, flags);
    write_places(&p, flags, some);
  }
  return KD_OK;
}

/* ---- Unique ------------------------------------------------------------------ */

/* Slices of a tensor along an axis: `outer` runs of `inner` elements, `n` slices
 * apart. Flat data has slices of one element. */
typedef struct slices {
  const kd_tensor *of;
  int64_t outer, n, inner;
} slices;

static int compare_elements(const kd_tensor *x, int64_t a, int64_t b) {
  if (x->dtype == KD_I64) {
    const int64_t *data = x->data;
    return (data[a] > data[b]) - (data[a] < data[b]);
  }
  if (x->dtype == KD_U64) {
    const uint64_t *data = x->data;
    return (data[a] > data[b]) - (data[a] < data[b]);
  }
  double p = cpu_get(x->data, x->dtype, a), q = cpu_get(x->data, x->dtype, b);
  if (p != p || q != q) return (p != p) - (q != q); /* NaN behind all */
  return (p > q) - (p < q);
}

static int compare_slices(const slices *s, int64_t a, int64_t b) {
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      int order = compare_elements(s->of, (o * s->n + a) * s->inner + i,
                                   (o * s->n + b) * s->inner + i);
      if (order) return order;
    }
  return 0;
}

/* Sorts slice numbers, equals by number: from `order` through `room`. */
static void merge_sort(const slices *s, int64_t *order, int64_t *room,
                       int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t from = 0; from < n; from += 2 * width) {
      int64_t middle = from + width < n ? from + width : n;
      int64_t end = from + 2 * width < n ? from + 2 * width : n;
      int64_t a = from, b = middle;
      for (int64_t i = from; i < end; i++) {
        bool left = a < middle &&
                    (b >= end || compare_slices(s, order[a], order[b]) <= 0);
        room[i] = order[left ? a++ : b++];
      }
    }
    memcpy(order, room, (size_t)n * sizeof *order);
  }
}

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* What Unique finds: the first slice of each kind, in the order of the output,
 * and for each slice which kind it is. */
typedef struct kinds {
  int64_t count, *first, *kind;
} kinds;

/* Slices of one element, by its keys; false: no memory. */
static bool find_elements(const slices *s, int64_t *room, kinds *out) {
  cpu_key *keys = malloc(((size_t)s->n * 2 + 1) * sizeof *keys);
  if (!keys) return false;
  cpu_keys_of(s->of->data, s->of->dtype, 1, s->n, false, keys);
  cpu_keys_sort(keys, keys + s->n, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    if (!i || keys[i - 1].key != keys[i].key)
      out->first[out->count++] = keys[i].at;
    room[keys[i].at] = out->first[out->count - 1];
  }
  free(keys);
  return true;
}

static void find_slices(const slices *s, int64_t *order, int64_t *room,
                        kinds *out) {
  for (int64_t i = 0; i < s->n; i++)
    order[i] = i;
  merge_sort(s, order, room, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    if (!i || compare_slices(s, order[i - 1], order[i]) != 0)
      out->first[out->count++] = order[i];
    room[order[i]] = out->first[out->count - 1];
  }
}

static void find_kinds(const slices *s, bool sorted, int64_t *order,
                       int64_t *room, kinds *out) {
  bool single = s->outer == 1 && s->inner == 1;
  if (!single || !find_elements(s, room, out)) find_slices(s, order, room, out);
  if (!sorted)
    qsort(out->first, (size_t)out->count, sizeof *out->first, by_number);
  for (int64_t k = 0; k < out->count; k++)
    order[out->first[k]] = k; /* of a first slice, its kind */
  for (int64_t i = 0; i < s->n; i++)
    out->kind[i] = order[room[i]];
}

static kd_status give_slices(const kd_launch *launch, const slices *s,
                             const kinds *found, bool flat, uint32_t axis) {
  const kd_tensor *x = s->of;
  int64_t dims[KD_MAX_RANK] = {found->count};
  for (uint32_t d = 0; d < x->rank && !flat; d++)
    dims[d] = d == axis ? found->count : x->dims[d];
  kd_tensor y;
  kd_status status =
      cpu_host->set_output(launch, 0, flat ? 1 : x->rank, dims, &y);
  if (status != KD_OK) return status;
  size_t size = (size_t)s->inner * kd_dtype_size(x->dtype);
  for (int64_t o = 0; o < s->outer && size; o++)
    for (int64_t k = 0; k < found->count; k++)
      memcpy(
          (char *)y.data + (size_t)(o * found->count + k) * size,
          (const char *)x->data + (size_t)(o * s->n + found->first[k]) * size,
          size);
  return KD_OK;
}

static kd_status give_numbers(const kd_launch *launch, uint32_t output,
                              int64_t count, const int64_t *from) {
  kd_tensor y;
  if (output >= launch->output_count) return KD_OK;
  kd_status status = cpu_host->set_output(launch, output, 1, &count, &y);
  if (status == KD_OK && count)
    memcpy(y.data, from, (size_t)count * sizeof *from);
  return status;
}

CPU_KERNEL(cpu_run_unique) {
  const kd_tensor *x = &launch->inputs[0];
  bool flat = cpu_host->node->attr_kind(launch->node, "axis") == KD_ATTR_ABSENT;
  bool sorted = attr_int(launch, "sorted", 1) != 0;
  int64_t given = attr_int(launch, "axis", 0);
  if (!flat && (given < -(int64_t)x->rank || given >= (int64_t)x->rank))
    return FAIL(KD_INVALID_ARGUMENT, "axis is %lld", (long long)given);
  uint32_t axis = flat ? 0 : axis_of(given, x->rank);
  slices s = {x, flat ? 1 : product(x->dims, 0, axis),
              flat ? kd_elements(x) : x->dims[axis],
              flat ? 1 : product(x->dims, axis + 1, x->rank)};
  /* order, room, first, kind, and counts in place of order at the end */
  int64_t *all = malloc(((size_t)s.n * 4 + 1) * sizeof *all);
  if (!all)
    return FAIL(KD_OUT_OF_MEMORY, "no memory to sort %lld slices",
                (long long)s.n);
  kinds found = {0, all + 2 * s.n, all + 3 * s.n};
  find_kinds(&s, sorted, all, all + s.n, &found);
  memset(all, 0, (size_t)s.n * sizeof *all);
  for (int64_t i = 0; i < s.n; i++)
    all[found.kind[i]]++;
  kd_status status = give_slices(launch, &s, &found, flat, axis);
  if (status == KD_OK)
    status = give_numbers(launch, 1, found.count, found.first);
  if (status == KD_OK) status = give_numbers(launch, 2, s.n, found.kind);
  if (status == KD_OK) status = give_numbers(launch, 3, found.count, all);
  free(all);
  return status;
}
