/* chain.c - chains of elementwise ops as regions: fused by blocks, not by code.
 *
 * A block of elements goes through all ops while it is in the first cache; only the last one's
 * result goes to memory:
 *
 *     y = Relu(a * b + c)     for each block of up to BLOCK elements
 *                               slot 0 = a * b     slot 0 = slot 0 + c     y = Relu(slot 0)
 *
 * A step is a loop of loops.c or quant_loops.c, called for a block. Values between steps
 * are in slots, given out as registers are by a linear scan (give_slots): BYTES in all. Short
 * rows of broadcast inputs are first brought side by side (run_short).
 *
 * Threads share blocks of the output. Values are rounded to their type after each step, as
 * they are by single ops: results are the same. */
#include "chain.h"

#define STRIDED_OPERANDS 8
#include "elementwise.h"
#include "families/chains.h"
#include "quantised/quant_loops.h"

#define STEPS 64
#define SLOTS 16    /* blocks that are needed at once */
#define BYTES 32768 /* of all of them */
#define BLOCK 2048  /* elements, at most */
#define LINED \
  256 /* elements of short rows that go at once; no block has less */

/* Where a step reads: an input of the region, or a block. */
typedef struct operand {
  bool block;
  uint32_t index;
} operand;

/* The last two go from bytes to floats and back: their operands are a scale and a zero point,
 * too, or, without one, the scale again. */
typedef enum kind { UNARY, BINARY, WHERE, FROM_BYTES, TO_BYTES } kind;

typedef struct step {
  kind kind;
  uint32_t op; /* row of the loops; of bytes: whether there is a zero point */
  kd_dtype in, out;
  double a, b;
  operand from[3];
  uint32_t to; /* a block; the last one writes the output */
} step;

struct kd_region {
  strided space; /* inputs' steps */
  kd_dtype inputs[CHAIN_INPUTS], out;
  uint32_t input_count, step_count;
  int64_t block; /* elements */
  size_t slot;   /* bytes of a block */
  int64_t row;   /* elements of the last dimension, and blocks of it */
  int64_t pieces, items;
  int64_t rows; /* that go at once, where they are short */
  step steps[STEPS];
  kd_alias aliases[CHAIN_INPUTS]; /* inputs of the output's type */
  uint32_t alias_count;
};

/* ---- which nodes -------------------------------------------------------------------- */

static const struct {
  const char *op;
  uint32_t row;
} unary_names[] =
    {
#define UNARY_FLOAT(op, a, b, expression) {#op, UNARY_##op},
#include "defs/elementwise.def"
        {"BitwiseNot", UNARY_BitwiseNot},
},
  binary_names[] = {
#define BINARY_FLOAT(op, expression) {#op, BINARY_##op},
#define BINARY_BOOL(op, expression)  {#op, BINARY_##op},
#define COMPARE(op, expression)      {#op, BINARY_##op},
#include "defs/elementwise.def"
      {"BitwiseAnd", BINARY_BitwiseAnd},
      {"BitwiseOr", BINARY_BitwiseOr},
      {"BitwiseXor", BINARY_BitwiseXor},
      /* of any number of inputs, one behind the other */
      {"Sum", BINARY_Add},
};

static bool find_unary(const char *op, uint32_t *out_row) {
  for (size_t i = 0; i < sizeof unary_names / sizeof *unary_names; i++)
    if (!strcmp(unary_names[i].op, op)) {
      *out_row = unary_names[i].row;
      return true;
    }
  return false;
}

static bool find_binary(const char *op, uint32_t *out_row) {
  for (size_t i = 0; i < sizeof binary_names / sizeof *binary_names; i++)
    if (!strcmp(binary_names[i].op, op)) {
      *out_row = binary_names[i].row;
      return true;
    }
  return false;
}

