/* annotated_test.c - ONNX files that say how devices share them (IR 11): the CPU and the simulated
 * device follow what they say, and give what one gives; what is wrong is refused, and what can't be
 * followed is not. */
#include <unistd.h>

#include "files.h"
#include "two_ranks.h"

enum { ROOM = 65536, ROWS = 4, WIDE = 16, HIDDEN = 32 };

/* ---- protobuf's wire format --------------------------------------------------------------- */

typedef struct wire {
  uint8_t data[ROOM];
  size_t size;
} wire;

static void put_varint(wire *to, uint64_t number) {
  do {
    assert_true(to->size < ROOM);
    to->data[to->size++] = (uint8_t)((number & 127) | (number > 127 ? 128 : 0));
    number >>= 7;
  } while (number);
}

static void put_int(wire *to, unsigned field, int64_t number) {
  put_varint(to, field << 3);
  put_varint(to, (uint64_t)number);
}

static void put_bytes(wire *to, unsigned field, const void *data, size_t size) {
  put_varint(to, field << 3 | 2);
  put_varint(to, size);
  assert_true(to->size + size <= ROOM);
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

static void put_text(wire *to, unsigned field, const char *text) {
  put_bytes(to, field, text, strlen(text));
}

/* A message, which is then empty again. */
static void put(wire *to, unsigned field, wire *message) {
  put_bytes(to, field, message->data, message->size);
  message->size = 0;
}

/* ---- models ------------------------------------------------------------------------------- */

static wire graph, node, model;

static void put_port(unsigned field, const char *name, uint32_t rank,
                     const int64_t *dims) {
  static wire port, type, tensor, shape, dim;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0)
      put_text(&dim, 2, "open");
    else
      put_int(&dim, 1, dims[i]);
    put(&shape, 1, &dim);
  }
  put_int(&tensor, 1, KD_F32);
  if (dims) put(&tensor, 2, &shape);
  put(&type, 1, &tensor);
  put_text(&port, 1, name);
  put(&port, 2, &type);
  put(&graph, field, &port);
}

/* An initializer of small integers: sums of them are exact in any order. */
static void put_weights(const char *name, kd_dtype dtype, uint32_t rank,
                        const int64_t *dims) {
  static wire tensor;
  static uint8_t data[ROOM / 2];
  int64_t count = elements_of(rank, dims);
  size_t size = keel_dtype_size(dtype);
  assert_true((size_t)count * size <= sizeof data);
  for (int64_t i = 0; i < count; i++) {
    int number = (int)((i * 7 + rank) % 5 - 2);
    const float real = (float)number;
    const int64_t index = number + 2;
    const int8_t small = (int8_t)number;
    memcpy(data + (size_t)i * size,
           dtype == KD_F32   ? (const void *)&real
           : dtype == KD_I64 ? (const void *)&index
                             : &small,
           size);
  }
  for (uint32_t i = 0; i < rank; i++)
    put_int(&tensor, 1, dims[i]);
  put_int(&tensor, 2, dtype);
  put_text(&tensor, 8, name);
  put_bytes(&tensor, 9, data, (size_t)count * size);
  put(&graph, 5, &tensor);
}

static void matrix(const char *name, int64_t rows, int64_t columns) {
  put_weights(name, KD_F32, DIMS(rows, columns));
}

/* Starts `node`: its op, the names of its inputs, NULL, and of its output, by which it is named. */
static void begin_node(const char *op, ...) {
  va_list args;
  va_start(args, op);
  for (const char *name; (name = va_arg(args, const char *));)
    put_text(&node, 1, name);
  const char *output = va_arg(args, const char *);
  va_end(args);
  put_text(&node, 2, output);
  put_text(&node, 3, output);
  put_text(&node, 4, op);
}

static void end_node(void) {
  put(&graph, 1, &node);
}

/* What `node` says of a tensor, in configuration "two". */
typedef struct said {
  const char *tensor;
  int64_t axis, shards, dim; /* dim: 0: nothing */
  const char *configuration; /* NULL: "two" */
  int64_t devices[3];        /* the list; {0}: none */
  bool group, twice;         /* groups of devices; along axis 0, too */
} said;

