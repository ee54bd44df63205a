/* index.c - gather, scatter, and slices whose place is known in a run.
 *
 * A tensor is looked at as rows: dimensions that are taken as a whole are a row's, and those
 * of which a part is taken number the rows. All that is left is to compute the numbers. */
#include "frontends/stablehlo/reduce.h"

typedef struct grid {
  const vhlo_type *type;
  bool numbered[KD_MAX_RANK]; /* a part of it is taken */
  bool dropped[KD_MAX_RANK];  /* of one element, which the slices do not have */
  int64_t window[KD_MAX_RANK]; /* elements that are taken */
  int64_t stride[KD_MAX_RANK]; /* of rows, for those that number them */
  int64_t order[KD_MAX_RANK];  /* those that number rows first */
  uint32_t numbers;            /* how many these are */
  int64_t rows;
  int64_t dims[KD_MAX_RANK + 1]; /* rows, and a row's own */
  uint32_t rank;                 /* of that */
} grid;

/* window and dropped are there; the rest is made. */
static keel_status make_grid(const hlo *h, const hlo_op *op, grid *g) {
  const vhlo_type *type = g->type;
  uint32_t count = 0;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (g->window[i] < 0 || g->window[i] > type->dims[i] ||
        (g->dropped[i] && g->window[i] != 1))
      return hlo_wrong(h, op, "slices of %lld elements of %lld",
                       (long long)g->window[i], (long long)type->dims[i]);
    g->numbered[i] = g->dropped[i] || g->window[i] != type->dims[i];
    if (g->numbered[i]) g->order[count++] = i;
  }
  g->numbers = count;
  g->rows = 1;
  for (uint32_t i = count; i--;) {
    g->stride[g->order[i]] = g->rows;
    g->rows *= type->dims[g->order[i]];
  }
  g->dims[g->rank++] = g->rows;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (g->numbered[i]) continue;
    g->order[count++] = i;
    g->dims[g->rank++] = type->dims[i];
  }
  return KD_OK;
}

static keel_value as_rows(hlo *h, const grid *g, keel_value value) {
  value = hlo_transpose(h, value, g->order, g->type->rank);
  return hlo_reshape(h, value, g->rank, g->dims);
}

static keel_value from_rows(hlo *h, const grid *g, keel_value value) {
  int64_t dims[KD_MAX_RANK], back[KD_MAX_RANK];
  for (uint32_t i = 0; i < g->type->rank; i++) {
    dims[i] = g->type->dims[g->order[i]];
    back[g->order[i]] = i;
  }
  value = hlo_reshape(h, value, g->type->rank, dims);
  return hlo_transpose(h, value, back, g->type->rank);
}

/* An index as i64; one that is too large for it stays large. */
static keel_value as_i64(hlo *h, keel_value value, kd_dtype dtype) {
  if (dtype == KD_U64)
    value = HLO(h, "Min", value, hlo_number(h, KD_U64, 9e15));
  return keel_emit_cast(hlo_at(h), value, KD_I64);
}

static keel_value clamped(hlo *h, keel_value value, keel_value most) {
  return HLO(h, "Min", HLO(h, "Max", value, hlo_i64(h, 0)), most);
}

/* sum + step * (0, 1 ... size - 1) along one of `rank` dimensions */
static keel_value add_range(hlo *h, keel_value sum, int64_t size, int64_t step,
                            uint32_t rank, uint32_t axis) {
  int64_t dims[KD_MAX_RANK];
  if (size == 1) return sum;
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == axis ? size : 1;
  keel_value range = HLO(h, "Mul", hlo_range(h, size), hlo_i64(h, step));
  return HLO(h, "Add", sum, hlo_reshape(h, range, rank, dims));
}

/* ---- indices -------------------------------------------------------------------------- */

/* Where slices begin: a tensor of index vectors. */
typedef struct starts {
  const vhlo_type *type;
  keel_value value;
  uint32_t vector;            /* its dimension; that behind the last: none */
  int64_t batch[KD_MAX_RANK]; /* the sizes of the other dimensions */
  uint32_t batch_count;
  uint32_t map_count;       /* numbers of a vector */
  int64_t map[KD_MAX_RANK]; /* the dimension that each is for */
  uint32_t pair_count;      /* dimensions of batches, of tensor and indices */
  int64_t pair[KD_MAX_RANK], pair_of[KD_MAX_RANK];
} starts;

