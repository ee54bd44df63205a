/* robust.c - data that no well-meaning model has. */
#include <math.h>

#include "rules/ops/cases.h"
#include "rules/ops/robust.h"
#include "rules/rules.h"

/* A node with a type that no tensor could have, asked of supports and create
 * only: nothing is launched. */
static void robust_ask(const char *op, uint32_t rank, const int64_t *dims,
                       uint32_t inputs, const char *what) {
  keel_type *type = kc_take(sizeof *type + 20 * sizeof(int64_t));
  type->dtype = KD_F32;
  type->rank = rank;
  type->elements = 1;
  for (uint32_t i = 0; i < rank && i < 20; i++)
    type->dims[i] = dims[i];
  const keel_type *in[2] = {type, type}, *out[1] = {type};
  kc_op described = {.name = op, .in_count = inputs, .out_count = 1};
  kc_node *node = kc_node_typed(&described, in, out);
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *def = &kp.kernels[i];
    if (!kc_def_fits(def, node)) continue;
    kd_status status = kc_supports(def, node);
    kc_check(status >= 0 && status <= KD_BUSY, "%s: supports returned %d", what,
             status);
    if (status != KD_OK || !def->create) continue;
    kd_kernel *kernel = NULL;
    status =
        KC_CALL(kd_status, def->create(kc_device(), def, &node->node, &kernel),
                "%s.create(%s)", op, what);
    kc_check(status >= 0 && status <= KD_BUSY, "%s: create returned %d", what,
             status);
    if (status == KD_OK && kernel) def->destroy(kernel);
    kc_check(true, " ");
  }
  kc_check(true, " ");
  kc_node_free(node);
  free(type);
}

static void robust_huge_dims(void) {
  static const int64_t shapes[][3] = {{INT64_MAX, 1, 1},
                                      {INT64_MAX / 2, 3, 1},
                                      {UINT32_MAX, UINT32_MAX, 4},
                                      {1 << 20, 1 << 20, 1 << 20},
                                      {65536, 65536, 1}};
  static const char *const ops[] = {"Relu", "Exp", "Softmax", "Transpose"};
  kc_device();
  for (size_t s = 0; s < KC_COUNT_OF(shapes); s++)
    if (kc_case("shape=%zu", s))
      for (size_t o = 0; o < KC_COUNT_OF(ops); o++)
        robust_ask(ops[o], 3, shapes[s], 1, "dims near INT64_MAX");
}

static void robust_rank(void) {
  int64_t dims[20];
  static const char *const ops[] = {"Relu",    "Exp",       "Add", "Transpose",
                                    "Softmax", "ReduceSum", "Abs"};
  kc_device();
  for (uint32_t i = 0; i < 20; i++)
    dims[i] = i % 5 == 0 ? 2 : 1;
  for (uint32_t rank = 9; rank <= KD_MAX_RANK; rank++) {
    if (!kc_case("rank=%u", rank)) continue;
    for (size_t o = 0; o < KC_COUNT_OF(ops); o++) {
      kc_random random = {rank};
      kc_op_case one =
          kc_case_floats(ops[o], o == 2 ? 2 : 1, rank, dims, &random);
      kc_node *node = kc_node_make(&one.op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      kc_run *run = NULL;
      if (def) { /* works, or says that it doesn't */
        kd_status status = kc_run_make(node, def, &one.op, &kc_plain, &run);
        if (status == KD_OK) status = kc_run_now(run);
        kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
                 "%s of rank %u returned %s", ops[o], rank,
                 kd_status_name(status));
        if (status == KD_OK) kc_run_check(run, &one.op, node, "the output");
        if (run) kc_run_free(run);
      }
      kc_node_free(node);
      kc_case_free(&one);
    }
    kc_check(true, " ");
  }
}

/* What the plugin does not have can't break, and did not pass: the case is left. */
void robust_need_op(const char *op) {
  for (uint32_t d = 0; d < kp.kernel_count; d++)
    if (kp.kernels[d].op && !strcmp(kp.kernels[d].op, op)) return;
  kc_unclaimed("it has no kernel for %s", op);
}

