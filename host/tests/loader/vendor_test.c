/* vendor_test.c - ops that plugins bring: in both run modes, in files, and what becomes of
 * definitions that are none. */
#include <math.h>
#include <unistd.h>

#include "files.h"
#include "testing.h"
#include "toy/toy.h"

#define ACME_OP(NAME) "com.acme::" NAME

static char file[] = "/tmp/keel-vendor-XXXXXX";

static keel_context *open_acme(void) {
  return open_with(ACME_PLUGIN, CPU_PLUGIN, 2);
}

static float silu(float x) {
  return x / (1 + expf(-x));
}

/* ---- the sample, eagerly -------------------------------------------------------- */

static keel_status call(keel_context *context, const char *name,
                        const keel_attr *attrs, uint32_t attr_count,
                        keel_tensor *const *in, uint32_t in_count,
                        keel_tensor **out) {
  return keel_call(context, name, attrs, attr_count, in, in_count, out, 1);
}

static keel_tensor *made(keel_context *context, kd_dtype dtype, uint32_t rank,
                         const int64_t *dims, const void *data) {
  return create_tensor(context, dtype, rank, dims, data);
}

TEST_THAT(ops_of_a_vendor_run_eagerly) {
  const float x[] = {1, -2, 3, 0.5f, 2, -1, 0, 4};
  const int64_t dims[] = {2, 4};
  const keel_attr rows = KEEL_INT("axis", 0), beta = KEEL_FLOAT("beta", 0);
  keel_context *context = open_acme();
  keel_tensor *in = made(context, KD_F32, 2, dims, x), *out = NULL;
  float want[8];
  expect_ok(call(context, ACME_OP("GatedSilu"), NULL, 0, &in, 1, &out));
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      want[2 * i + k] = silu(x[4 * i + k]) * x[4 * i + 2 + k];
  expect_floats(out, want, 4);
  keel_tensor_release(out);
  expect_ok(call(context, ACME_OP("GatedSilu"), &rows, 1, &in, 1, &out));
  for (int k = 0; k < 4; k++)
    want[k] = silu(x[k]) * x[4 + k];
  expect_floats(out, want, 4);
  keel_tensor_release(out);
  /* no shape function; beta's default is 1 */
  for (int round = 0; round < 2; round++) {
    expect_ok(
        call(context, ACME_OP("Swish"), &beta, (uint32_t)round, &in, 1, &out));
    for (int k = 0; k < 8; k++)
      want[k] = round ? x[k] / 2 : silu(x[k]);
    expect_floats(out, want, 8);
    keel_tensor_release(out);
  }
  keel_tensor_release(in);
  /* a shape that depends on a value, ready and still to come */
  const int64_t three = 3, two = 2, sizes[] = {1, 2};
  const float runs[] = {1, -2, 3, -2, 3, 0.5f};
  const int64_t four = 4;
  keel_tensor *pair[2] = {made(context, KD_F32, 1, &four, x),
                          made(context, KD_I64, 0, NULL, &three)};
  expect_ok(call(context, ACME_OP("Windows"), NULL, 0, pair, 2, &out));
  expect_floats(out, runs, 6);
  assert_int_equal(keel_tensor_dims(out)[0], 2);
  assert_int_equal(keel_tensor_dims(out)[1], 3);
  RELEASE(out, pair[1]);
  keel_tensor *a = made(context, KD_I64, 0, NULL, &two),
              *b = made(context, KD_I64, 0, NULL, &sizes[0]), *sum[2] = {a, b};
  expect_ok(keel_call(context, "Add", NULL, 0, sum, 2, &pair[1], 1));
  expect_ok(call(context, ACME_OP("Windows"), NULL, 0, pair, 2, &out));
  expect_floats(out, runs, 6);
  RELEASE(out, a, b);
  release_all(pair, 2);
  keel_close(context);
}

