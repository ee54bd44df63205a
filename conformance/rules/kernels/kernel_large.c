/* kernel_large.c - tensors of more rows and elements than a grid of a device has. Only their
 * ends are compared: what the reference makes of a few rows alone. */
#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

#define TAIL 3 /* rows that are compared; of vectors, so many hundreds */

/* An op that works row by row along its first dimension. */
typedef struct large {
  const char *op; /* NULL: one of one input */
  int64_t rows;
  uint32_t rank, inputs; /* inputs that have these rows */
  int64_t dims[3];       /* of a row */
  enum { NONE, SCALE, AXES, INDICES } more;
  int64_t perm[3]; /* of Transpose */
} large;

static const large larges[] = {
    {NULL, 65535 * 256 + 5, 1, 1, {0}, NONE, {0}},
    {"Add", (1 << 24) + 5, 1, 2, {0}, NONE, {0}},
    {"Softmax", 65536 + 3, 2, 1, {4}, NONE, {0}},
    {"LayerNormalization", 65536 + 3, 2, 1, {4}, SCALE, {0}},
    {"ReduceSum", 65536 + 3, 2, 1, {4}, AXES, {0}},
    {"Transpose", 65536 + 3, 3, 1, {2, 3}, NONE, {0, 2, 1}},
    {"Gather", 65536 + 3, 2, 0, {4}, INDICES, {0}},
    {"MatMul", 65537, 3, 2, {2, 2}, NONE, {0}},
};

/* Element i of input k. */
static float kernel_large_element(uint32_t k, uint64_t i) {
  return (float)((i * 40503 + k * 977 + (i >> 13)) % 1021) / 256 - 2;
}

/* The op on `rows` of the rows, from `first` on; values are the case's own. */
static kc_op_case rows_of(const large *l, int64_t first, int64_t rows) {
  kc_op_case one = {.op = {.name = l->op, .out_count = 1}};
  int64_t dims[3] = {rows, l->dims[0], l->dims[1]}, per_row = 1;
  for (uint32_t d = 1; d < l->rank; d++)
    per_row *= dims[d];
  for (uint32_t k = 0; k < l->inputs; k++) {
    value *in = kc_case_add(&one, value_make(KD_F32, l->rank, dims));
    for (int64_t i = 0; i < in->count; i++)
      in->x[i] = kernel_large_element(k, (uint64_t)(first * per_row + i));
  }
  if (l->more == INDICES) { /* of a short table */
    value *table =
        kc_case_add(&one, value_make(KD_F32, 2, (const int64_t[]){7, 4}));
    for (int64_t i = 0; i < table->count; i++)
      table->x[i] = i + 1;
  }
  if (l->more == NONE) return one;
  int64_t count = l->more == SCALE ? 4 : l->more == AXES ? 1 : rows;
  value *more = kc_case_add(
      &one, value_make(l->more == SCALE ? KD_F32 : KD_I64, 1, &count));
  for (int64_t i = 0; i < count; i++)
    more->x[i] = l->more == INDICES ? (first + i) * 5 % 7 : 1;
  return one;
}

/* A type with so many rows. */
static const keel_type *longer(const keel_type *type, int64_t rows) {
  int64_t dims[KD_MAX_RANK];
  const keel_type *made = NULL;
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  dims[0] = rows;
  if (keel_type_of(type->dtype, type->rank, dims, &made) != KD_OK)
    kc_stop("no type of %lld rows", (long long)rows);
  return made;
}

/* Fills a buffer with an input's elements, a part at a time. */
static void upload(const large *l, uint32_t k, const keel_type *type,
                   kc_buffer *to) {
  enum { PART = 1 << 18 };
  float *part = kc_take(PART * sizeof(int64_t));
  int64_t *places = (int64_t *)part;
  size_t each = kd_dtype_size(type->dtype);
  for (int64_t at = 0; at < type->elements; at += PART) {
    int64_t n = type->elements - at < PART ? type->elements - at : PART;
    for (int64_t i = 0; i < n; i++)
      if (type->dtype == KD_F32)
        part[i] = kernel_large_element(k, (uint64_t)(at + i));
      else
        places[i] = (at + i) * 5 % 7;
    kc_write(to, (uint64_t)at * each, part, (uint64_t)n * each);
    kc_beat();
  }
  (void)l;
  free(part);
}

