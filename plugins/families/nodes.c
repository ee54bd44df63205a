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
  const char *op;
  shape in[6], out[3];
  /* an integer attribute that is 1, or a string that is Relu */
  const char *flag;
  int64_t axes[2]; /* value of input 1 where it has one element: a constant */
};

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
  return node->flag && !strcmp(node->flag, name) ? 1 : other;
}

static float attr_float(const kd_node *node, const char *name, float other) {
  (void)node;
  (void)name;
  return other;
}

static const char *attr_string(const kd_node *node, const char *name,
                               const char *other) {
  return node->flag && !strcmp(node->flag, name) ? "Relu" : other;
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
static const kd_host host = {.struct_size = sizeof host,
                             .fail = nodes_fail,
                             .fail_text = fail_text,
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
    plan->host = &host;
    plan->float64 = plan->int64 = true;
    plan->shared = (way & 1) != 0;
    plan->vec4 = plan->crowds = (way & 2) != 0;
    if (fam_read(&op, &host, node, row, NULL) != KD_OK ||
        fam_make(plan, &op, row) != KD_OK) {
      fprintf(stderr, "%s makes no plan\n", node->op);
    } else {
      all->stopped = false;
    }
    for (uint32_t i = 0; i < plan->count && !all->stopped; i++) {
      char *source = all->source(&host, &all->dialect, &plan->passes[i]);
      all->stopped = !source || !all->take(all->context, source);
      free(source);
    }
    fam_free(plan);
    free(plan);
  }
}

/* ---- which ------------------------------------------------------------------------------ */

#define X2(type) \
  {              \
    type, 2, {   \
      4, 5       \
    }            \
  }
#define ROW(type) \
  {               \
    type, 1, {    \
      5           \
    }             \
  }
#define ONE(type) \
  {               \
    type, 1, {    \
      1           \
    }             \
  }
#define SCALAR(type) \
  {                  \
    type, 0, {       \
      0              \
    }                \
  }
#define IMAGE    \
  {              \
    KD_F32, 4, { \
      1, 3, 8, 8 \
    }            \
  }
#define FILTERS  \
  {              \
    KD_F32, 4, { \
      4, 3, 3, 3 \
    }            \
  }
#define RESULT   \
  {              \
    KD_F32, 4, { \
      1, 4, 6, 6 \
    }            \
  }
#define WIDE     \
  {              \
    KD_F32, 2, { \
      4, 1000    \
    }            \
  }
#define WIDE_ROW \
  {              \
    KD_F32, 1, { \
      1000       \
    }            \
  }