static keel_status read_starts(const hlo *h, const hlo_op *op,
                               const char *const names[3], uint32_t rank,
                               starts *s) {
  int64_t vector = 0;
  uint32_t attribute = 0, count = 0;
  KEEL_TRY(vhlo_int(&h->v, op->raw, "index_vector_dim", &vector));
  KEEL_TRY(hlo_axes(h, op, names[0], rank, &s->map_count, s->map));
  if (vector < 0 || vector > s->type->rank ||
      s->map_count != (vector < s->type->rank ? s->type->dims[vector] : 1))
    return hlo_wrong(h, op, "its index vectors do not have %u numbers",
                     (unsigned)s->map_count);
  s->vector = (uint32_t)vector;
  for (uint32_t i = 0; i < s->type->rank; i++)
    if (i != s->vector) s->batch[s->batch_count++] = s->type->dims[i];
  KEEL_TRY(vhlo_find(&h->v, op->raw, names[1], &attribute));
  if (attribute == BYTECODE_NONE) return KD_OK; /* up to 1.0.0 */
  KEEL_TRY(hlo_axes(h, op, names[1], rank, &s->pair_count, s->pair));
  KEEL_TRY(hlo_axes(h, op, names[2], s->type->rank, &count, s->pair_of));
  if (count != s->pair_count)
    return hlo_wrong(h, op, "%u dimensions of batches, and %u",
                     (unsigned)s->pair_count, (unsigned)count);
  return KD_OK;
}

/* Dimensions of batches must be as large in the indices. */
static keel_status check_pairs(const hlo *h, const hlo_op *op, const grid *g,
                               const starts *s) {
  for (uint32_t i = 0; i < s->pair_count; i++)
    if (s->pair_of[i] == s->vector ||
        g->type->dims[s->pair[i]] != s->type->dims[s->pair_of[i]])
      return hlo_wrong(h, op, "its dimensions of batches do not match");
  return KD_OK;
}

/* The vectors as [batch..., numbers]. */
static keel_value vectors(hlo *h, const starts *s) {
  int64_t order[KD_MAX_RANK], dims[KD_MAX_RANK + 1];
  uint32_t count = 0;
  keel_value value = as_i64(h, s->value, s->type->dtype);
  for (uint32_t i = 0; i < s->type->rank; i++)
    if (i != s->vector) order[count++] = i;
  if (s->vector < s->type->rank) {
    order[count] = s->vector;
    value = hlo_transpose(h, value, order, count + 1);
  }
  memcpy(dims, s->batch, count * sizeof *dims);
  dims[count] = s->map_count;
  return hlo_reshape(h, value, count + 1, dims);
}

static keel_value reduce_last(hlo *h, const char *name, keel_value value,
                              uint32_t axis) {
  const keel_attr drop = KEEL_INT("keepdims", 0);
  const int64_t axes[] = {axis};
  const keel_value in[] = {value, keel_emit_ints(hlo_at(h), axes, 1)};
  return hlo_node(h, name, &drop, 1, in, 2);
}

/* The number of each slice's first row, as [batch...]. out_inside: whether the slice lies in
 * the tensor; NULL: it is moved there. */
static keel_value first_rows(hlo *h, const grid *g, const starts *s,
                             keel_value *out_inside) {
  int64_t most[KD_MAX_RANK], stride[KD_MAX_RANK];
  uint32_t last = s->batch_count;
  if (!s->map_count) {
    if (out_inside)
      *out_inside = hlo_expand(h, hlo_number(h, KD_BOOL, 1), last, s->batch);
    return hlo_expand(h, hlo_i64(h, 0), last, s->batch);
  }
  for (uint32_t i = 0; i < s->map_count; i++) {
    most[i] = g->type->dims[s->map[i]] - g->window[s->map[i]];
    stride[i] = g->stride[s->map[i]]; /* 0 for a row's own */
  }
  keel_value at = vectors(h, s),
             limit = keel_emit_ints(hlo_at(h), most, s->map_count);
  keel_value in = clamped(h, at, limit);
  if (out_inside) {
    keel_value same =
        keel_emit_cast(hlo_at(h), HLO(h, "Equal", at, in), KD_I32);
    *out_inside = keel_emit_cast(
        hlo_at(h), reduce_last(h, "ReduceMin", same, last), KD_BOOL);
  }
  keel_value rows =
      HLO(h, "Mul", in, keel_emit_ints(hlo_at(h), stride, s->map_count));
  return reduce_last(h, "ReduceSum", rows, last);
}