/* One launch of the whole; what its last rows are in `got`. */
static void launch_large(const large *l, kc_op_case *tail, kc_node *small,
                         const kd_kernel_def *def, kc_node *node, value *got) {
  kd_tensor in[4] = {0}, out;
  kc_buffer *buffers[5] = {0};
  for (uint32_t k = 0; k < tail->op.in_count; k++) {
    bool host = def->host_inputs >> k & 1, same = node->in[k] == small->in[k];
    char *bytes = kc_lend(small->in[k]->bytes);
    value_store(tail->op.in[k], bytes);
    if (!host) buffers[k] = kc_buffer_make(node->in[k]->bytes);
    if (!host && same) kc_write(buffers[k], 0, bytes, small->in[k]->bytes);
    if (!host && !same) upload(l, k, node->in[k], buffers[k]);
    if (host && !same) kc_unclaimed("its indices are in host memory");
    in[k] = host ? (kd_tensor){.data = bytes,
                               .size = small->in[k]->bytes,
                               .dims = small->in[k]->dims,
                               .dtype = small->in[k]->dtype,
                               .rank = small->in[k]->rank,
                               .flags = KD_TENSOR_HOST}
                 : kc_tensor_of(node->in[k], buffers[k], 0);
  }
  buffers[4] = kc_buffer_make(node->out[0]->bytes);
  out = kc_tensor_of(node->out[0], buffers[4], 0);
  kc_run run = {.node = node, .def = def, .device = kc_device()};
  memcpy(run.in, in, sizeof in);
  run.out[0] = out;
  run.launch = (kd_launch){.struct_size = sizeof(kd_launch),
                           .input_count = tail->op.in_count,
                           .output_count = 1,
                           .inputs = run.in,
                           .outputs = run.out,
                           .node = &node->node,
                           .device = kc_device(),
                           .data = def->data};
  for (uint32_t j = 0; j < KC_PORTS; j++)
    run.over[j] = -1;
  if (def->create)
    kc_ok(KC_CALL(kd_status,
                  def->create(kc_device(), def, &node->node, &run.kernel),
                  "%s.create", def->op),
          "create");
  kc_beat();
  kd_status status = kc_run_now(&run);
  if (run.kernel) KC_DO(def->destroy(run.kernel), "%s.destroy", def->op);
  if (status == KD_OUT_OF_MEMORY)
    kc_unclaimed("the device has no memory for it");
  kc_ok(status, tail->op.name);
  char *bytes = kc_take(value_size(got) + 16);
  kc_read(buffers[4], node->out[0]->bytes - value_size(got), bytes,
          value_size(got));
  value_load(got, bytes);
  free(bytes);
  kc_buffer_free(run.scratch);
  for (int k = 0; k < 5; k++)
    kc_buffer_free(buffers[k]);
}

static void try_large(const large *l) {
  int64_t rows = l->rank == 1 ? TAIL * 100 : TAIL;
  kc_op_case tail = rows_of(l, l->rows - rows, rows);
  if (l->perm[1]) {
    tail.op.attrs[0] = (keel_attr){
        .name = "perm", .kind = KD_ATTR_INTS, .count = 3, .ints = l->perm};
    tail.op.attr_count = 1;
  }
  kc_node *small = kc_node_make(&tail.op, NULL, 0);
  const keel_type *in[KC_PORTS] = {0}, *out[KC_PORTS] = {0};
  if (!small) kc_stop("no node for %s", l->op);
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < tail.op.in_count; k++) {
    bool whole = l->more == INDICES ? k == 0 : k >= l->inputs;
    in[k] = whole ? small->in[k] : longer(small->in[k], l->rows);
    bytes += in[k]->bytes;
  }
  out[0] = longer(small->out[0], l->rows);
  if (bytes + out[0]->bytes > kc.max_memory) kc_unclaimed("--max-memory");
  kc_node *node = kc_node_typed(&tail.op, in, out);
  const kd_kernel_def *def = kc_def_for(node);
  value *want[KC_PORTS] = {0};
  if (!def) kc_unclaimed("it has no kernel for %s of these rows", l->op);
  if (kc_reference(&tail.op, small, want)) {
    value *got = value_make(want[0]->dtype, want[0]->rank, want[0]->dims);
    numerics within = kc_numerics(def, KD_F32);
    launch_large(l, &tail, small, def, node, got);
    kc_compare(want[0], got, &within,
               "at the end of many rows, the output (is the device's grid"
               " smaller?)");
    value_free(got);
    kc_values_free(want, 1);
  }
  kc_check(true, " ");
  kc_node_free(node);
  kc_node_free(small);
  kc_case_free(&tail);
}

void kernel_large(void) {
  kc_device();
  for (size_t i = 0; i < KC_COUNT_OF(larges); i++) {
    large one = larges[i];
    if (!kc_case("op=%s,rows=%lld", one.op ? one.op : "unary",
                 (long long)one.rows))
      continue;
    kc_unary unary;
    if (!one.op) {
      kc_unary_need(8, &unary);
      one.op = unary.op.name;
      kc_unary_free(&unary);
    }
    try_large(&one);
  }
}
