/* nodes.c - nodes out of nothing, one of each kind that models use most: what sources there
 * are, without a device. Sources don't depend on shapes, so one node stands for all. */
#include "families/nodes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "families/instance.h"
#include "families/rows.h"

/* ---- nodes out of nothing --------------------------------------------------------- */

typedef struct shape {
  kd_dtype dtype; /* KD_NONE: absent */
  uint32_t rank;
  int64_t dims[4];
} shape;

struct kd_node {
  char op[24];
  shape in[6], out[3];
  /* an integer attribute that is 1, or a string that is Relu */
  char flag[16];
  int64_t axes[2]; /* value of input 1 where it has one element: a constant */
};

/* Numbers, with a comma between; returns what follows. */
static const char *read_numbers(const char *text, int64_t *out,
                                uint32_t *out_count) {
  char *end = NULL;
  *out_count = 0;
  for (;; text = end + 1) {
    int64_t number = strtoll(text, &end, 10);
    if (end == text) return text;
    out[(*out_count)++] = number;
    if (*end != ',') return end;
  }
}

/* A node as text: its op, its flag where it has one, types of inputs, and behind an arrow those of
 * outputs; of type T: `type`; behind a =, the axes. */
static kd_node read_node(const char *text, kd_dtype type) {
  kd_node node = {.op = ""};
  shape *at = node.in;
  for (size_t size; *text; text += size + strspn(text + size, " ")) {
    size = strcspn(text, " ");
    size_t name = strcspn(text, " [");
    if (name == size) { /* no type */
      if (*text == '-')
        at = node.out;
      else if (!*node.op)
        memcpy(node.op, text, name);
      else
        memcpy(node.flag, text, name);
      continue;
    }
    at->dtype = type;
    for (uint32_t i = 1; i < KD_DTYPE_COUNT; i++) {
      const char *known = kd_dtype_name((kd_dtype)i);
      if (strlen(known) == name && !memcmp(known, text, name))
        at->dtype = (kd_dtype)i;
    }
    const char *end = read_numbers(text + name + 1, at->dims, &at->rank);
    uint32_t count = 0;
    if (end[1] == '=') read_numbers(end + 2, node.axes, &count);
    at++;
  }
  return node;
}

static const char *node_op(const kd_node *node) {
  return node->op;
}

static uint32_t count(const shape *list, uint32_t most) {
  while (most && !list[most - 1].dtype)
    most--;
  return most;
}

static uint32_t nodes_input_count(const kd_node *node) {
  return count(node->in, 6);
}

static uint32_t output_count(const kd_node *node) {
  return count(node->out, 3);
}

static kd_status nodes_type_of(const shape *s, kd_type *out) {
  *out = (kd_type){.dims = s->dims, .dtype = s->dtype, .rank = s->rank};
  return s->dtype ? KD_OK : KD_NOT_FOUND;
}

static kd_status input_type(const kd_node *node, uint32_t index, kd_type *out) {
  return nodes_type_of(&node->in[index], out);
}

static kd_status output_type(const kd_node *node, uint32_t index,
                             kd_type *out) {
  return nodes_type_of(&node->out[index], out);
}

static kd_status constant(const kd_node *node, uint32_t index, kd_tensor *out) {
  const shape *in = &node->in[index];
  int64_t elements = 1;
  for (uint32_t i = 0; i < in->rank; i++)
    elements *= in->dims[i];
  memset(out, 0, sizeof *out);
  out->data = (void *)(uintptr_t)node->axes;
  return index && in->dtype == KD_I64 && elements <= 2 ? KD_OK : KD_NOT_FOUND;
}

static int64_t attr_int(const kd_node *node, const char *name, int64_t other) {
  return !strcmp(node->flag, name) ? 1 : other;
}

static float attr_float(const kd_node *node, const char *name, float other) {
  (void)node;
  (void)name;
  return other;
}

static const char *attr_string(const kd_node *node, const char *name,
                               const char *other) {
  return !strcmp(node->flag, name) ? "Relu" : other;
}

static int64_t attr_ints(const kd_node *node, const char *name,
                         const int64_t **out) {
  (void)node;
  (void)name;
  *out = NULL;
  return -1;
}

static kd_status attr_tensor(const kd_node *node, const char *name,
                             kd_tensor *out) {
  (void)node;
  (void)name;
  (void)out;
  return KD_NOT_FOUND;
}

static void *nodes_allocate(const kd_host *self, uint64_t size,
                            uint64_t alignment) {
  (void)self;
  (void)alignment;
  return malloc((size_t)size);
}

static void nodes_release(const kd_host *self, void *memory) {
  (void)self;
  free(memory);
}

static kd_status nodes_fail(kd_status code, const char *format, ...)
    KD_PRINTF(2, 3);