static void put_dim(wire *spec, int64_t axis, int64_t shards, int64_t dim) {
  static wire sharded, simple;
  if (dim) put_int(&simple, 1, dim);
  put_int(&simple, 3, shards);
  put_int(&sharded, 1, axis);
  put(&sharded, 2, &simple);
  put(spec, 4, &sharded);
}

static void say(said what) {
  static wire spec, own, entry;
  put_text(&spec, 1, what.tensor);
  for (int i = 0; i < 2 && (what.devices[0] || what.devices[1]); i++)
    put_int(&spec, 2, what.devices[i]);
  if (what.group) {
    put_int(&entry, 1, 0);
    put_int(&entry, 2, 1);
    put(&spec, 3, &entry);
  }
  if (what.twice) put_dim(&spec, 0, what.shards, 0);
  put_dim(&spec, what.axis, what.shards, what.dim);
  put_text(&own, 1, what.configuration ? what.configuration : "two");
  put(&own, 2, &spec);
  put(&node, 10, &own);
}

static void say_stage(const char *configuration, int64_t stage) {
  static wire own;
  put_text(&own, 1, configuration);
  put_int(&own, 3, stage);
  put(&node, 10, &own);
}

static void begin_model(uint32_t rank, const int64_t *dims) {
  graph.size = node.size = model.size = 0;
  put_text(&graph, 2, "model");
  put_port(11, "x", rank, dims);
}

static void put_configuration(const char *name, int64_t devices) {
  static wire own;
  put_text(&own, 1, name);
  put_int(&own, 2, devices);
  put(&model, 26, &own);
}

/* The program of the model that is written, whose output is y. */
static keel_status load(keel_program **out) {
  static wire opset;
  char path[] = "/tmp/keel-annotated-XXXXXX";
  make_file(path);
  put_port(12, "y", 0, NULL);
  put_text(&opset, 1, "");
  put_int(&opset, 2, 17);
  put_int(&model, 1, 11);
  put(&model, 8, &opset);
  put(&model, 7, &graph);
  write_bytes(path, model.data, model.size);
  keel_status status = keel_program_load(context, path, out);
  unlink(path);
  return status;
}

static keel_program *end_model(void) {
  keel_program *program = NULL;
  put_configuration("two", 2);
  expect_ok(load(&program));
  return program;
}

/* y = Relu(x w1) w2; said of w1 and w2 by the nodes that read them. */
static keel_program *layers(said first, said second) {
  begin_model(DIMS(ROWS, WIDE));
  matrix("w1", WIDE, HIDDEN);
  matrix("w2", HIDDEN, WIDE);
  begin_node("MatMul", "x", "w1", NULL, "a");
  if (first.tensor) say(first);
  end_node();
  begin_node("Relu", "a", NULL, "b");
  end_node();
  begin_node("MatMul", "b", "w2", NULL, "y");
  if (second.tensor) say(second);
  end_node();
  return end_model();
}

static const said nothing = {.tensor = NULL},
                  columns = {.tensor = "w1", .axis = 1, .shards = 2},
                  rows = {
                      .tensor = "w2", .axis = -2, .shards = 2, .dim = HIDDEN};

/* The same in stages, one for each node; -1: none is said. */
static keel_program *staged(int64_t a, int64_t b, int64_t y) {
  const int64_t dims[] = {ROWS, WIDE}, stages[] = {a, b, y};
  static const char *const inputs[][2] = {
      {"x", "w1"}, {"a", NULL}, {"b", "w2"}};
  static const char *const ops[] = {"MatMul", "Relu", "MatMul"},
                           *const outputs[] = {"a", "b", "y"};
  begin_model(2, dims);
  matrix("w1", WIDE, HIDDEN);
  matrix("w2", HIDDEN, WIDE);
  for (int i = 0; i < 3; i++) {
    if (inputs[i][1])
      begin_node(ops[i], inputs[i][0], inputs[i][1], NULL, outputs[i]);
    else
      begin_node(ops[i], inputs[i][0], NULL, outputs[i]);
    if (stages[i] >= 0) say_stage("two", stages[i]);
    end_node();
  }
  return end_model();
}

