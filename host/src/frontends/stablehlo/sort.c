/* sort.c - sorting: by TopK, which is stable, where a comparator compares values; else by a
 * network of compares, whose number depends on the size alone. */
#include "frontends/stablehlo/lower.h"

#define NETWORK_MOST 65536 /* elements */
#define KEYS_MOST    8

/* ---- comparators ------------------------------------------------------------------------- */

/* Which input a comparator looks at, and how. */
typedef struct key {
  uint32_t input;
  bool descending, total, canonical;
} key;

typedef struct keys {
  key list[KEYS_MOST];
  uint32_t count;
} keys;

/* The argument that a value is, as it is or canonical. */
static bool find_argument(const hlo *h, const bytecode_block *block,
                          uint32_t value, uint32_t *out_argument,
                          bool *out_canonical) {
  uint32_t of = value;
  *out_canonical = hlo_is_canonical(h, block, value, &of);
  if (of < block->first_argument ||
      of >= block->first_argument + block->argument_count)
    return false;
  *out_argument = of - block->first_argument;
  return true;
}

/* A compare of the two elements of one input. */
static bool read_compare(const hlo *h, const bytecode_block *block,
                         const bytecode_op *op, key *k,
                         uint64_t *out_direction) {
  uint32_t a = 0, b = 0;
  uint64_t kind = 0;
  bool a_is = false, b_is = false;
  if (!op || !vhlo_is(op, "compare") || op->operand_count != 2 ||
      vhlo_enum(&h->v, op, "comparison_direction", VHLO_DIRECTION,
                out_direction) != KD_OK ||
      vhlo_enum(&h->v, op, "compare_type", VHLO_COMPARISON, &kind) != KD_OK ||
      !find_argument(h, block, op->operands[0], &a, &a_is) ||
      !find_argument(h, block, op->operands[1], &b, &b_is) || a / 2 != b / 2 ||
      a == b)
    return false;
  kd_dtype dtype = hlo_type_of(h, block->first_argument + a)->dtype;
  *k = (key){.input = a / 2,
             .descending = a > b,
             .total = kind == VHLO_TOTAL_ORDER && hlo_is_float(dtype),
             .canonical = a_is && b_is};
  return true;
}

/* Whether a value says that two elements of a key are equal. */
static bool is_equality(const hlo *h, const bytecode_block *block,
                        uint32_t value, const key *k) {
  key same;
  uint64_t direction = 0;
  const bytecode_op *op = hlo_maker(h, block, value);
  kd_dtype dtype = hlo_type_of(h, block->first_argument + 2 * k->input)->dtype;
  return read_compare(h, block, op, &same, &direction) &&
         direction == VHLO_EQ && same.input == k->input &&
         (!hlo_is_float(dtype) || (same.total && k->total));
}

/* a < b, or a == b and the next key: one key after the other. */
static bool read_keys(const hlo *h, const bytecode_block *block, keys *all) {
  const bytecode_op *end = &block->ops[block->op_count - 1];
  uint32_t value = end->operands[0];
  for (;;) {
    const bytecode_op *op = hlo_maker(h, block, value), *first = op;
    const bytecode_op *rest = NULL;
    uint64_t direction = 0;
    key *k = &all->list[all->count];
    if (!op || all->count == KEYS_MOST) return false;
    if (vhlo_is(op, "or") && op->operand_count == 2) {
      first = hlo_maker(h, block, op->operands[0]);
      rest = hlo_maker(h, block, op->operands[1]);
    }
    if (!read_compare(h, block, first, k, &direction) ||
        (direction != VHLO_LT && direction != VHLO_GT))
      return false;
    k->descending = k->descending != (direction == VHLO_GT);
    all->count++;
    if (first == op) return true;
    if (!rest || !vhlo_is(rest, "and") || rest->operand_count != 2 ||
        !is_equality(h, block, rest->operands[0], k))
      return false;
    value = rest->operands[1];
  }
}

/* ---- by TopK ---------------------------------------------------------------------------- */

static keel_value elements(hlo *h, keel_value x, keel_value order,
                           int64_t axis) {
  const keel_attr attr = KEEL_INT("axis", axis);
  const keel_value in[] = {x, order};
  return hlo_node(h, "GatherElements", &attr, 1, in, 2);
}

/* The order after one more stable sort; order: before, or KEEL_ABSENT. */
static keel_value sort_by(hlo *h, keel_value x, bool descending, int64_t size,
                          int64_t axis, keel_value order) {
  keel_value outputs[2] = {KEEL_ABSENT, KEEL_ABSENT};
  const int64_t count[] = {size};
  const keel_attr attrs[] = {KEEL_INT("axis", axis),
                             KEEL_INT("largest", descending),
                             KEEL_INT("sorted", 1)};
  if (order != KEEL_ABSENT) x = elements(h, x, order, axis);
  const keel_value in[] = {x, keel_emit_ints(hlo_at(h), count, 1)};
  hlo_at(h);
  keel_builder_op_n(h->at, "TopK", attrs, 3, in, 2, outputs, 2);
  return order == KEEL_ABSENT ? outputs[1]
                              : elements(h, order, outputs[1], axis);
}