TEST_THAT(what_does_not_fit_is_refused_with_the_vendors_words) {
  const float x[6] = {0};
  const int32_t whole[2] = {0};
  const int64_t dims[] = {2, 3}, two = 2;
  const int64_t nine = 9;
  const keel_attr far = KEEL_INT("axis", 5), wrong = KEEL_INT("axes", 1),
                  text = KEEL_STRING("axis", "last");
  keel_context *context = open_acme();
  keel_tensor *in = made(context, KD_F32, 2, dims, x), *out = NULL;
  keel_tensor *ints = made(context, KD_I32, 1, &two, whole);
  keel_tensor *line = made(context, KD_F32, 1, &two, x),
              *size = made(context, KD_I64, 0, NULL, &nine);
  keel_tensor *pair[2] = {line, size};
  const struct {
    const char *op;
    const keel_attr *attr;
    keel_tensor *const *in;
    uint32_t in_count;
    keel_status status;
    const char *says;
  } cases[] = {
      {ACME_OP("GatedSilu"), NULL, &in, 1, KD_INVALID_ARGUMENT,
       "GatedSilu(X f32[2,3]): dimension 1 of X is 3, which has no halves"},
      {ACME_OP("GatedSilu"), &far, &in, 1, KD_INVALID_ARGUMENT,
       "X has rank 2, and no such axis"},
      {ACME_OP("GatedSilu"), &wrong, &in, 1, KD_INVALID_ARGUMENT,
       "GatedSilu has no attribute \"axes\"; it has axis"},
      {ACME_OP("GatedSilu"), &text, &in, 1, KD_INVALID_ARGUMENT,
       "attribute \"axis\" is an int, not a string"},
      {ACME_OP("Swish"), NULL, &ints, 1, KD_INVALID_ARGUMENT,
       "X can't be i32; it is one of f32, f16, f64, bf16"},
      {ACME_OP("Swish"), NULL, pair, 2, KD_INVALID_ARGUMENT,
       "takes 1 inputs, not 2"},
      {ACME_OP("Windows"), NULL, pair, 2, KD_INVALID_ARGUMENT,
       "size is 9, and X has 2 elements"},
      {ACME_OP("GatedSilo"), NULL, &in, 1, KD_NOT_FOUND,
       "there is no op com.acme::GatedSilo; did you mean GatedSilu?"},
      {"com.acne::Swish", NULL, &in, 1, KD_NOT_FOUND,
       "com.acme::Swish is another op of that name"},
      {"com.acme::Nothing", NULL, &in, 1, KD_NOT_FOUND, "com.acme"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_status status =
        call(context, cases[i].op, cases[i].attr, cases[i].attr != NULL,
             cases[i].in, cases[i].in_count, &out);
    if (status != cases[i].status)
      fail_msg("case %zu: %s: %s", i, keel_status_name(status), keel_message());
    assert_null(out);
    expect_message(cases[i].says);
  }
  RELEASE(in, ints, line, size, context);
}

/* ---- the sample, in programs ------------------------------------------------------ */

/* Windows(Swish(Relu(x)), size) twice, with another vendor's op that is the same. */
static keel_program *program_of(keel_context *context, bool constant) {
  const int64_t length = -1, two = 2;
  keel_builder *builder = create_builder(context, "vendor");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &length);
  keel_value size = KEEL_ABSENT;
  if (constant) {
    size = constant_of(builder, made(context, KD_I64, 0, NULL, &two));
  } else {
    size = keel_builder_input(builder, "size", KD_I64, 0, NULL);
  }
  keel_value a = op(builder, "Relu", x, KEEL_ABSENT);
  keel_value b = op(builder, ACME_OP("Swish"), a, KEEL_ABSENT);
  keel_value c = op(builder, ACME_OP("Swish"), a, KEEL_ABSENT);
  keel_value d = op(builder, ACME_OP("Windows"), b, size);
  keel_value e = op(builder, ACME_OP("Windows"), c, size);
  return program_giving(builder, op(builder, "Add", d, e));
}