/* Adds what numbers rows within slices: [batch..., window...]. rank: receives that. */
static keel_value all_rows(hlo *h, const grid *g, const starts *s,
                           keel_value first, int64_t *dims,
                           uint32_t *out_rank) {
  uint32_t rank = s->batch_count;
  memcpy(dims, s->batch, rank * sizeof *dims);
  for (uint32_t i = 0; i < g->numbers; i++)
    if (!g->dropped[g->order[i]]) dims[rank++] = g->window[g->order[i]];
  int64_t ones[KD_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++)
    ones[i] = i < s->batch_count ? dims[i] : 1;
  keel_value rows = hlo_reshape(h, first, rank, ones);
  for (uint32_t i = 0; i < s->pair_count; i++) {
    uint32_t axis = (uint32_t)s->pair_of[i];
    axis -= axis > s->vector;
    rows = add_range(h, rows, dims[axis], g->stride[s->pair[i]], rank, axis);
  }
  uint32_t axis = s->batch_count;
  for (uint32_t i = 0; i < g->numbers; i++)
    if (!g->dropped[g->order[i]]) {
      rows = add_range(h, rows, dims[axis], g->stride[g->order[i]], rank, axis);
      axis++;
    }
  *out_rank = rank;
  return rows;
}

/* The dimensions of slices stand at `offsets` among those of batches. order: for each
 * dimension of the result, which it is of [batch..., window..., a row's own ...]. */
static keel_status slice_order(const hlo *h, const hlo_op *op, const grid *g,
                               const starts *s, const int64_t *offsets,
                               uint32_t offset_count, uint32_t rank,
                               int64_t *order) {
  int64_t place[KD_MAX_RANK];
  uint32_t window = s->batch_count, batch = 0, used = 0;
  for (uint32_t i = 0; i < g->type->rank; i++)
    if (g->numbered[i] && !g->dropped[i]) place[i] = window++;
  for (uint32_t i = 0; i < g->type->rank; i++)
    if (!g->numbered[i]) place[i] = window++;
  if (window != rank || offset_count + s->batch_count != rank)
    return hlo_wrong(h, op, "slices and batches have %u dimensions, and %u",
                     (unsigned)window, (unsigned)rank);
  for (uint32_t i = 0; i < rank; i++) {
    bool is_offset = false;
    for (uint32_t k = 0; k < offset_count; k++)
      is_offset = is_offset || offsets[k] == i;
    if (!is_offset) {
      order[i] = batch++;
      continue;
    }
    while (g->dropped[used])
      used++;
    order[i] = place[used++];
  }
  return KD_OK;
}

/* Marks dimensions that slices do not have: of one element. */
static keel_status drop_axes(const hlo *h, const hlo_op *op, const char *name,
                             const starts *s, grid *g) {
  int64_t axes[KD_MAX_RANK];
  uint32_t count = 0;
  KEEL_TRY(hlo_axes(h, op, name, g->type->rank, &count, axes));
  for (uint32_t i = 0; i < count; i++)
    g->dropped[axes[i]] = true;
  for (uint32_t i = 0; i < s->pair_count; i++) {
    if (g->dropped[s->pair[i]])
      return hlo_wrong(h, op, "dimension %lld has two meanings",
                       (long long)s->pair[i]);
    g->dropped[s->pair[i]] = true;
  }
  return KD_OK;
}

/* ---- gather ------------------------------------------------------------------------------ */