/* TopK's keys: integers for floats, whose NaN it need not know then. */
static keel_value sort_key_of(hlo *h, const hlo_op *op, const key *k) {
  keel_value x = op->in[k->input];
  kd_dtype dtype = op->in_types[k->input]->dtype;
  if (dtype == KD_BOOL) return keel_emit_cast(hlo_at(h), x, KD_I32);
  if (!hlo_is_float(dtype)) return x;
  if (k->canonical || !k->total) x = hlo_canonical(h, x, dtype);
  return hlo_total_number(h, x, dtype);
}

static keel_status sort_by_keys(hlo *h, const hlo_op *op, const keys *all,
                                int64_t axis) {
  keel_value order = KEEL_ABSENT;
  int64_t size = op->in_types[0]->dims[axis];
  for (uint32_t i = all->count; i--;) {
    const key *k = &all->list[i];
    order = sort_by(h, sort_key_of(h, op, k), k->descending, size, axis, order);
  }
  for (uint32_t i = 0; i < op->output_count; i++)
    op->out[i] = elements(h, op->in[i], order, axis);
  return KD_OK;
}

/* ---- by a network -------------------------------------------------------------------------- */

/* A bitonic sort of [outer, size, inner], where size is a power of two; the last lane is the
 * elements' place, which decides between equal ones and marks what was added. */
typedef struct network {
  const hlo_op *op;
  int64_t outer, count, size, inner;
  uint32_t lanes;
  keel_value *values, *a, *b, *args;
} network;

/* Whether a comes before b, of two pairs of lanes. */
static keel_status before(hlo *h, const network *n, const keel_value *a,
                          const keel_value *b, keel_value *out_before) {
  const bytecode_block *block = &n->op->raw->regions[0];
  keel_value less[2];
  for (int turn = 0; turn < 2; turn++) {
    for (uint32_t i = 0; i < n->lanes; i++) {
      n->args[2 * i] = turn ? b[i] : a[i];
      n->args[2 * i + 1] = turn ? a[i] : b[i];
    }
    KEEL_TRY(hlo_body(h, n->op, block, n->args, 2 * n->lanes, 1, &less[turn]));
  }
  keel_value earlier = HLO(h, "Less", a[n->lanes], b[n->lanes]);
  keel_value tie = HLO(h, "And", HLO(h, "Not", less[1]), earlier);
  *out_before = HLO(h, "Or", less[0], tie);
  if (n->count == n->size) return KD_OK;
  keel_value last = HLO(h, "Max", a[n->lanes], b[n->lanes]);
  keel_value added =
      HLO(h, "GreaterOrEqual", last, hlo_number(h, KD_I32, (double)n->count));
  *out_before = HLO(h, "Where", added, earlier, *out_before);
  return KD_OK;
}

/* For each pair of blocks of `step` elements whether it is sorted the other way round. */
static keel_value sort_turned(hlo *h, const network *n, int64_t step,
                              int64_t whole) {
  const int64_t dims[] = {1, n->size / (2 * step), 1, 1, 1};
  uint8_t *flags = malloc((size_t)dims[1]);
  if (!flags) {
    keel_no_memory((uint64_t)dims[1]);
    return KEEL_ABSENT;
  }
  for (int64_t i = 0; i < dims[1]; i++)
    flags[i] = i * 2 * step / whole % 2 != 0;
  keel_value value = keel_emit_constant(hlo_at(h), KD_BOOL, 5, dims, flags);
  free(flags);
  return value;
}