/* The type of an argument of known shape; KD_NONE: it is absent, or not so. */
static kd_dtype chain_type_of(const kd_node *node, bool output,
                              uint32_t index) {
  const kd_node_table *read = cpu_host->node;
  kd_type type = {0};
  kd_status status = output ? read->output_type(node, index, &type)
                            : read->input_type(node, index, &type);
  if (status != KD_OK || type.rank > KD_MAX_RANK) return KD_NONE;
  for (uint32_t i = 0; i < type.rank; i++)
    if (type.dims[i] < 0) return KD_NONE;
  return type.dtype;
}

static bool is_narrow(kd_dtype dtype) {
  return dtype == KD_F16 || dtype == KD_BF16;
}

static bool alike(const kd_node *node, uint32_t first, uint32_t count,
                  kd_dtype type) {
  for (uint32_t i = first; i < count; i++)
    if (chain_type_of(node, false, i) != type) return false;
  return true;
}

/* What a node is made of; its type is that of what it computes with. */
typedef struct reading {
  const cpu_loops *loops;
  enum { ONE, TWO, MANY, CLIP, CHOICE, SCALED } shape;
  uint32_t row;
  kd_dtype type, out;
} reading;

/* One element of that type; `rank`: of what it goes with. */
static bool is_one(const kd_node *node, uint32_t index, kd_dtype dtype,
                   uint32_t rank) {
  kd_type type = {0};
  if (chain_type_of(node, false, index) != dtype ||
      cpu_host->node->input_type(node, index, &type) != KD_OK ||
      type.rank > rank)
    return false;
  for (uint32_t i = 0; i < type.rank; i++)
    if (type.dims[i] != 1) return false;
  return true;
}

/* QuantizeLinear and DequantizeLinear of bytes by one scale: computed with as floats. */
static bool read_scaled(const kd_node *node, reading *r) {
  bool to_bytes = cpu_host->node->op(node)[0] == 'Q';
  kd_dtype bytes = to_bytes ? r->out : r->type;
  kd_dtype floats = to_bytes ? r->type : r->out;
  int64_t precision = cpu_host->node->attr_int(node, "precision", KD_NONE);
  kd_type x = {0};
  r->shape = SCALED;
  r->row = chain_type_of(node, false, 2) != KD_NONE;
  r->type = KD_F32;
  return (bytes == KD_U8 || bytes == KD_I8) && floats == KD_F32 &&
         (precision == KD_NONE || precision == KD_F32) &&
         cpu_host->node->input_type(node, 0, &x) == KD_OK &&
         is_one(node, 1, KD_F32, x.rank) &&
         (!r->row || is_one(node, 2, bytes, x.rank));
}

static bool chain_read_node(const kd_node *node, reading *r) {
  const char *op = cpu_host->node->op(node);
  uint32_t n = cpu_host->node->input_count(node);
  if (strcmp(cpu_host->node->domain(node), "ai.onnx") != 0 || !n) return false;
  r->loops = cpu_loops_get();
  r->type = chain_type_of(node, false, 0);
  r->out = chain_type_of(node, true, 0);
  if (!r->type || !r->out) return false;
  if (!strcmp(op, "QuantizeLinear") || !strcmp(op, "DequantizeLinear"))
    return read_scaled(node, r);
  if (!strcmp(op, "Where")) {
    r->shape = CHOICE;
    r->type = r->out;
    size_t size = kd_dtype_size(r->out);
    return n == 3 && chain_type_of(node, false, 0) == KD_BOOL &&
           alike(node, 1, 3, r->out) &&
           (size == 1 || size == 2 || size == 4 || size == 8);
  }
  if (!strcmp(op, "Clip")) {
    r->shape = CLIP;
    for (uint32_t i = 1; i < n; i++)
      if (chain_type_of(node, false, i) &&
          chain_type_of(node, false, i) != r->type)
        return false;
    return (chain_type_of(node, false, 1) || chain_type_of(node, false, 2)) &&
           r->out == r->type &&
           r->loops->binary[BINARY_Max].loops[r->type] != NULL;
  }
  bool gelu = !strcmp(op, "Gelu");
  if (gelu) r->row = cpu_gelu_row(node);
  if (gelu || find_unary(op, &r->row)) {
    r->shape = ONE;
    return n == 1 && r->loops->unary[r->row].loops[r->type] &&
           r->out == r->type;
  }
  if (!find_binary(op, &r->row)) return false;
  if (r->row == BINARY_Mod && cpu_host->node->attr_int(node, "fmod", 0))
    r->row = BINARY_FMod;
  r->shape = n == 2 ? TWO : MANY;
  bool sums = n > 2 && r->row == BINARY_Add && is_narrow(r->type);
  return n > 1 && !sums && r->loops->binary[r->row].loops[r->type] &&
         alike(node, 1, n, r->type) &&
         (r->out == r->type || (n == 2 && r->out == KD_BOOL));
}