static void check_program(keel_context *context, keel_program *program) {
  uint32_t inputs = keel_program_input_count(program);
  const float x[] = {1, -2, 3, 0.5f};
  const int64_t four = 4, two = 2;
  keel_tensor *in[2] = {made(context, KD_F32, 1, &four, x),
                        made(context, KD_I64, 0, NULL, &two)},
              *out = NULL;
  float want[6];
  for (int i = 0; i < 6; i++) {
    float at = x[i / 2 + i % 2];
    want[i] = 2 * silu(at < 0 ? 0 : at);
  }
  keel_plan *plan = create_plan(program, NULL);
  for (int round = 0; round < 3; round++) {
    expect_ok(keel_plan_run(plan, in, inputs, &out, 1));
    expect_floats(out, want, 6);
    keel_tensor_release(out);
  }
  /* equal nodes are one */
  assert_int_equal(runs_of(plan, "Swish"), 1);
  assert_int_equal(runs_of(plan, "Windows"), 1);
  keel_plan_release(plan);
  release_all(in, 2);
}

TEST_THAT(ops_of_a_vendor_run_in_programs) {
  keel_context *context = open_acme();
  for (int constant = 0; constant < 2; constant++) {
    keel_program *program = program_of(context, constant);
    check_program(context, program);
    keel_program_release(program);
  }
  keel_close(context);
}

TEST_THAT(they_are_kept_in_files) {
  static const uint32_t forms[] = {0, KEEL_SAVE_TEXT};
  keel_context *context = open_acme(), *without = NULL;
  keel_program *program = program_of(context, false), *read = NULL;
  for (int i = 0; i < 2; i++) {
    expect_ok(keel_program_save(program, file, forms[i]));
    read = load_program(context, file);
    check_program(context, read);
    keel_program_release(read);
    without = open_with(CPU_PLUGIN, NULL, KEEL_NO_WORKERS);
    expect_fails(keel_program_load(without, file, &read), KD_UNIMPLEMENTED,
                 "there is no op com.acme::Swish");
    expect_message("ai.onnx::Swish is another op of that name");
    keel_close(without);
  }
  RELEASE(program, context);
}

/* ---- in ONNX ---------------------------------------------------------------------- */

typedef struct bytes {
  uint8_t data[1000];
  size_t size;
} bytes;

/* A field of protobuf's wire format: a number, or what has a length. */
static void number(bytes *to, unsigned field, unsigned value) {
  assert_true(field < 16 && value < 128);
  to->data[to->size++] = (uint8_t)(field << 3);
  to->data[to->size++] = (uint8_t)value;
}