/* Puts elements that are `step` apart in order, within runs of `whole`. */
static keel_status sort_exchange(hlo *h, const network *n, int64_t step,
                                 int64_t whole) {
  const int64_t pairs[] = {n->outer, n->size / (2 * step), 2, step, n->inner};
  const int64_t flat[] = {n->outer, n->size, n->inner};
  keel_value keep = KEEL_ABSENT;
  for (uint32_t i = 0; i <= n->lanes; i++) {
    keel_value value = hlo_reshape(h, n->values[i], 5, pairs);
    n->a[i] = hlo_part(h, value, 2, 0, 1, 1);
    n->b[i] = hlo_part(h, value, 2, 1, 2, 1);
  }
  KEEL_TRY(before(h, n, n->a, n->b, &keep));
  keel_value other = sort_turned(h, n, step, whole);
  if (other == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  keep = HLO(h, "Xor", keep, other);
  for (uint32_t i = 0; i <= n->lanes; i++) {
    const keel_value both[] = {HLO(h, "Where", keep, n->a[i], n->b[i]),
                               HLO(h, "Where", keep, n->b[i], n->a[i])};
    n->values[i] = hlo_reshape(h, hlo_concat(h, 2, both, 2), 3, flat);
  }
  return KD_OK;
}

static void fill_network(hlo *h, const network *n) {
  const int64_t dims[] = {n->outer, n->count, n->inner};
  const int64_t full[] = {n->outer, n->size, n->inner};
  const int64_t line[] = {1, n->size, 1}, none[3] = {0};
  const int64_t high[] = {0, n->size - n->count, 0};
  for (uint32_t i = 0; i < n->lanes; i++) {
    int64_t now[] = {n->outer, n->count, n->inner};
    kd_dtype dtype = n->op->in_types[i]->dtype;
    n->values[i] = hlo_reshape(h, n->op->in[i], 3, dims);
    n->values[i] = hlo_pad(h, n->values[i], hlo_number(h, dtype, 0), 3, now,
                           none, high, NULL);
  }
  keel_value place = keel_emit_cast(hlo_at(h), hlo_range(h, n->size), KD_I32);
  n->values[n->lanes] = hlo_expand(h, hlo_reshape(h, place, 3, line), 3, full);
}

static keel_status run_network(hlo *h, const network *n) {
  const hlo_op *op = n->op;
  fill_network(h, n);
  for (int64_t whole = 2; whole <= n->size; whole *= 2)
    for (int64_t step = whole / 2; step; step /= 2)
      KEEL_TRY(sort_exchange(h, n, step, whole));
  for (uint32_t i = 0; i < n->lanes; i++) {
    keel_value value = hlo_part(h, n->values[i], 1, 0, n->count, 1);
    op->out[i] =
        hlo_reshape(h, value, op->out_types[i]->rank, op->out_types[i]->dims);
  }
  return KD_OK;
}

static keel_status sort_by_network(hlo *h, const hlo_op *op, int64_t axis) {
  const vhlo_type *type = op->in_types[0];
  network n = {.op = op,
               .outer = 1,
               .count = type->dims[axis],
               .size = 1,
               .inner = 1,
               .lanes = op->output_count};
  if (n.count > NETWORK_MOST)
    return hlo_refuse(h, op,
                      "%lld elements with a comparator that is not one"
                      " of numbers",
                      (long long)n.count);
  for (uint32_t i = 0; i < type->rank; i++) {
    if (i < axis) n.outer *= type->dims[i];
    if (i > axis) n.inner *= type->dims[i];
  }
  while (n.size < n.count)
    n.size *= 2;
  size_t lanes = (size_t)n.lanes + 1;
  keel_value *room = calloc(5 * lanes, sizeof *room);
  if (!room) return keel_no_memory(lanes);
  n.values = room;
  n.a = room + lanes;
  n.b = room + 2 * lanes;
  n.args = room + 3 * lanes;
  keel_status status = run_network(h, &n);
  free(room);
  return status;
}

/* ---- sort ------------------------------------------------------------------------------------- */

static keel_status check_sort(const hlo *h, const hlo_op *op) {
  const bytecode_op *raw = op->raw;
  if (!op->input_count || op->input_count != op->output_count ||
      raw->region_count != 1 || !raw->regions[0].op_count)
    return hlo_wrong(h, op, "it has %u inputs and %u results",
                     (unsigned)op->input_count, (unsigned)op->output_count);
  const bytecode_block *block = &raw->regions[0];
  const bytecode_op *end = &block->ops[block->op_count - 1];
  const vhlo_type *first = op->in_types[0];
  if (!vhlo_is(end, "return") || end->operand_count != 1 ||
      block->argument_count != 2 * op->input_count)
    return hlo_wrong(h, op, "its comparator takes %u values",
                     (unsigned)block->argument_count);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const vhlo_type *type = op->in_types[i];
    if (type->dynamic) return hlo_refuse(h, op, "a size that is not known");
    if (type->rank != first->rank ||
        memcmp(type->dims, first->dims, type->rank * sizeof *type->dims) != 0)
      return hlo_wrong(h, op, "input %u has another shape", (unsigned)i);
    for (uint32_t k = 0; k < 2; k++) {
      const vhlo_type *scalar =
          hlo_type_of(h, block->first_argument + 2 * i + k);
      if (scalar->kind != VHLO_TENSOR || scalar->rank ||
          scalar->dtype != type->dtype)
        return hlo_wrong(h, op, "its comparator takes another type");
    }
  }
  return KD_OK;
}

keel_status hlo_sort(hlo *h, const hlo_op *op) {
  int64_t axis = 0;
  keys all = {.count = 0};
  KEEL_TRY(check_sort(h, op));
  const vhlo_type *type = op->in_types[0];
  KEEL_TRY(vhlo_int(&h->v, op->raw, "dimension", &axis));
  if (axis < 0) axis += type->rank;
  if (axis < 0 || axis >= type->rank)
    return hlo_wrong(h, op, "dimension %lld of %u", (long long)axis,
                     (unsigned)type->rank);
  if (type->elements == 0 || type->dims[axis] == 1) {
    memcpy(op->out, op->in, op->input_count * sizeof *op->out);
    return KD_OK;
  }
  return read_keys(h, &op->raw->regions[0], &all)
             ? sort_by_keys(h, op, &all, axis)
             : sort_by_network(h, op, axis);
}