static chain_role kernels_chain_fits(void *context, const kd_node *node,
                                     kd_dtype *out_type) {
  reading r;
  (void)context;
  if (!chain_read_node(node, &r)) return CHAIN_NOTHING;
  *out_type = r.type;
  return CHAIN_STEP;
}

bool cpu_regions_off;

static kd_status chain_claim(kd_device *device, const kd_graph *graph,
                             kd_claim take, void *context) {
  (void)device;
  if (cpu_regions_off) return KD_OK;
  return chains_claim(cpu_host, graph, kernels_chain_fits, NULL, NULL, take,
                      context);
}

/* ---- from nodes to steps --------------------------------------------------------------- */

typedef struct writing {
  kd_region *to;
  const kd_graph *graph;
  reading read;
  uint32_t made[CHAIN_NODES]; /* by node: the step that makes its value */
  bool met[CHAIN_INPUTS];
  kd_type inputs[CHAIN_INPUTS];
} writing;

static kd_status take_operand(writing *w, uint32_t node, uint32_t input,
                              operand *out) {
  chain_operand from;
  kd_status status = chain_find(cpu_host, w->graph, node, input, &from);
  if (status != KD_OK) return status;
  /* until slots are given out, a block is the step that makes it */
  *out = (operand){from.node, from.node ? w->made[from.index] : from.index};
  if (from.node) return KD_OK;
  w->met[from.index] = true;
  return cpu_host->node->input_type(cpu_host->graph->node(w->graph, node),
                                    input, &w->inputs[from.index]);
}

static kd_status add_step(writing *w, kind kind, uint32_t op, operand a,
                          operand b, operand c, step **out) {
  kd_region *to = w->to;
  if (to->step_count == STEPS)
    return FAIL(KD_UNIMPLEMENTED, "more than %d steps", STEPS);
  *out = &to->steps[to->step_count++];
  **out = (step){.kind = kind,
                 .op = op,
                 .in = w->read.type,
                 .out = w->read.out,
                 .from = {a, b, c}};
  return KD_OK;
}

/* op(op(x, y), z) ... of the inputs that are there; `second`: the op with input 1. */
static kd_status add_pairs(writing *w, uint32_t node, uint32_t second,
                           uint32_t row) {
  const kd_node *at = cpu_host->graph->node(w->graph, node);
  uint32_t n = cpu_host->node->input_count(at);
  operand left, right, none = {0};
  kd_status status = take_operand(w, node, 0, &left);
  step *made = NULL;
  for (uint32_t i = 1; i < n && status == KD_OK; i++) {
    if (!chain_type_of(at, false, i)) continue;
    status = take_operand(w, node, i, &right);
    if (status == KD_OK)
      status =
          add_step(w, BINARY, i == 1 ? second : row, left, right, none, &made);
    left = (operand){true, w->to->step_count - 1};
  }
  return status != KD_OK || made
             ? status
             : FAIL(KD_UNIMPLEMENTED, "an op that does nothing");
}