static void block(bytes *to, unsigned field, const void *data, size_t size) {
  assert_true(field < 16 && size < 256 && to->size + size + 3 < 1000);
  to->data[to->size++] = (uint8_t)(field << 3 | 2);
  to->data[to->size++] = (uint8_t)(size > 127 ? (size & 127) | 128 : size);
  if (size > 127) to->data[to->size++] = (uint8_t)(size >> 7);
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

static void text(bytes *to, unsigned field, const char *value) {
  block(to, field, value, strlen(value));
}

/* ValueInfoProto of f32[2,4], or of open dimensions. */
static void port(bytes *graph, unsigned field, const char *name, bool shaped) {
  bytes info = {.size = 0}, type = {.size = 0}, tensor = {.size = 0},
        shape = {.size = 0}, dim = {.size = 0};
  for (unsigned i = 0; i < 2; i++) {
    dim.size = 0;
    number(&dim, 1, 2 + 2 * i);
    block(&shape, 1, dim.data, dim.size);
  }
  number(&tensor, 1, 1);
  if (shaped) block(&tensor, 2, shape.data, shape.size);
  block(&type, 1, tensor.data, tensor.size);
  text(&info, 1, name);
  block(&info, 2, type.data, type.size);
  block(graph, field, info.data, info.size);
}

/* A ModelProto: y = GatedSilu(x), of com.acme's opset `version`. */
static void write_model(unsigned version, unsigned axis) {
  bytes model = {.size = 0}, graph = {.size = 0}, node = {.size = 0},
        attr = {.size = 0}, opset = {.size = 0};
  text(&attr, 1, "axis");
  number(&attr, 3, axis);
  number(&attr, 15, 0);
  attr.data[attr.size - 2] = ((20 << 3) & 127) | 128; /* field 20, type: INT */
  attr.data[attr.size - 1] = 1;
  attr.data[attr.size++] = 2;
  text(&node, 1, "x");
  text(&node, 2, "y");
  text(&node, 4, "GatedSilu");
  block(&node, 5, attr.data, attr.size);
  text(&node, 7, "com.acme");
  block(&graph, 1, node.data, node.size);
  text(&graph, 2, "g");
  port(&graph, 11, "x", true);
  port(&graph, 12, "y", false);
  number(&model, 1, 8);
  block(&model, 7, graph.data, graph.size);
  text(&opset, 1, "com.acme");
  number(&opset, 2, version);
  block(&model, 8, opset.data, opset.size);
  opset.size = 0;
  number(&opset, 2, 17);
  block(&model, 8, opset.data, opset.size);
  write_bytes(file, model.data, model.size);
}

TEST_THAT(models_in_onnx_have_them) {
  const float x[] = {1, -2, 3, 0.5f, 2, -1, 0, 4};
  const int64_t dims[] = {2, 4};
#ifndef KEEL_WITH_ONNX
  skip();
#endif
  keel_context *context = open_acme();
  float want[4];
  write_model(1, 0);
  keel_program *program = load_program(context, file);
  keel_tensor *in = made(context, KD_F32, 2, dims, x), *out = NULL;
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_plan_run(plan, &in, 1, &out, 1));
  for (int k = 0; k < 4; k++)
    want[k] = silu(x[k]) * x[4 + k];
  expect_floats(out, want, 4);
  RELEASE(in, out, plan, program);
  write_model(2, 0);
  expect_fails(keel_program_load(context, file, &program), KD_UNIMPLEMENTED,
               "GatedSilu of opset 2 of com.acme");
  /* the shape function is asked as the model is read */
  write_model(1, 5);
  expect_fails(keel_program_load(context, file, &program), KD_INVALID_ARGUMENT,
               "X has rank 2, and no such axis");
  expect_message(file);
  keel_close(context);
}

/* ---- definitions ------------------------------------------------------------------- */

static kd_op_param params[3];
static kd_op_attr attrs[2];
static kd_op_def defs[2];
static kd_kernel_def kernels[1];
static int inferred;
static int lie; /* what the shape function says that is not so */

static kd_status negate(kd_kernel *self, kd_stream *stream,
                        const kd_launch *launch) {
  const float *x = launch->inputs[0].data;
  float *y = launch->outputs[0].data;
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = -x[i];
  return KD_OK;
}

static kd_status infer(const kd_op_call *call) {
  kd_op_type *out = &call->outputs[0];
  kd_type type;
  inferred++;
  if (call->output_count != 1 || call->struct_size != sizeof *call ||
      out->rank != KD_RANK_UNKNOWN || out->dtype != KD_F32 ||
      call->host->node->input_type(call->node, 0, &type) != KD_OK ||
      call->host->node->output_type(call->node, 0, &type) != KD_NOT_FOUND ||
      call->host->node->output_count(call->node) != 1 ||
      call->host->node->constant(call->node, 0, &(kd_tensor){0}) !=
          KD_NOT_FOUND)
    return call->host->fail_text(KD_INVALID_ARGUMENT,
                                 "the call is not as said");
  call->host->node->input_type(call->node, 0, &type);
  if (lie == 1) return KD_OK; /* says nothing */
  out->rank = type.rank;
  memcpy(out->dims, type.dims, type.rank * sizeof *type.dims);
  if (lie == 2) out->dtype = KD_I64;
  if (lie == 3) out->rank = KD_MAX_RANK + 1;
  if (lie == 4) out->dims[0] = -1;
  if (lie == 5) out->dims[0] = INT64_MAX;
  if (lie == 6) return KD_INVALID_ARGUMENT; /* without a word */
  if (lie == 7) return KD_BUSY;
  if (lie == 8) out->dtype = 99;
  return KD_OK;
}