/* ---- runs --------------------------------------------------------------------------------- */

#ifdef SIM_PLUGIN

static void put_attr(const char *name, int64_t value) {
  static wire attr;
  put_text(&attr, 1, name);
  put_int(&attr, 3, value);
  put_int(&attr, 20, 2);
  put(&node, 5, &attr);
}

/* Both have the bits that one alone has; the program goes. */
static void expect_same(keel_program *program, keel_split_facts *facts) {
  static float want[INPUT_MOST], got[INPUT_MOST];
  keel_tensor *x = input_of(program), *y = NULL, *out[2] = {NULL};
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  uint64_t size = keel_tensor_size(y);
  assert_in_range(size, 1, sizeof want);
  expect_ok(keel_tensor_read(y, want, size));
  run_split(program, KEEL_SPLIT_ANNOTATED, x, out, facts);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(keel_tensor_size(out[r]), size);
    expect_ok(keel_tensor_read(out[r], got, size));
    assert_memory_equal(got, want, size);
  }
  release_all(out, 2);
  RELEASE(x, y, plan, program);
}

/* Beside a half of the weights there may be bounds of slices. */
static void expect_split(keel_program *program, uint32_t exchanges,
                         uint32_t annotations, uint32_t followed, bool half) {
  keel_split_facts facts[2];
  expect_same(program, facts);
  for (uint32_t r = 0; r < 2; r++) {
    uint64_t least = half ? facts[r].weights / 2 : facts[r].weights;
    assert_int_equal(facts[r].exchanges, exchanges);
    assert_int_equal(facts[r].annotations, annotations);
    assert_int_equal(facts[r].followed, followed);
    assert_in_range(facts[r].weights_here, least, least + 200);
  }
}

TEST_THAT(weights_are_shared_as_said) {
  expect_split(layers(columns, rows), 1, 2, 2, true);
  said listed = columns;
  listed.devices[1] = 1;
  expect_split(layers(listed, rows), 1, 2, 2, true);
  /* one of them: the other stays whole, and reads what was gathered */
  keel_split_facts facts[2];
  expect_same(layers(columns, nothing), facts);
  assert_int_equal(facts[0].exchanges, 1);
  assert_true(facts[0].weights_here * 4 == facts[0].weights * 3);
  /* rows of a whole value */
  said first = {.tensor = "w1", .axis = 0, .shards = 2};
  expect_split(layers(first, rows), 2, 2, 2, true);
  said second = {.tensor = "w2", .axis = 1, .shards = 2};
  expect_split(layers(columns, second), 2, 2, 2, true);
}

TEST_THAT(gemm_and_tables_are_shared) {
  const int64_t dims[] = {ROWS, WIDE}, bias[] = {HIDDEN};
  begin_model(2, dims);
  matrix("w1", HIDDEN, WIDE);
  put_weights("c1", KD_F32, 1, bias);
  matrix("w2", HIDDEN, WIDE);
  begin_node("Gemm", "x", "w1", "c1", NULL, "a");
  put_attr("transB", 1);
  say((said){.tensor = "w1", .axis = 0, .shards = 2});
  end_node();
  begin_node("Gemm", "a", "w2", NULL, "y");
  say((said){.tensor = "w2", .axis = 0, .shards = 2});
  end_node();
  expect_split(end_model(), 1, 2, 2, true);

  begin_model(2, dims);
  matrix("table", 5, WIDE);
  matrix("w2", WIDE, HIDDEN);
  put_weights("indices", KD_I64, DIMS(ROWS));
  begin_node("ReduceMax", "x", NULL, "m"); /* the indices are no constant */
  put_attr("keepdims", 0);
  end_node();
  begin_node("Cast", "m", NULL, "i");
  put_attr("to", KD_I64);
  end_node();
  begin_node("Min", "i", "indices", NULL, "rows");
  end_node();
  begin_node("Gather", "table", "rows", NULL, "a");
  say((said){.tensor = "table", .axis = 1, .shards = 2});
  end_node();
  begin_node("MatMul", "a", "w2", NULL, "y");
  say((said){.tensor = "w2", .axis = 0, .shards = 2});
  end_node();
  keel_split_facts facts[2];
  expect_same(end_model(), facts);
  assert_int_equal(facts[0].followed, 2);
  assert_int_equal(facts[0].exchanges, 1);
}