static kd_status add_scaled(writing *w, uint32_t node) {
  const kd_node *at = cpu_host->graph->node(w->graph, node);
  bool to_bytes = cpu_host->node->op(at)[0] == 'Q', zero = w->read.row;
  operand from[3] = {{0}};
  step *made = NULL;
  kd_status status = KD_OK;
  for (uint32_t i = 0; i < 2u + zero && status == KD_OK; i++)
    status = take_operand(w, node, i, &from[i]);
  if (status != KD_OK) return status;
  if (from[1].block || from[2].block)
    return FAIL(KD_UNIMPLEMENTED, "a scale that is made in the chain");
  status = add_step(w, to_bytes ? TO_BYTES : FROM_BYTES, zero, from[0], from[1],
                    from[zero ? 2 : 1], &made);
  if (status == KD_OK && !to_bytes) made->in = chain_type_of(at, false, 0);
  return status;
}

static kd_status chain_add_node(writing *w, uint32_t node) {
  const kd_node *at = cpu_host->graph->node(w->graph, node);
  reading *r = &w->read;
  operand from[3] = {{0}};
  step *made = NULL;
  kd_status status = KD_OK;
  if (!chain_read_node(at, r))
    return FAIL(KD_UNIMPLEMENTED, "%s is no elementwise op of these types",
                cpu_host->node->op(at));
  if (r->shape == CLIP) {
    status = add_pairs(w, node, BINARY_Max, BINARY_Min);
  } else if (r->shape == SCALED) {
    status = add_scaled(w, node);
  } else if (r->shape == TWO || r->shape == MANY) {
    status = add_pairs(w, node, r->row, r->row);
  } else {
    uint32_t n = r->shape == ONE ? 1 : 3;
    for (uint32_t i = 0; i < n && status == KD_OK; i++)
      status = take_operand(w, node, i, &from[i]);
    if (status == KD_OK)
      status = add_step(w, n == 1 ? UNARY : WHERE, r->row, from[0], from[1],
                        from[2], &made);
    if (status == KD_OK && n == 1) {
      const cpu_unary_row *row = &r->loops->unary[r->row];
      const kd_node_table *read = cpu_host->node;
      if (row->a && *row->a) made->a = (double)read->attr_float(at, row->a, 0);
      if (row->b && *row->b) made->b = (double)read->attr_float(at, row->b, 0);
    }
  }
  w->made[node] = w->to->step_count - 1;
  return status;
}

/* Blocks for the steps' results, used again when nobody reads them any more. */
static kd_status give_slots(kd_region *to) {
  uint32_t last[STEPS] = {0}, slot_of[STEPS], count = 0;
  size_t widest = 1;
  bool used[SLOTS] = {false};
  for (uint32_t i = 0; i < to->step_count; i++)
    for (int k = 0; k < 3; k++)
      if (to->steps[i].from[k].block) last[to->steps[i].from[k].index] = i;
  for (uint32_t i = 0; i < to->step_count; i++) {
    step *at = &to->steps[i];
    uint32_t slot = 0;
    while (slot < SLOTS && used[slot])
      slot++;
    if (slot == SLOTS)
      return FAIL(KD_UNIMPLEMENTED, "more than %d values at once", SLOTS);
    used[slot] = true;
    slot_of[i] = at->to = slot;
    if (slot + 1 > count) count = slot + 1;
    if (kd_dtype_size(at->out) > widest) widest = kd_dtype_size(at->out);
    for (int k = 0; k < 3; k++)
      if (at->from[k].block) {
        uint32_t maker = at->from[k].index;
        at->from[k].index = slot_of[maker];
        if (last[maker] == i) used[slot_of[maker]] = false;
      }
  }
  to->block = BYTES / (int64_t)(count * widest) / 64 * 64;
  if (to->block > BLOCK) to->block = BLOCK;
  to->slot = (size_t)to->block * widest;
  return KD_OK;
}