static kd_status open_second(const kd_host *services,
                             kd_instance **out_instance) {
  *out_instance = (kd_instance *)(uintptr_t)services;
  return KD_OK;
}

static void close_second(kd_instance *instance) {
  (void)instance;
}

static kd_plugin plugin;
static kd_plugin second;

KD_ENTRY_AS(entry_of_first, plugin)
KD_ENTRY_AS(entry_of_second, second)

/* A plugin that brings x.brings::Negate(X:T, Z:T?) -> Y:T, and is right. */
static void begin(void) {
  inferred = lie = 0;
  for (int i = 0; i < 3; i++)
    params[i] = (kd_op_param){.struct_size = sizeof *params,
                              .name = i == 0   ? "X"
                                      : i == 1 ? "Z"
                                               : "Y",
                              .types = KD_TYPES(KD_F32),
                              .flags = i == 1 ? KD_PARAM_OPTIONAL : 0,
                              .variable = 1};
  attrs[0] = (kd_op_attr){.struct_size = sizeof *attrs,
                          .name = "mode",
                          .kind = KD_ATTR_STRING,
                          .flags = KD_OP_ATTR_DEFAULT,
                          .s = "fast"};
  attrs[1] = (kd_op_attr){
      .struct_size = sizeof *attrs, .name = "axes", .kind = KD_ATTR_INTS};
  for (int i = 0; i < 2; i++)
    defs[i] = (kd_op_def){.struct_size = sizeof *defs,
                          .domain = "x.brings",
                          .name = i ? "Other" : "Negate",
                          .version = 1,
                          .inputs = params,
                          .input_count = 2,
                          .outputs = params + 2,
                          .output_count = 1,
                          .attrs = attrs,
                          .attr_count = 2,
                          .infer = infer};
  kernels[0] = (kd_kernel_def){.struct_size = sizeof *kernels,
                               .flags = KD_KERNEL_ANY_SHAPE,
                               .domain = "x.brings",
                               .op = "Negate",
                               .enqueue = negate};
  plugin = *toy_plugin(NULL, "plain");
  plugin.name = "brings";
  plugin.kernels = kernels;
  plugin.kernel_count = 1;
  plugin.ops = defs;
  plugin.op_count = 2;
  plugin.flags = KD_PLUGIN_UNLOADABLE;
}

static keel_context *open_entries(uint32_t count) {
  static const kd_entry entries[] = {entry_of_first, entry_of_second};
  const keel_context_params made = {
      .struct_size = sizeof made,
      .flags = KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED,
      .entries = entries,
      .entry_count = count,
      .workers = KEEL_NO_WORKERS};
  keel_context *context = open_params(&made);
  return context;
}

static keel_status negated(keel_context *context, const char *name,
                           float want) {
  const float x[] = {5};
  keel_tensor *in = floats(context, 1, x), *out = NULL;
  keel_status status = keel_call(context, name, NULL, 0, &in, 1, &out, 1);
  if (status == KD_OK) expect_floats(out, &want, 1);
  RELEASE(in, out);
  return status;
}