keel_status hlo_gather_op(hlo *h, const hlo_op *op) {
  static const char *const names[] = {"start_index_map",
                                      "operand_batching_dims",
                                      "start_indices_batching_dims"};
  int64_t offsets[KD_MAX_RANK], order[KD_MAX_RANK], dims[KD_MAX_RANK];
  uint32_t offset_count = 0, rank = 0;
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  grid g = {.type = op->in_types[0]};
  starts s = {.type = op->in_types[1], .value = op->in[1]};
  const vhlo_type *out = op->out_types[0];
  if (g.type->dynamic || s.type->dynamic || out->dynamic ||
      s.type->rank + g.type->rank > KD_MAX_RANK)
    return hlo_refuse(h, op, "sizes that are not known, or too many of them");
  KEEL_TRY(read_starts(h, op, names, g.type->rank, &s));
  KEEL_TRY(hlo_ints(h, op, "slice_sizes", g.type->rank, g.window));
  KEEL_TRY(drop_axes(h, op, "collapsed_slice_dims", &s, &g));
  KEEL_TRY(hlo_axes(h, op, "offset_dims", out->rank, &offset_count, offsets));
  if (!out->elements) {
    op->out[0] =
        hlo_expand(h, hlo_number(h, out->dtype, 0), out->rank, out->dims);
    return KD_OK;
  }
  KEEL_TRY(make_grid(h, op, &g));
  KEEL_TRY(check_pairs(h, op, &g, &s));
  KEEL_TRY(slice_order(h, op, &g, &s, offsets, offset_count, out->rank, order));
  keel_value rows = first_rows(h, &g, &s, NULL);
  rows = all_rows(h, &g, &s, rows, dims, &rank);
  keel_value y = hlo_gather(h, as_rows(h, &g, op->in[0]), rows, 0);
  op->out[0] = hlo_transpose(h, y, order, out->rank);
  return KD_OK;
}

/* ---- scatter ------------------------------------------------------------------------------ */

/* A scatter's reduction of two values of one place. */
typedef struct update {
  bool replaces; /* takes the second */
  hlo_kind kind;
  bool any; /* by the body; no place has more than one update */
} update;

static bool body_replaces(const bytecode_block *body) {
  const bytecode_op *end = body->op_count == 1 ? &body->ops[0] : NULL;
  return end && body->argument_count == 2 && vhlo_is(end, "return") &&
         end->operand_count == 1 &&
         end->operands[0] == body->first_argument + 1;
}

static keel_status read_update(const hlo *h, const hlo_op *op, update *u) {
  const bytecode_block *body = &op->raw->regions[0];
  uint64_t unique = 0;
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "unique_indices", VHLO_BOOLEAN, &unique));
  u->replaces = op->output_count == 1 && body_replaces(body);
  u->kind = op->output_count == 1 ? hlo_body_kind(h, body) : HLO_OTHER;
  kd_dtype dtype = op->in_types[0]->dtype;
  bool bits = dtype != KD_BOOL && (u->kind == HLO_AND || u->kind == HLO_OR);
  if (u->replaces) return KD_OK;
  if (u->kind != HLO_OTHER && !bits && !hlo_is_complex(dtype)) return KD_OK;
  u->any = true;
  if (unique) return KD_OK;
  return hlo_refuse(h, op,
                    "a body that is not one of add, multiply, maximum,"
                    " minimum or the update, on places that may be the same");
}

static const char *reduction_name(const update *u, kd_dtype dtype) {
  if (u->replaces || u->any) return "none";
  switch (u->kind) {
    case HLO_ADD:
      return "add";
    case HLO_MULTIPLY:
      return "mul";
    case HLO_MAXIMUM:
      return "max";
    case HLO_MINIMUM:
      return "min";
    default:
      return dtype == KD_BOOL && u->kind == HLO_AND ? "min" : "max";
  }
}