TEST_THAT(channels_are_shared) {
  const int64_t first[] = {8, 4, 3, 3}, bias[] = {8}, second[] = {6, 8, 1, 1};
  begin_model(DIMS(2, 4, 5, 5));
  put_weights("w1", KD_F32, 4, first);
  put_weights("c1", KD_F32, 1, bias);
  put_weights("w2", KD_F32, 4, second);
  begin_node("Conv", "x", "w1", "c1", NULL, "a");
  say((said){.tensor = "w1", .axis = 0, .shards = 2});
  end_node();
  begin_node("Conv", "a", "w2", NULL, "y");
  say((said){.tensor = "w2", .axis = 1, .shards = 2});
  end_node();
  expect_split(end_model(), 1, 2, 2, true);
}

/* y = x w1, whose weights are unpacked. */
static keel_program *packed_layer(said of_packed, said of_unpacked) {
  const int64_t dims[] = {ROWS, WIDE}, packed[] = {WIDE, HIDDEN};
  begin_model(2, dims);
  put_weights("q", KD_I8, 2, packed);
  put_weights("scale", KD_F32, 0, NULL);
  begin_node("DequantizeLinear", "q", "scale", NULL, "w1");
  say(of_packed);
  end_node();
  begin_node("MatMul", "x", "w1", NULL, "y");
  if (of_unpacked.tensor) say(of_unpacked);
  end_node();
  return end_model();
}

/* What is said of the packed weights counts for them, where nothing else is. */
TEST_THAT(weights_in_few_bits_are_shared) {
  const said packed = {.tensor = "q", .axis = 1, .shards = 2};
  const said unpacked = {.tensor = "w1", .axis = 0, .shards = 2};
  expect_split(packed_layer(packed, nothing), 1, 1, 1, true);
  expect_split(packed_layer(packed, unpacked), 1, 2, 1, true);
}

TEST_THAT(inputs_are_shared) {
  expect_split(layers((said){.tensor = "x", .axis = 0, .shards = 2}, nothing),
               1, 1, 1, false);
  expect_split(layers((said){.tensor = "x", .axis = 1, .shards = 2}, nothing),
               0, 1, 1, false);
  /* lengths are of the whole */
  expect_split(
      layers((said){.tensor = "x", .axis = 0, .shards = 2, .dim = ROWS},
             nothing),
      1, 1, 1, false);
  keel_split_facts facts[2];
  expect_same(
      layers(columns,
             (said){.tensor = "b", .axis = 1, .shards = 2, .dim = HIDDEN}),
      facts);
  assert_int_equal(facts[0].followed, 2);
}

/* Each of these is right, and more than a split knows. */
TEST_THAT(what_is_not_followed_is_whole) {
  said others[] = {columns, columns, columns, columns, columns, columns};
  others[0].devices[0] = 1;                        /* 1, 0 */
  others[1].group = true;                          /* groups of devices */
  others[2].twice = true;                          /* along two axes */
  others[3].shards = 4;                            /* more than devices */
  others[4].tensor = "a";                          /* an activation */
  others[5].devices[0] = others[5].devices[1] = 1; /* 1, 1 */
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    expect_split(layers(others[i], nothing), 0, 1, 0, false);
  /* some nodes have stages, not all */
  expect_split(staged(0, -1, 1), 0, 2, 0, false);
  /* two devices can't share three columns */
  begin_model(DIMS(ROWS, WIDE));
  matrix("w1", WIDE, 3);
  begin_node("MatMul", "x", "w1", NULL, "y");
  say(columns);
  end_node();
  expect_split(end_model(), 0, 1, 0, false);
}

/* ---- stages --------------------------------------------------------------------------------- */