/* How a definition may be broken, and what the host says of it then. */
#define BREAKS(X)                                                            \
  X(def->name = NULL, "its name or domain is NULL")                          \
  X(def->name = "Ne gate", "its name or domain is NULL, or not of")          \
  X(def->domain = NULL, "its name or domain is NULL")                        \
  X(def->domain = "ai.onnx", "domain \"ai.onnx\" is not a vendor's")         \
  X(def->domain = "keel", "domain \"keel\" is not a vendor's")               \
  X(def->version = 0, "its version is 0")                                    \
  X(def->output_count = 0, "0 outputs")                                      \
  X(def->output_count = 5, "5 outputs")                                      \
  X(def->input_count = 33, "33 inputs")                                      \
  X(def->attr_count = 65, "65 attributes")                                   \
  X(def->inputs = NULL, "2 inputs of struct_size 0")                         \
  X(def->outputs = NULL, "1 outputs of struct_size 0")                       \
  X(def->attrs = NULL, "2 attributes of struct_size 0")                      \
  X(def->value_inputs = 0x4,                                                 \
    "value_inputs 0x4 names an input that it does not have")                 \
  X(def->infer = NULL;                                                       \
    def->input_count = 0, "no shape function, and no input")                 \
  X(x->struct_size = 4, "2 inputs of struct_size 4")                         \
  X(x->name = NULL, "an input's name is NULL")                               \
  X(x->name = "1X", "an input's name is \"1X\"")                             \
  X(x->variable = 9, "input X has variable 9")                               \
  X(x->flags = KD_PARAM_VARIADIC, "input X is variadic, and not the last")   \
  X(z->types = KD_TYPES(KD_F64), "X and Z have variable 1, and other types") \
  X(z->name = "X", "two arguments are named X")                              \
  X(y->struct_size = sizeof *y + 4, "1 outputs of struct_size")              \
  X(a->name = NULL, "an attribute's name is NULL")                           \
  X(a->kind = KD_ATTR_ABSENT, "attribute mode has kind 0")                   \
  X(a->kind = KD_ATTR_GRAPH, "attribute mode has kind 5")                    \
  X(a->kind = 99, "attribute mode has kind 99")                              \
  X(a->s = NULL, "attribute mode can't have a default")                      \
  X(a->flags |= KD_OP_ATTR_REQUIRED, "attribute mode can't have a default")  \
  X(b->flags |= KD_OP_ATTR_DEFAULT, "attribute axes can't have a default")   \
  X(b->name = "mode", "two attributes are named mode")                       \
  X(a->struct_size = 5000, "2 attributes of struct_size 5000")               \
  X(defs[1].name = "Negate", "it is defined twice")                          \
  X(def->struct_size = 16, "2 op definitions of struct_size 16")             \
  X(plugin.ops = NULL, "2 op definitions of struct_size 0")                  \
  X(plugin.op_count = 100000, "100000 op definitions")

static void break_it(size_t how) {
  kd_op_param *x = &params[0], *z = &params[1], *y = &params[2];
  kd_op_attr *a = &attrs[0], *b = &attrs[1];
  kd_op_def *def = &defs[0];
  size_t at = 0;
#define BREAK(what, says) \
  if (at++ == how) {      \
    what;                 \
  }
  BREAKS(BREAK)
#undef BREAK
}

TEST_THAT(what_is_no_definition_refuses_the_plugin) {
#define SAYS(what, says) says,
  static const char *const says[] = {BREAKS(SAYS)};
#undef SAYS
  for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
    keel_plugin_info facts;
    begin();
    break_it(i);
    keel_context *context = open_entries(1);
    expect_ok(keel_plugin_at(context, 0, &facts));
    if (facts.status != KD_INCOMPATIBLE || !strstr(facts.reason, says[i]))
      fail_msg("case %zu: %s: %s", i, keel_status_name(facts.status),
               facts.reason);
    assert_int_equal(negated(context, "x.brings::Negate", -5), KD_NOT_FOUND);
    keel_close(context);
  }
  begin();
  keel_context *context = open_entries(1);
  expect_ok(negated(context, "x.brings::Negate", -5));
  assert_int_equal(inferred > 0, 1);
  keel_close(context);
}