/* Attributes out of range get past no schema; those that do are the kernel's. */
static void robust_attributes(void) {
  static const struct {
    const char *op, *attr;
    int64_t value;
  } odd[] = {{"Softmax", "axis", 99},     {"Softmax", "axis", INT64_MIN},
             {"ArgMax", "axis", -77},     {"Concat", "axis", 1000},
             {"Conv", "group", 0},        {"Conv", "group", INT64_MAX},
             {"LRN", "size", 0},          {"DepthToSpace", "blocksize", 0},
             {"LpNormalization", "p", 7}, {"LayerNormalization", "axis", 55},
             {"EyeLike", "k", INT64_MAX}, {"Gather", "axis", 12}};
  kc_device();
  for (size_t i = 0; i < KC_COUNT_OF(odd); i++) {
    kc_op_case one;
    if (!kc_case("op=%s,%s=%lld", odd[i].op, odd[i].attr,
                 (long long)odd[i].value))
      continue;
    robust_need_op(odd[i].op);
    kc_check(true, " ");
    if (!kc_case_ints(NULL, odd[i].op, 0, i, &one)) continue;
    one.op.attrs[one.op.attr_count++] = (keel_attr){
        .name = odd[i].attr, .kind = KD_ATTR_INT, .i = odd[i].value};
    for (uint32_t k = 0; k + 1 < one.op.attr_count; k++)
      if (!strcmp(one.op.attrs[k].name, odd[i].attr)) {
        one.op.attrs[k].i = odd[i].value;
        one.op.attr_count--;
      }
    /* types as a host would give them that did not look: the input's */
    const keel_type *in[KC_PORTS] = {0}, *out[KC_PORTS] = {0};
    for (uint32_t k = 0; k < one.op.in_count; k++)
      if (one.op.in[k])
        keel_type_of(one.op.in[k]->dtype, one.op.in[k]->rank,
                     one.op.in[k]->dims, &in[k]);
    out[0] = in[0];
    kc_node *node = kc_node_typed(&one.op, in, out);
    for (uint32_t d = 0; d < kp.kernel_count; d++) {
      const kd_kernel_def *def = &kp.kernels[d];
      if (!kc_def_fits(def, node) || kc_supports(def, node) != KD_OK) continue;
      kd_kernel *kernel = NULL;
      if (!def->create) continue;
      kd_status status = KC_CALL(
          kd_status, def->create(kc_device(), def, &node->node, &kernel),
          "%s.create(%s %lld)", odd[i].op, odd[i].attr,
          (long long)odd[i].value);
      kc_check(status >= 0 && status <= KD_BUSY, "create returned %d", status);
      if (status == KD_OK && kernel) def->destroy(kernel);
    }
    kc_node_free(node);
    kc_case_free(&one);
  }
}

static void robust_zero_divisor(void) {
  static const kd_dtype types[] = {KD_I32, KD_I64, KD_U8, KD_I8};
  static const char *const ops[] = {"Div", "Mod"};
  kc_device();
  for (size_t o = 0; o < 2; o++)
    for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
      if (!kc_case("op=%s,dtype=%s", ops[o], kd_dtype_name(types[t]))) continue;
      int64_t dims[1] = {4};
      robust_need_op(ops[o]);
      kc_op op = {.name = ops[o], .in_count = 2, .out_count = 1};
      value *a = value_make(types[t], 1, dims),
            *b = value_make(types[t], 1, dims);
      a->x[0] = 7;
      a->x[1] = dtype_min(types[t]);
      a->x[2] = 5;
      b->x[1] = dtype_is_signed(types[t]) ? -1 : 1; /* and b[0] is 0 */
      b->x[2] = 2;
      b->x[3] = 3;
      op.in[0] = a;
      op.in[1] = b;
      kc_node *node = kc_node_make(&op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      kc_run *run = NULL;
      if (def && kc_run_make(node, def, &op, &kc_plain, &run) == KD_OK) {
        kd_status status = kc_run_now(run);
        kc_check(status >= 0 && status <= KD_BUSY, "%s returned %d", ops[o],
                 status);
        if (status == KD_OK) {
          value *got = kc_run_output(run, 0);
          kc_check(got->x[2] == (o ? 1 : 2), "5 by 2 gives %Lg", got->x[2]);
          value_free(got);
        }
        kc_run_free(run);
      }
      kc_node_free(node);
      value_free(a);
      value_free(b);
      if (!def)
        kc_unclaimed("it has no kernel for %s of %s", ops[o],
                     kd_dtype_name(types[t]));
      kc_check(true, " ");
    }
}