TEST_THAT(stages_are_as_said) {
  keel_split_facts facts[2];
  const uint64_t one = WIDE * HIDDEN * sizeof(float);
  expect_same(staged(0, 0, 1), facts);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(facts[r].followed, 3);
    assert_int_equal(facts[r].annotations, 3);
    assert_int_equal(facts[r].parts, ROWS);
    assert_int_equal(facts[r].exchanges, ROWS + 1);
    /* the first has zeros for the output, which the other gives */
    assert_in_range(facts[r].weights_here, one, one + 600);
    assert_true(facts[r].share > 0.1 && facts[r].share < 0.9);
  }
  /* all in one; the first has nothing to do */
  expect_same(staged(1, 1, 1), facts);
  assert_int_equal(facts[0].exchanges, 1);
  assert_true(facts[0].weights_here < one);
}

/* A model's function is in the stage of its call, whatever its own nodes are named. */
TEST_THAT(functions_are_where_their_call_is) {
  static wire function, opset;
  begin_model(DIMS(ROWS, WIDE));
  matrix("w1", WIDE, HIDDEN);
  matrix("w2", HIDDEN, WIDE);
  put_text(&function, 1, "Layer");
  put_text(&function, 4, "x");
  put_text(&function, 4, "y");
  put_text(&function, 5, "b");
  begin_node("MatMul", "x", "y", NULL, "a");
  put(&function, 7, &node);
  begin_node("Relu", "a", NULL, "b");
  put(&function, 7, &node);
  put_int(&opset, 2, 17);
  put(&function, 9, &opset);
  put_text(&function, 10, "own");
  put(&model, 25, &function);
  put_text(&opset, 1, "own");
  put_int(&opset, 2, 1);
  put(&model, 8, &opset);
  begin_node("Layer", "x", "w1", NULL, "a");
  put_text(&node, 7, "own");
  say_stage("two", 0);
  end_node();
  begin_node("Layer", "a", "w2", NULL, "y");
  put_text(&node, 7, "own");
  say_stage("two", 1);
  end_node();
  keel_split_facts facts[2];
  expect_same(end_model(), facts);
  assert_int_equal(facts[0].followed, 2);
  assert_int_equal(facts[0].exchanges, ROWS + 1);
  assert_in_range(facts[0].weights_here, WIDE * HIDDEN * sizeof(float),
                  WIDE * HIDDEN * sizeof(float) + 600);
}

#endif

/* ---- what is refused ------------------------------------------------------------------------ */

static void run_whole(keel_program *program) {
  keel_port port;
  expect_ok(keel_program_input(program, 0, &port));
  keel_tensor *x = create_tensor(context, KD_F32, port.rank, port.dims, NULL);
  keel_plan *plan = create_plan(program, NULL);
  keel_tensor *y = output_of(plan, &x, 1);
  RELEASE(x, y, plan);
}

/* The model runs without a split; the program goes. */
static void refuse(keel_program *program, uint32_t size, const char *words) {
  keel_program *own = NULL;
  const keel_split_params params = {
      .struct_size = sizeof params, .kind = KEEL_SPLIT_ANNOTATED, .size = size};
  expect_fails(keel_program_split(program, &params, &own, NULL),
               KD_INVALID_ARGUMENT, words);
  assert_null(own);
  run_whole(program);
  keel_program_release(program);
}

static void refuse_said(said what, const char *words) {
  refuse(layers(columns, what), 2, words);
}

TEST_THAT(wrong_shardings_are_refused) {
  said what = rows;
  what.axis = 2;
  refuse_said(what, "node \"y\" splits \"w2\" along axis 2, and it has 2 axes");
  what.axis = -3;
  refuse_said(what, "along axis -3");
  what.axis = INT64_C(1) << 40;
  refuse_said(what, "along axis 1099511627776, and it has 2 axes");
  what.axis = INT64_MIN;
  refuse_said(what, "along axis -9223372036854775808, and it has 2 axes");
  what = rows;
  what.shards = -1;
  refuse_said(what, "node \"y\" splits \"w2\" in -1 parts along axis -2");
  what.shards = 0;
  refuse_said(what, "in 0 parts");
  what.shards = INT64_MAX; /* more than there are devices: not followed */
  keel_program *program = layers(what, nothing);
  run_whole(program);
  keel_program_release(program);
  what = rows;
  what.dim = HIDDEN + 1;
  refuse_said(what,
              "declares \"w2\" with 33 elements along axis -2, and it has 32");
  what = rows;
  what.tensor = "nowhere";
  refuse_said(what, "node \"y\" splits \"nowhere\", which is not a value");
  what.tensor = "";
  refuse_said(what, "splits \"\", which is not a value");
  what = rows;
  what.configuration = "three";
  refuse_said(what,
              "node \"y\" is of configuration \"three\", which the model");
}