TEST_THAT(bits_of_later_definitions_refuse_the_op_alone) {
  uint32_t *const words[] = {&defs[0].flags, &params[0].flags, &params[2].flags,
                             &attrs[0].flags};
  kd_op_param other_output;
  for (int hint = 0; hint < 2; hint++)
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
      begin();
      if (i) defs[1].input_count = defs[1].attr_count = 0; /* has none of it */
      other_output = params[2];
      defs[1].outputs = &other_output;
      *words[i] |= hint ? 1u << 30 : 1u << 20;
      keel_plugin_info facts;
      keel_context *context = open_entries(1);
      expect_ok(keel_plugin_at(context, 0, &facts));
      if (facts.status != KD_OK) fail_msg("%s", facts.reason);
      assert_int_equal(negated(context, "x.brings::Negate", -5),
                       hint ? KD_OK : KD_NOT_FOUND);
      keel_kernel_facts kernel;
      assert_int_equal(
          keel_device_kernel(keel_device_at(context, 0), 0, &kernel),
          hint ? KD_OK : KD_OUT_OF_RANGE);
      keel_close(context);
    }
}

/* The same op of two plugins. */
TEST_THAT(equal_definitions_are_one_op) {
  static kd_op_def others[1];
  static kd_op_param other_params[3];
  static kd_op_attr other_attrs[2];
  for (int other = 0; other < 9; other++) {
    begin();
    memcpy(other_params, params, sizeof params);
    memcpy(other_attrs, attrs, sizeof attrs);
    others[0] = defs[0];
    others[0].inputs = other_params;
    others[0].outputs = other_params + 2;
    others[0].attrs = other_attrs;
    for (int i = 0; i < 3; i++)
      other_params[i].variable = 3; /* ties the same arguments */
    if (other == 1) others[0].version = 2;
    if (other == 2) others[0].attr_count = 1;
    if (other == 3) other_attrs[0].s = "slow";
    if (other == 4) other_params[1].flags = 0;
    if (other == 5) other_params[2].name = "Q";
    if (other == 6) other_params[1].variable = 4;
    if (other == 7) others[0].value_inputs = 1;
    for (int i = 0; i < 3 && other == 8; i++)
      other_params[i].types = KD_TYPES_FLOAT;
    second = plugin;
    second.name = "second";
    second.open = open_second;
    second.close = close_second;
    second.ops = others;
    second.op_count = 1;
    keel_context *context = open_entries(2);
    keel_kernel_facts kernel;
    /* a kernel for what the other one means is not used */
    assert_int_equal(keel_device_count(context), 2);
    assert_int_equal(keel_device_kernel(keel_device_at(context, 1), 0, &kernel),
                     other ? KD_OUT_OF_RANGE : KD_OK);
    expect_ok(negated(context, "x.brings::Negate", -5));
    keel_close(context);
  }
}

TEST_THAT(shape_functions_are_not_believed) {
  static const char *const says[] = {
      "plugin brings's shape function does not set the type of Y",
      "plugin brings's shape function gives Y the type i64, which its "
      "definition does not allow",
      "plugin brings's shape function gives Y rank 17",
      "plugin brings's shape function gives Y -1 elements in dimension 0",
      "Y: ",
      "no reason is given",
      "no reason is given",
      "plugin brings's shape function gives Y the type ?, which its definition "
      "does not allow"};
  for (int i = 0; i < 8; i++) {
    begin();
    lie = i + 1;
    keel_context *context = open_entries(1);
    keel_status status = negated(context, "x.brings::Negate", -5);
    if (status == KD_OK || status == KD_BUSY ||
        !strstr(keel_message(), says[i]))
      fail_msg("lie %d: %s: %s", lie, keel_status_name(status), keel_message());
    lie = 0; /* and the next call is good */
    expect_ok(negated(context, "x.brings::Negate", -5));
    keel_close(context);
  }
}

SETUP(begin_file) {
  make_file(file);
  return 0;
}

SETUP(drop_file) {
  return unlink(file);
}

RUN_TESTS(begin_file, drop_file)