static bool chain_is_same(const kd_type *a, const kd_type *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (uint32_t i = 0; same && i < a->rank; i++)
    same = a->dims[i] == b->dims[i];
  return same;
}

static kd_status chain_lay_out(writing *w) {
  kd_region *to = w->to;
  uint32_t nodes = cpu_host->graph->node_count(w->graph);
  kd_type out = {0};
  const kd_node *last = cpu_host->graph->node(w->graph, nodes - 1);
  kd_status status = cpu_host->node->output_type(last, 0, &out);
  if (status != KD_OK) return status;
  to->out = out.dtype;
  to->input_count = cpu_host->graph->input_count(w->graph);
  strided_begin(&to->space, out.dims, out.rank);
  for (uint32_t i = 0; i < to->input_count; i++) {
    if (!w->met[i]) return FAIL(KD_UNIMPLEMENTED, "input %u is not read", i);
    to->inputs[i] = w->inputs[i].dtype;
    strided_broadcast(&to->space, w->inputs[i].dims, w->inputs[i].rank);
    /* a block is read before its result is written */
    if (chain_is_same(&w->inputs[i], &out))
      to->aliases[to->alias_count++] = (kd_alias){.input = i};
  }
  to->items = 0;
  if (!strided_count(&to->space)) return KD_OK;
  strided_simplify(&to->space);
  to->row = to->space.dims[to->space.rank - 1];
  to->pieces = (to->row + to->block - 1) / to->block;
  to->rows = to->space.rank > 1 && to->row < LINED / 2 ? LINED / to->row : 1;
  to->items = (strided_rows(&to->space) + to->rows - 1) / to->rows * to->pieces;
  return KD_OK;
}

static kd_status translate(kd_region *to, const kd_graph *graph) {
  writing w = {.to = to, .graph = graph};
  kd_status status = chain_check(cpu_host, graph, CHAIN_NO_ROOT);
  kd_dtype type = KD_NONE;
  for (uint32_t i = 0;
       status == KD_OK && i < cpu_host->graph->node_count(graph); i++) {
    status = chain_add_node(&w, i);
    if (!i) type = w.read.type;
    if (status == KD_OK && type != w.read.type)
      status = FAIL(KD_UNIMPLEMENTED, "a chain of two types");
  }
  if (status == KD_OK) status = give_slots(to);
  return status == KD_OK ? chain_lay_out(&w) : status;
}

static kd_status chain_compile(kd_device *device, const kd_compile *what,
                               kd_region **out_region) {
  (void)device;
  if (what->flags)
    return FAIL(KD_UNIMPLEMENTED, "compile flags 0x%x", what->flags);
  kd_region *region = cpu_host->allocate(cpu_host, sizeof *region, 0);
  if (!region) return FAIL(KD_OUT_OF_MEMORY, "no memory for a region");
  memset(region, 0, sizeof *region);
  kd_status status = translate(region, what->graph);
  if (status == KD_OK)
    *out_region = region;
  else
    cpu_host->release(cpu_host, region);
  return status;
}

static void chain_destroy(kd_region *region) {
  cpu_host->release(cpu_host, region);
}

/* ---- running ----------------------------------------------------------------------------- */

typedef struct work {
  const kd_region *region;
  const kd_launch *launch;
  const cpu_loops *loops;
} work;

#define CHOOSE(type)                                         \
  for (int64_t i = 0; i < n; i++)                            \
  ((type *)to)[i] = ((const uint8_t *)from[0])[i * by[0]]    \
                        ? ((const type *)from[1])[i * by[1]] \
                        : ((const type *)from[2])[i * by[2]]

static void chain_choose(size_t size, const void *const *from,
                         const int64_t *by, void *to, int64_t n) {
  switch (size) {
    CPU_SIZES(CHOOSE)
    default:
      break;
  }
}