static kd_status nodes_fail(kd_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  return code;
}

static void nodes_log(const kd_host *self, uint32_t level, const char *format,
                      ...) KD_PRINTF(3, 4);
static void nodes_log(const kd_host *self, uint32_t level, const char *format,
                      ...) {
  va_list args;
  (void)self;
  (void)level;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
}

static kd_status fail_text(kd_status code, const char *text) {
  return nodes_fail(code, "%s", text);
}

static const kd_node_table table = {.struct_size = sizeof table,
                                    .op = node_op,
                                    .input_count = nodes_input_count,
                                    .output_count = output_count,
                                    .input_type = input_type,
                                    .output_type = output_type,
                                    .constant = constant,
                                    .attr_int = attr_int,
                                    .attr_float = attr_float,
                                    .attr_string = attr_string,
                                    .attr_ints = attr_ints,
                                    .attr_tensor = attr_tensor};
const kd_host fam_plain_host = {.struct_size = sizeof(kd_host),
                                .fail = nodes_fail,
                                .fail_text = fail_text,
                                .log = nodes_log,
                                .allocate = nodes_allocate,
                                .release = nodes_release,
                                .node = &table};

/* ---- sources ------------------------------------------------------------------------ */

typedef struct walk {
  fam_dialect dialect;
  char *(*source)(const kd_host *host, const fam_dialect *dialect,
                  const fam_pass *pass);
  bool (*take)(void *context, const char *source);
  void *context;
  bool stopped;
} walk;

/* With and without tiles, and vectors of four where the dialect has them; where it is
 * eager, as for a processor. */
static void write_node(walk *all, const kd_node *node) {
  static fam_op op;
  const fam_row *row = fam_rows;
  while (strcmp(row->op, node->op) != 0)
    row++;
  int ways = all->dialect.eager ? 1 : all->dialect.vec4 ? 4 : 2;
  for (int way = 0; way < ways && !all->stopped; way++) {
    fam_plan *plan = calloc(1, sizeof *plan);
    all->stopped = true;
    if (!plan) return;
    memset(&op, 0, sizeof op);
    plan->host = &fam_plain_host;
    plan->float64 = plan->int64 = true;
    plan->shared = (way & 1) != 0;
    plan->vec4 = plan->crowds = (way & 2) != 0;
    if (fam_read(&op, &fam_plain_host, node, row, NULL) != KD_OK ||
        fam_make(plan, &op, row) != KD_OK) {
      fprintf(stderr, "%s makes no plan\n", node->op);
    } else {
      all->stopped = false;
    }
    for (uint32_t i = 0; i < plan->count && !all->stopped; i++) {
      char *source =
          all->source(&fam_plain_host, &all->dialect, &plan->passes[i]);
      all->stopped = !source || !all->take(all->context, source);
      free(source);
    }
    fam_free(plan);
    free(plan);
  }
}

/* ---- which ------------------------------------------------------------------------------ */

static const char *const others[] = {
    "Gelu f32[4,5] -> f32[4,5]",
    "Not bool[4,5] -> bool[4,5]",
    "Clip f32[4,5] f32[] f32[] -> f32[4,5]",
    "Pow f32[4,5] f32[] -> f32[4,5]",
    "Where bool[4,5] f32[4,5] f32[4,5] -> f32[4,5]",
    "Where bool[4,5] f32[4,5] f32[] -> f32[4,5]",
    "Cast f32[4,5] -> i64[4,5]",
    "Cast i64[4,5] -> f32[4,5]",
    "Cast f32[4,5] -> f16[4,5]",
    "Cast f16[4,5] -> f32[4,5]",
    "Cast bool[4,5] -> f32[4,5]",
    "Cast f32[4,5] -> f8e4m3fn[4,5]",
    "Cast f8e5m2fnuz[4,5] -> f16[4,5]",
    "Cast f32[4,5] -> f8e8m0[4,5]",
    "Cast i64[4,5] -> i4[4,5]",
    "Cast u2[4,5] -> f32[4,5]",
    "QuantizeLinear f32[4,5] f32[] f8e4m3fn[] -> f8e4m3fn[4,5]",
    "QuantizeLinear f32[4,5] f32[] -> i4[4,5]",
    "DequantizeLinear u4[4,5] f32[] u4[] -> f32[4,5]",
    "MatMul f32[4,5] f32[5,6] -> f32[4,6]",
    "MatMul f32[1] f32[1] -> f32[]",
    "Gemm f32[4,5] f32[5,6] f32[6] -> f32[4,6]",
    "Gemm transB f32[4,5] f32[6,5] f32[6] -> f32[4,6]",
    "Conv f32[1,3,8,8] f32[4,3,3,3] -> f32[1,4,6,6]",
    "Conv f32[1,3,8,8] f32[4,3,3,3] f32[4] -> f32[1,4,6,6]",
    "FusedConv activation f32[1,3,8,8] f32[4,3,3,3] f32[4] -> f32[1,4,6,6]",
    ("FusedConv activation f32[1,3,8,8] f32[4,3,3,3] f32[4] f32[1,4,6,6] -> "
     "f32[1,4,6,6]"),
    "FusedConv f32[1,3,8,8] f32[4,3,3,3] f32[4] f32[1,4,6,6] -> f32[1,4,6,6]",
    "GlobalAveragePool f32[1,3,8,8] -> f32[1,3,1,1]",
    "GlobalMaxPool f32[1,3,8,8] -> f32[1,3,1,1]",
    "Softmax f32[4,5] -> f32[4,5]",
    "Softmax f32[4,1000] -> f32[4,1000]",
    "LogSoftmax f32[4,5] -> f32[4,5]",
    "LogSoftmax f32[4,1000] -> f32[4,1000]",
    "LayerNormalization f32[4,5] f32[5] f32[5] -> f32[4,5]",
    "LayerNormalization f32[4,1000] f32[1000] f32[1000] -> f32[4,1000]",
    ("BatchNormalization f32[1,3,8,8] f32[3] f32[3] f32[3] f32[3] -> "
     "f32[1,3,8,8]"),
    "ArgMax f32[4,5] -> i64[1,5]",
    "Gather f32[4,5] i64[5] -> f32[5,5]",
};