/* Rows with one more, which takes the updates that lie outside. */
static keel_value scatter_rows(hlo *h, const grid *g, keel_value data,
                               keel_value rows, keel_value updates,
                               const char *name) {
  int64_t spare[KD_MAX_RANK + 1];
  const keel_type *type = hlo_known(h, data);
  kd_dtype dtype = type ? type->dtype : g->type->dtype;
  memcpy(spare, g->dims, g->rank * sizeof *spare);
  spare[0] = 1;
  const keel_value both[] = {
      data, hlo_expand(h, hlo_number(h, dtype, 0), g->rank, spare)};
  const keel_attr attr = KEEL_STRING("reduction", name);
  const keel_value in[] = {hlo_concat(h, 0, both, 2), rows, updates};
  keel_value y = hlo_node(h, "ScatterND", &attr, 1, in, 3);
  return hlo_part(h, y, 0, 0, g->rows, 1);
}

typedef struct scatter {
  grid g;
  starts s;
  update u;
  uint32_t lanes;
  int64_t order
      [KD_MAX_RANK]; /* from [batch..., window..., row...] to the updates */
  keel_value rows;   /* [updates, 1] */
  int64_t count;     /* of updates: rows each */
} scatter;

/* Updates as [count, a row's own ...]. */
static keel_value update_rows(hlo *h, const scatter *t, keel_value value) {
  int64_t back[KD_MAX_RANK], dims[KD_MAX_RANK + 1];
  uint32_t rank = t->s.batch_count + t->g.rank - 1;
  for (uint32_t i = 0; i < t->g.numbers; i++)
    rank += !t->g.dropped[t->g.order[i]];
  for (uint32_t i = 0; i < rank; i++)
    back[t->order[i]] = i;
  memcpy(dims, t->g.dims, t->g.rank * sizeof *dims);
  dims[0] = t->count;
  return hlo_reshape(h, hlo_transpose(h, value, back, rank), t->g.rank, dims);
}

static keel_status read_scatter(const hlo *h, const hlo_op *op, scatter *t) {
  static const char *const names[] = {"scatter_dims_to_operand_dims",
                                      "input_batching_dims",
                                      "scatter_indices_batching_dims"};
  int64_t windows[KD_MAX_RANK];
  uint32_t window_count = 0, next = 0;
  const vhlo_type *updates = op->in_types[t->lanes + 1];
  grid *g = &t->g;
  KEEL_TRY(read_starts(h, op, names, g->type->rank, &t->s));
  KEEL_TRY(drop_axes(h, op, "inserted_window_dims", &t->s, g));
  KEEL_TRY(hlo_axes(h, op, "update_window_dims", updates->rank, &window_count,
                    windows));
  for (uint32_t i = 0; i < g->type->rank; i++) {
    if (!g->dropped[i] && next == window_count)
      return hlo_wrong(h, op, "its updates have too few dimensions");
    g->window[i] = g->dropped[i] ? 1 : updates->dims[windows[next++]];
  }
  KEEL_TRY(make_grid(h, op, g));
  KEEL_TRY(check_pairs(h, op, g, &t->s));
  return slice_order(h, op, g, &t->s, windows, window_count, updates->rank,
                     t->order);
}

/* The row of each update: that behind the last where its slice is not inside. */
static void number_updates(hlo *h, scatter *t) {
  int64_t dims[KD_MAX_RANK], ones[KD_MAX_RANK], flat[2] = {1, 1};
  uint32_t rank = 0;
  keel_value inside = KEEL_ABSENT;
  keel_value rows = first_rows(h, &t->g, &t->s, &inside);
  rows = all_rows(h, &t->g, &t->s, rows, dims, &rank);
  for (uint32_t i = 0; i < rank; i++) {
    ones[i] = i < t->s.batch_count ? dims[i] : 1;
    flat[0] *= dims[i];
  }
  inside = hlo_reshape(h, inside, rank, ones);
  rows = HLO(h, "Where", inside, rows, hlo_i64(h, t->g.rows));
  rows = hlo_expand(h, rows, rank, dims);
  t->rows = hlo_reshape(h, rows, 2, flat);
  t->count = flat[0];
}