/* n elements of `size` bytes, `step` apart, one behind the other. */
static const void *chain_gather(const void *x, int64_t step, size_t size,
                                int64_t n, void *room) {
  if (step == 1) return x;
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)room + (size_t)i * size,
           (const char *)x + i * step * (int64_t)size, size);
  return room;
}

static void scale_block(const step *at, const void *const *from, int64_t by,
                        void *to, int64_t n) {
  const cpu_quant_loops *loops = cpu_quant_get();
  kd_dtype bytes = at->kind == TO_BYTES ? at->out : at->in;
  const float *scale = from[1];
  const float zero = at->op ? (float)cpu_get(from[2], bytes, 0) : 0;
  float room[BLOCK];
  const void *x = chain_gather(from[0], by, kd_dtype_size(at->in), n, room);
  if (at->kind == TO_BYTES)
    loops->to[bytes](x, n, scale, &zero, 0, to);
  else
    loops->from[bytes](x, n, scale, &zero, 0, to);
}

/* Elements of an input, `by` apart. */
typedef struct view {
  const char *data;
  int64_t by;
} view;

/* n elements, all steps; `to` is where the last one writes. */
static void run_block(const work *work, const view *inputs, char *blocks,
                      char *to, int64_t n) {
  const kd_region *r = work->region;
  for (uint32_t i = 0; i < r->step_count; i++) {
    const step *at = &r->steps[i];
    const void *from[3] = {NULL};
    int64_t by[3] = {1, 1, 1};
    uint32_t count = at->kind < WHERE ? (uint32_t)at->kind + 1 : 3;
    char *target = i + 1 == r->step_count ? to : blocks + at->to * r->slot;
    for (uint32_t k = 0; k < count; k++) {
      uint32_t index = at->from[k].index;
      if (at->from[k].block) {
        from[k] = blocks + index * r->slot;
      } else {
        by[k] = inputs[index].by;
        from[k] = inputs[index].data;
      }
    }
    if (at->kind == UNARY)
      work->loops->unary[at->op].loops[at->in](from[0], target, n, at->a,
                                               at->b);
    else if (at->kind == BINARY)
      work->loops->binary[at->op].loops[at->in](from[0], by[0], from[1], by[1],
                                                target, n);
    else if (at->kind == WHERE)
      chain_choose(kd_dtype_size(at->out), from, by, target, n);
    else
      scale_block(at, from, by[0], target, n);
  }
}

/* The output from row `row` on. */
static char *target_of(const work *work, int64_t row) {
  const kd_region *r = work->region;
  return (char *)work->launch->outputs[0].data +
         (size_t)(row * r->row) * kd_dtype_size(r->out);
}

static void run_items(void *context, int64_t begin, int64_t end) {
  const work *work = context;
  const kd_region *r = work->region;
  _Alignas(64) char blocks[BYTES];
  int64_t offsets[STRIDED_OPERANDS];
  view views[STRIDED_OPERANDS];
  for (int64_t item = begin; item < end; item++) {
    int64_t row = item / r->pieces, from = item % r->pieces * r->block;
    int64_t n = r->row - from < r->block ? r->row - from : r->block;
    strided_row(&r->space, row, offsets);
    for (uint32_t k = 0; k < r->input_count; k++) {
      int64_t by = r->space.steps[k][r->space.rank - 1];
      views[k] = (view){
          (const char *)work->launch->inputs[k].data +
              (offsets[k] + from * by) * (int64_t)kd_dtype_size(r->inputs[k]),
          by};
    }
    run_block(work, views, blocks,
              target_of(work, row) + (size_t)from * kd_dtype_size(r->out), n);
  }
}

/* Rows of a few elements: `count` of n, whose elements lie `by` apart, and they `step`. */
typedef struct short_rows {
  const char *from;
  int64_t by, step, n, count;
} short_rows;