/* Ops that only move: flat, by strides, into a part. */
static const char *const moves[] = {
    "Transpose T[4,5] -> T[5,4]",
    "Expand T[4,5] i64[2]=4,5 -> T[4,5]",
    "Concat T[4,5] T[4,5] -> T[8,5]",
    "Concat axis T[4,5] T[4,5] -> T[4,10]",
};

static void nodes_write(walk *all, const char *text, kd_dtype type) {
  const kd_node node = read_node(text, type);
  write_node(all, &node);
}

/* A row of elementwise.def, or of reductions. */
static void write_op(walk *all, const fam_row *row, const char *types,
                     kd_dtype type) {
  char text[128];
  snprintf(text, sizeof text, "%s %s", row->op, types);
  nodes_write(all, text, type);
}

static void write_elementwise(walk *all, const fam_row *row, kd_dtype type) {
  static const char *const compares[] = {"Equal", "Greater", "Less",
                                         "GreaterOrEqual", "LessOrEqual"};
  bool compare = false;
  for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
    compare |= !strcmp(row->op, compares[i]);
  write_op(all, row,
           compare ? "T[4,5] T[4,5] -> bool[4,5]" : "T[4,5] T[4,5] -> T[4,5]",
           type);
  if (row->plan == fam_plan_binary)
    write_op(all, row,
             compare ? "T[4,5] T[5] -> bool[4,5]" : "T[4,5] T[5] -> T[4,5]",
             type);
}

/* Whether the row's op takes floats and is no bit operation. */
static bool is_real(const char *op) {
  return strncmp(op, "Bitwise", 7) != 0 && strcmp(op, "And") != 0 &&
         strcmp(op, "Or") != 0 && strcmp(op, "Xor") != 0;
}

bool fam_each_source(const fam_dialect *dialect,
                     char *(*source)(const kd_host *host,
                                     const fam_dialect *dialect,
                                     const fam_pass *pass),
                     bool (*take)(void *context, const char *source),
                     void *context) {
  static const char *const ints[] = {"Add", "Sub", "Mul", "Equal", "Less"};
  walk walk = {*dialect, source, take, context, false}, *all = &walk;
  for (uint32_t i = 0; i < fam_row_count; i++) {
    const fam_row *row = &fam_rows[i];
    bool elementwise =
        row->plan == fam_plan_unary || row->plan == fam_plan_binary;
    if (elementwise && is_real(row->op)) write_elementwise(all, row, KD_F32);
    for (size_t k = 0; k < sizeof ints / sizeof *ints; k++)
      if (!strcmp(row->op, ints[k])) write_elementwise(all, row, KD_I64);
    if (row->plan == fam_plan_reduce) {
      write_op(all, row, "f32[4,5] i64[1]=1 -> f32[4,1]", KD_F32);
      write_op(all, row, "f32[4,1000] i64[1]=1 -> f32[4,1]", KD_F32);
    }
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    nodes_write(all, others[i], KD_F32);
  static const kd_dtype moved[] = {KD_U8, KD_F16, KD_F32, KD_I64};
  for (size_t i = 0; i < 4; i++)
    for (size_t k = 0; k < sizeof moves / sizeof *moves; k++)
      nodes_write(all, moves[k], moved[i]);
  return !all->stopped;
}