static void robust_strings(void) {
  static char lines[4][70000];
  kc_load();
  for (int i = 0; i < 4; i++) {
    if (!kc_case("string=%d", i)) continue;
    size_t size = i == 0 ? 0 : i == 1 ? 300 : 65536;
    static const char *const names[] = {"isa=", "mode=", "name=", "threads="};
    snprintf(lines[i], sizeof lines[i], "%s", names[i]);
    size_t used = strlen(lines[i]);
    memset(lines[i] + used, i == 3 ? '\xff' : 'a', size);
    lines[i][used + size] = 0;
    const char *option = lines[i];
    kc.options = &option;
    kc.option_count = 1;
    kd_status status = kc_open();
    kc_check(status == KD_OK || *kc_message(),
             "open refused an option of %zu bytes without a message", size);
    kc_close_devices();
    kc_close();
    kc.option_count = 0;
  }
}

static void robust_names(void) {
  kc_unary unary;
  kc_unary_need(20, &unary);
  char *name = kc_take(20000);
  memset(name, 'n', 19999);
  unary.node->node.name = name;
  kc_run *run = NULL;
  kc_ok(kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &run),
        "create of a node with a long name");
  kc_ok(kc_run_now(run), "run");
  kc_run_free(run);
  unary.node->node.name = "%s%n%d";
  kc_ok(kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &run),
        "create of a node named %s%n%d");
  kc_ok(kc_run_now(run), "run");
  kc_run_free(run);
  unary.node->node.name = "";
  kc_unary_free(&unary);
  free(name);
}

#define RULE(id, check, header, sentence, names, about) \
  KC_RULE(MUST, CORE, id, check, KC_CASES, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE("robust.huge-dims", robust_huge_dims, "tensor.h",
         "`rank` sizes in elements, each >= 0",
         "kd_tensor.dims kd_kernel_def.supports kd_kernel_def.create",
         "Products in 32 bits wrap to something small, and it is allocated and"
         " overrun."),
    RULE("robust.ranks", robust_rank, "tensor.h",
         "0 is a scalar; at most KD_MAX_RANK",
         "KD_MAX_RANK kd_tensor.rank kd_type.rank",
         "int dims[8] on the stack."),
    RULE("robust.attributes", robust_attributes, "kernel.h",
         "the kernel checks attributes and data itself",
         "kd_kernel_def.create kd_node_table.attr_int",
         "Models come from everywhere; an axis of 99 must be an error."),
    RULE(
        "robust.index-data", robust_indices, "kernel.h",
        "the kernel checks attributes and data itself", "kd_kernel_def.enqueue",
        "Indices are data: what is out of range is an error, a clamp or a zero;"
        " never a write elsewhere, nor what lies in another's memory."),
    RULE("robust.zero-divisor", robust_zero_divisor, "kernel.h",
         "the kernel checks attributes and data itself",
         "kd_kernel_def.enqueue",
         "idiv by zero, and INT_MIN / -1, end the process on x86."),
    RULE("robust.strings", robust_strings, "host.h",
         "The plugin's option of"
         " that name",
         "kd_host.option", "Copying an option into 256 bytes on the stack."),
    KC_RULE(MUST, CORE, "robust.node-names", robust_names, 0, "host.h",
            "the name that the model gave this node (never NULL, may be \"\")",
            "kd_node_table.name",
            "Names of nodes are text of the model: long, or full of percent"
            " signs."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(dims_int32, "robust.huge-dims", "a product of dims is kept in 32 bits and walked"),
    DEFECT(rank_eight, "robust.ranks", "there is room for 8 dims"),
    DEFECT(axis_unchecked, "robust.attributes", "an axis indexes without a check"),
    DEFECT(index_writes, "robust.index-data", "an index out of range is written to"),
    DEFECT(index_reads, "robust.index-data", "an index out of range reads other memory"),
    DEFECT(index_lands, "robust.index-data", "an index out of range is scattered to other memory"),
    DEFECT(idiv, "robust.zero-divisor", "integers are divided without a look"),
    DEFECT(option_strcpy, "robust.strings", "an option is copied into 256 bytes"),
    DEFECT(name_as_format, "robust.node-names", "a node's name is copied into 256 bytes"),
};
/* clang-format on */

KC_AREA(robust, "Robustness to data");