/* Side by side, those of f32, which are most, without a call. */
static void line_up(const short_rows *rows, size_t size, char *to) {
  const float *from = (const float *)(const void *)rows->from;
  float *out = (float *)(void *)to;
  for (int64_t i = 0; i < rows->count; i++) {
    int64_t at = i * rows->step, n = rows->n;
    if (size == sizeof(float) && rows->by == 0)
      for (int64_t k = 0; k < n; k++)
        out[i * n + k] = from[at];
    else if (size == sizeof(float) && rows->by == 1)
      for (int64_t k = 0; k < n; k++)
        out[i * n + k] = from[at + k];
    else
      for (int64_t k = 0; k < n; k++)
        memcpy(to + (size_t)(i * n + k) * size,
               rows->from + (at + k * rows->by) * (int64_t)size, size);
  }
}

/* Where a walk over rows is. */
typedef struct walk {
  int64_t row, offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
} walk;

/* The next `count` rows of all inputs, and past them. */
static void take_rows(const work *work, walk *at, int64_t count,
                      char (*lined)[LINED * sizeof(double)]) {
  const kd_region *r = work->region;
  const strided *space = &r->space;
  int inner = space->rank - 1, outer = inner - 1;
  for (int64_t done = 0, some; done < count; done += some) {
    int64_t left = space->dims[outer] - at->index[outer];
    some = left < count - done ? left : count - done;
    for (uint32_t k = 0; k < r->input_count; k++) {
      size_t size = kd_dtype_size(r->inputs[k]);
      short_rows rows = {(const char *)work->launch->inputs[k].data +
                             at->offsets[k] * (int64_t)size,
                         space->steps[k][inner], space->steps[k][outer], r->row,
                         some};
      line_up(&rows, size, lined[k] + (size_t)(done * r->row) * size);
      at->offsets[k] += (some - 1) * rows.step;
    }
    at->index[outer] += some - 1;
    strided_next(space, at->index, at->offsets);
  }
  at->row += count;
}

/* Rows are short: several of each input are brought side by side. */
static void run_short(void *context, int64_t begin, int64_t end) {
  const work *work = context;
  const kd_region *r = work->region;
  _Alignas(64) char blocks[BYTES];
  _Alignas(64) char lined[STRIDED_OPERANDS][LINED * sizeof(double)];
  int64_t all = strided_rows(&r->space), last = end * r->rows;
  walk at = {.row = begin * r->rows};
  view views[STRIDED_OPERANDS];
  for (uint32_t k = 0; k < r->input_count; k++)
    views[k] = (view){lined[k], 1};
  if (last > all) last = all;
  strided_row(&r->space, at.row, at.offsets);
  strided_index(&r->space, at.row, at.index);
  while (at.row < last) {
    int64_t row = at.row;
    int64_t some = last - row < r->rows ? last - row : r->rows;
    take_rows(work, &at, some, lined);
    run_block(work, views, blocks, target_of(work, row), some * r->row);
  }
}

static kd_status chain_enqueue(kd_region *region, kd_stream *stream,
                               const kd_launch *launch) {
  (void)stream;
  work work = {region, launch, cpu_loops_get()};
  int64_t each = region->row * region->rows;
  if (each > region->block) each = region->block;
  int64_t grain = each ? CPU_GRAIN / each / region->step_count + 1 : 1;
  void (*run)(void *, int64_t, int64_t) =
      region->rows > 1 ? run_short : run_items;
  if (region->items <= grain)
    run(&work, 0, region->items);
  else
    cpu_host->parallel_for(cpu_host, region->items, grain, run, &work);
  return KD_OK;
}

static uint32_t aliases(kd_region *region, const kd_alias **out_aliases) {
  *out_aliases = region->aliases;
  return region->alias_count;
}

const kd_region_table cpu_regions = {
    .struct_size = sizeof(kd_region_table),
    .claim = chain_claim,
    .compile = chain_compile,
    .enqueue = chain_enqueue,
    .destroy = chain_destroy,
    .aliases = aliases,
};