/* The body on what is there, which each place has one update for. */
static keel_status any_update(hlo *h, const hlo_op *op, const scatter *t,
                              const keel_value *data, keel_value *updates,
                              keel_value *args) {
  int64_t flat[] = {t->count};
  keel_value most = hlo_i64(h, t->g.rows - 1);
  keel_value rows = HLO(h, "Min", hlo_reshape(h, t->rows, 1, flat), most);
  for (uint32_t i = 0; i < t->lanes; i++) {
    args[i] = hlo_gather(h, data[i], rows, 0);
    args[t->lanes + i] = updates[i];
  }
  const keel_type *type = hlo_known(h, updates[0]);
  KEEL_TRY(hlo_body(h, op, &op->raw->regions[0], args, 2 * t->lanes, t->lanes,
                    updates));
  for (uint32_t i = 0; type && i < t->lanes; i++)
    updates[i] = hlo_expand(h, updates[i], type->rank, type->dims);
  return KD_OK;
}

static keel_status run_scatter(hlo *h, const hlo_op *op, scatter *t,
                               keel_value *room) {
  keel_value *data = room, *updates = room + t->lanes;
  kd_dtype dtype = t->g.type->dtype;
  bool flags = dtype == KD_BOOL && !t->u.any && !t->u.replaces;
  number_updates(h, t);
  for (uint32_t i = 0; i < t->lanes; i++) {
    data[i] = as_rows(h, &t->g, op->in[i]);
    updates[i] = update_rows(h, t, op->in[t->lanes + 1 + i]);
    if (flags) {
      data[i] = keel_emit_cast(hlo_at(h), data[i], KD_I32);
      updates[i] = keel_emit_cast(hlo_at(h), updates[i], KD_I32);
    }
  }
  if (t->u.any)
    KEEL_TRY(any_update(h, op, t, data, updates, updates + t->lanes));
  for (uint32_t i = 0; i < t->lanes; i++) {
    keel_value y = scatter_rows(h, &t->g, data[i], t->rows, updates[i],
                                reduction_name(&t->u, dtype));
    if (flags) y = keel_emit_cast(hlo_at(h), y, KD_BOOL);
    op->out[i] = from_rows(h, &t->g, y);
  }
  return KD_OK;
}

static keel_status check_scatter(const hlo *h, const hlo_op *op) {
  uint32_t lanes = op->output_count;
  if (!lanes || op->input_count != 2 * lanes + 1 || op->raw->region_count != 1)
    return hlo_wrong(h, op, "it has %u inputs and %u results",
                     (unsigned)op->input_count, (unsigned)lanes);
  const vhlo_type *first = op->in_types[0], *updates = op->in_types[lanes + 1];
  for (uint32_t i = 0; i < lanes; i++) {
    const vhlo_type *a = op->in_types[i], *b = op->in_types[lanes + 1 + i];
    if (a->dynamic || b->dynamic || op->in_types[lanes]->dynamic)
      return hlo_refuse(h, op, "a size that is not known before the run");
    if (op->out_types[i]->dtype != a->dtype)
      return hlo_refuse(h, op, "%s become %s", a->what, op->out_types[i]->what);
    if (a->rank != first->rank || b->rank != updates->rank ||
        a->dtype != b->dtype ||
        memcmp(a->dims, first->dims, a->rank * sizeof *a->dims) != 0 ||
        memcmp(b->dims, updates->dims, b->rank * sizeof *b->dims) != 0)
      return hlo_wrong(h, op, "the types of input %u do not match",
                       (unsigned)i);
  }
  if (first->rank + op->in_types[lanes]->rank > KD_MAX_RANK)
    return hlo_refuse(h, op, "too many dimensions");
  return KD_OK;
}