TEST_THAT(wrong_stages_are_refused) {
  refuse(staged(0, 2, 1), 2,
         "node \"b\" is in stage 2, and configuration \"two\" has 2 devices");
  refuse(staged(0, INT64_C(0x80000000), 1), 2,
         "node \"b\" is in stage -2147483648");
  refuse(staged(0, 1, 0), 2,
         "node \"y\" of stage 0 reads an output of node \"b\" of stage 1");
  const int64_t open[] = {-1, WIDE}, dims[] = {ROWS, WIDE};
  begin_model(2, dims);
  begin_node("Relu", "x", NULL, "y");
  say_stage("two", 0);
  say_stage("two", 1);
  end_node();
  refuse(end_model(), 2, "node \"y\" is in two stages");
  /* what goes from one to the next has a shape that is known */
  begin_model(2, open);
  begin_node("Relu", "x", NULL, "a");
  say_stage("two", 0);
  end_node();
  begin_node("Abs", "a", NULL, "y");
  say_stage("two", 1);
  end_node();
  keel_program *program = end_model(), *own = NULL;
  const keel_split_params params = {
      .struct_size = sizeof params, .kind = KEEL_SPLIT_ANNOTATED, .size = 2};
  expect_fails(keel_program_split(program, &params, &own, NULL),
               KD_INVALID_ARGUMENT,
               "node \"a\" of stage 0, whose shape is not known");
  keel_program_release(program);
}

TEST_THAT(the_number_of_devices_chooses) {
  refuse(layers(columns, rows), 3,
         "has no configuration of 3 devices; it has \"two\" of 2");
  const int64_t dims[] = {ROWS, WIDE};
  keel_program *program = NULL;
  begin_model(2, dims);
  begin_node("Relu", "x", NULL, "y");
  end_node();
  expect_ok(load(&program));
  refuse(program, 2, "the model has no annotations");
  begin_model(2, dims);
  begin_node("Relu", "x", NULL, "y");
  end_node();
  put_configuration("two", -2);
  put_configuration("two", 3);
  expect_ok(load(&program));
  refuse(program, 2, "two configurations are named \"two\"");
  /* what is wrong in one does not keep another from use */
  begin_model(2, dims);
  put_configuration("three", 3);
  begin_node("Relu", "x", NULL, "y");
  say((said){.tensor = "x", .shards = -5, .configuration = "three"});
  say((said){.tensor = "x", .axis = 0, .shards = 2});
  end_node();
  program = end_model();
  keel_program *own = NULL;
  keel_split_facts facts;
  const keel_split_params params = {
      .struct_size = sizeof params, .kind = KEEL_SPLIT_ANNOTATED, .size = 2};
  expect_ok(keel_program_split(program, &params, &own, &facts));
  assert_int_equal(facts.followed, 1);
  keel_program_release(own);
  refuse(program, 3, "splits \"x\" in -5 parts");
}

TEST_THAT(damaged_annotations_are_refused) {
  const int64_t dims[] = {ROWS, WIDE};
  keel_program *program = NULL;
  begin_model(2, dims);
  begin_node("Relu", "x", NULL, "y");
  put_text(&node, 10, "\x0a\x7f");
  end_node();
  put_configuration("two", 2);
  expect_fails(load(&program), KD_DATA_LOSS, "not a valid");
  assert_null(program);
  begin_model(2, dims);
  begin_node("Relu", "x", NULL, "y");
  end_node();
  put_text(&model, 26, "\x0f");
  expect_fails(load(&program), KD_DATA_LOSS, "not a valid");
}

RUN_TESTS(open_cpu, close_context)