static const kd_node others[] = {
    {"Gelu", {X2(KD_F32)}, {X2(KD_F32)}, NULL, {0}},
    {"Not", {X2(KD_BOOL)}, {X2(KD_BOOL)}, NULL, {0}},
    {"Clip",
     {X2(KD_F32), SCALAR(KD_F32), SCALAR(KD_F32)},
     {X2(KD_F32)},
     NULL,
     {0}},
    {"Pow", {X2(KD_F32), SCALAR(KD_F32)}, {X2(KD_F32)}, NULL, {0}},
    {"Where", {X2(KD_BOOL), X2(KD_F32), X2(KD_F32)}, {X2(KD_F32)}, NULL, {0}},
    {"Where",
     {X2(KD_BOOL), X2(KD_F32), SCALAR(KD_F32)},
     {X2(KD_F32)},
     NULL,
     {0}},
    {"Cast", {X2(KD_F32)}, {X2(KD_I64)}, NULL, {0}},
    {"Cast", {X2(KD_I64)}, {X2(KD_F32)}, NULL, {0}},
    {"Cast", {X2(KD_F32)}, {X2(KD_F16)}, NULL, {0}},
    {"Cast", {X2(KD_F16)}, {X2(KD_F32)}, NULL, {0}},
    {"Cast", {X2(KD_BOOL)}, {X2(KD_F32)}, NULL, {0}},
    {"Cast", {X2(KD_F32)}, {X2(KD_F8E4M3FN)}, NULL, {0}},
    {"Cast", {X2(KD_F8E5M2FNUZ)}, {X2(KD_F16)}, NULL, {0}},
    {"Cast", {X2(KD_F32)}, {X2(KD_F8E8M0)}, NULL, {0}},
    {"Cast", {X2(KD_I64)}, {X2(KD_I4)}, NULL, {0}},
    {"Cast", {X2(KD_U2)}, {X2(KD_F32)}, NULL, {0}},
    {"QuantizeLinear",
     {X2(KD_F32), SCALAR(KD_F32), SCALAR(KD_F8E4M3FN)},
     {X2(KD_F8E4M3FN)},
     NULL,
     {0}},
    {"QuantizeLinear", {X2(KD_F32), SCALAR(KD_F32)}, {X2(KD_I4)}, NULL, {0}},
    {"DequantizeLinear",
     {X2(KD_U4), SCALAR(KD_F32), SCALAR(KD_U4)},
     {X2(KD_F32)},
     NULL,
     {0}},
    {"MatMul",
     {X2(KD_F32), {KD_F32, 2, {5, 6}}},
     {{KD_F32, 2, {4, 6}}},
     NULL,
     {0}},
    {"MatMul", {ONE(KD_F32), ONE(KD_F32)}, {SCALAR(KD_F32)}, NULL, {0}},
    {"Gemm",
     {X2(KD_F32), {KD_F32, 2, {5, 6}}, {KD_F32, 1, {6}}},
     {{KD_F32, 2, {4, 6}}},
     NULL,
     {0}},
    {"Gemm",
     {X2(KD_F32), {KD_F32, 2, {6, 5}}, {KD_F32, 1, {6}}},
     {{KD_F32, 2, {4, 6}}},
     "transB",
     {0}},
    {"Conv", {IMAGE, FILTERS}, {RESULT}, NULL, {0}},
    {"Conv", {IMAGE, FILTERS, {KD_F32, 1, {4}}}, {RESULT}, NULL, {0}},
    {"FusedConv",
     {IMAGE, FILTERS, {KD_F32, 1, {4}}},
     {RESULT},
     "activation",
     {0}},
    {"FusedConv",
     {IMAGE, FILTERS, {KD_F32, 1, {4}}, RESULT},
     {RESULT},
     "activation",
     {0}},
    {"FusedConv",
     {IMAGE, FILTERS, {KD_F32, 1, {4}}, RESULT},
     {RESULT},
     NULL,
     {0}},
    {"GlobalAveragePool", {IMAGE}, {{KD_F32, 4, {1, 3, 1, 1}}}, NULL, {0}},
    {"GlobalMaxPool", {IMAGE}, {{KD_F32, 4, {1, 3, 1, 1}}}, NULL, {0}},
    {"Softmax", {X2(KD_F32)}, {X2(KD_F32)}, NULL, {0}},
    {"Softmax", {WIDE}, {WIDE}, NULL, {0}},
    {"LogSoftmax", {X2(KD_F32)}, {X2(KD_F32)}, NULL, {0}},
    {"LogSoftmax", {WIDE}, {WIDE}, NULL, {0}},
    {"LayerNormalization",
     {X2(KD_F32), ROW(KD_F32), ROW(KD_F32)},
     {X2(KD_F32)},
     NULL,
     {0}},
    {"LayerNormalization", {WIDE, WIDE_ROW, WIDE_ROW}, {WIDE}, NULL, {0}},
    {"BatchNormalization",
     {IMAGE,
      {KD_F32, 1, {3}},
      {KD_F32, 1, {3}},
      {KD_F32, 1, {3}},
      {KD_F32, 1, {3}}},
     {IMAGE},
     NULL,
     {0}},
    {"ArgMax", {X2(KD_F32)}, {{KD_I64, 2, {1, 5}}}, NULL, {0}},
    {"Gather", {X2(KD_F32), ROW(KD_I64)}, {{KD_F32, 2, {5, 5}}}, NULL, {0}},
};

/* Ops that only move: flat, by strides, into a part. */
static void write_moves(walk *all, kd_dtype type) {
  const kd_node moves[] = {
      {"Transpose", {X2(type)}, {{type, 2, {5, 4}}}, NULL, {0}},
      {"Expand", {X2(type), {KD_I64, 1, {2}}}, {X2(type)}, NULL, {4, 5}},
      {"Concat", {X2(type), X2(type)}, {{type, 2, {8, 5}}}, NULL, {0}},
      {"Concat", {X2(type), X2(type)}, {{type, 2, {4, 10}}}, "axis", {0}},
  };
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    write_node(all, &moves[i]);
}

static void write_elementwise(walk *all, const fam_row *row, kd_dtype type) {
  static const char *const compares[] = {"Equal", "Greater", "Less",
                                         "GreaterOrEqual", "LessOrEqual"};
  kd_dtype out = type;
  for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
    if (!strcmp(row->op, compares[i])) out = KD_BOOL;
  const kd_node nodes[] = {
      {row->op, {X2(type), X2(type)}, {X2(out)}, NULL, {0}},
      {row->op, {X2(type), ROW(type)}, {X2(out)}, NULL, {0}}};
  write_node(all, &nodes[0]);
  if (row->plan == fam_plan_binary) write_node(all, &nodes[1]);
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
      const kd_node nodes[] = {
          {row->op,
           {X2(KD_F32), ONE(KD_I64)},
           {{KD_F32, 2, {4, 1}}},
           NULL,
           {1}},
          {row->op, {WIDE, ONE(KD_I64)}, {{KD_F32, 2, {4, 1}}}, NULL, {1}}};
      write_node(all, &nodes[0]);
      write_node(all, &nodes[1]);
    }
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    write_node(all, &others[i]);
  static const kd_dtype moved[] = {KD_U8, KD_F16, KD_F32, KD_I64};
  for (size_t i = 0; i < 4; i++)
    write_moves(all, moved[i]);
  return !all->stopped;
}