keel_status hlo_scatter(hlo *h, const hlo_op *op) {
  KEEL_TRY(check_scatter(h, op));
  uint32_t lanes = op->output_count;
  scatter t = {.g = {.type = op->in_types[0]},
               .s = {.type = op->in_types[lanes], .value = op->in[lanes]},
               .lanes = lanes};
  KEEL_TRY(read_update(h, op, &t.u));
  KEEL_TRY(read_scatter(h, op, &t));
  if (!op->in_types[lanes + 1]->elements || !t.g.type->elements) {
    memcpy(op->out, op->in, lanes * sizeof *op->out);
    return KD_OK;
  }
  keel_value *room = calloc(4 * (size_t)lanes, sizeof *room);
  if (!room) return keel_no_memory(lanes);
  keel_status status = run_scatter(h, op, &t, room);
  free(room);
  return status;
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Where a slice begins in a dimension: moved so that all of it lies inside. */
static keel_value start_at(hlo *h, const hlo_op *op, uint32_t input,
                           int64_t most) {
  keel_value at = as_i64(h, op->in[input], op->in_types[input]->dtype);
  return clamped(h, at, hlo_i64(h, most));
}

static keel_status check_starts(const hlo *h, const hlo_op *op,
                                uint32_t before) {
  const vhlo_type *type = op->in_types[0];
  KEEL_TRY(hlo_arity(h, op, before + type->rank, 1));
  for (uint32_t i = 0; i < type->rank; i++)
    if (op->in_types[before + i]->rank ||
        hlo_is_float(op->in_types[before + i]->dtype))
      return hlo_wrong(h, op, "start %u is not an integer", (unsigned)i);
  if (type->dynamic)
    return hlo_refuse(h, op, "a size that is not known before the run");
  return KD_OK;
}

keel_status hlo_dynamic_slice(hlo *h, const hlo_op *op) {
  int64_t sizes[KD_MAX_RANK];
  if (!op->input_count) return hlo_wrong(h, op, "it has no inputs");
  KEEL_TRY(check_starts(h, op, 1));
  const vhlo_type *type = op->in_types[0];
  KEEL_TRY(hlo_ints(h, op, "slice_sizes", type->rank, sizes));
  op->out[0] = op->in[0];
  for (uint32_t i = 0; i < type->rank; i++) {
    if (sizes[i] < 0 || sizes[i] > type->dims[i])
      return hlo_wrong(h, op, "%lld elements of %lld", (long long)sizes[i],
                       (long long)type->dims[i]);
    if (sizes[i] == type->dims[i]) continue;
    keel_value at = start_at(h, op, 1 + i, type->dims[i] - sizes[i]);
    const int64_t one[] = {1};
    at = hlo_reshape(h, at, 1, one);
    at = add_range(h, at, sizes[i], 1, 1, 0);
    if (!sizes[i]) at = hlo_part(h, at, 0, 0, 0, 1);
    op->out[0] = hlo_gather(h, op->out[0], at, i);
  }
  return KD_OK;
}

keel_status hlo_dynamic_update_slice(hlo *h, const hlo_op *op) {
  int64_t dims[KD_MAX_RANK], flat[2] = {1, 1};
  uint32_t count = 0;
  if (op->input_count < 2) return hlo_wrong(h, op, "it has no update");
  KEEL_TRY(check_starts(h, op, 2));
  const vhlo_type *type = op->in_types[0], *update = op->in_types[1];
  if (update->rank != type->rank || update->dynamic)
    return hlo_wrong(h, op, "the update's rank is %u", (unsigned)update->rank);
  grid g = {.type = type};
  memcpy(g.window, update->dims, type->rank * sizeof *dims);
  KEEL_TRY(make_grid(h, op, &g));
  op->out[0] = update->elements ? op->in[1] : op->in[0];
  if (!g.numbers || !update->elements) return KD_OK;
  keel_value rows = hlo_i64(h, 0);
  for (uint32_t i = 0; i < g.numbers; i++) {
    int64_t axis = g.order[i], size = g.window[axis];
    keel_value at =
        start_at(h, op, (uint32_t)axis + 2, type->dims[axis] - size);
    rows = HLO(h, "Add", rows, HLO(h, "Mul", at, hlo_i64(h, g.stride[axis])));
    dims[count++] = size;
    flat[0] *= size;
  }
  for (uint32_t i = 0; i < count; i++)
    rows = add_range(h, rows, dims[i], g.stride[g.order[i]], count, i);
  rows = hlo_reshape(h, rows, 2, flat);
  g.dims[0] = flat[0];
  keel_value updates = as_rows(h, &g, op->in[1]);
  g.dims[0] = g.rows;
  op->out[0] = from_rows(
      h, &g, HLO(h, "ScatterND", as_rows(h, &g, op->in[0]), rows, updates));
  return KD_OK;
}
