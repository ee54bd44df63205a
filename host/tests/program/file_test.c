/* file_test.c - programs in files: the text and the binary form, what they refuse, and
 * what the passes' dumps show. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/float.h"
#include "files.h"
#include "program/image.h"
#define WORKERS KEEL_NO_WORKERS
#include "with_cpu.h"

static char folder[] = "/tmp/keel-file-XXXXXX";
static char path[64], second[64];

SETUP(begin) {
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/a", folder);
  snprintf(second, sizeof second, "%s/b", folder);
  return open_cpu(state);
}

SETUP(end) {
  keel_close(context);
  unlink(path);
  unlink(second);
  return rmdir(folder);
}

/* ---- what is read is what was written -------------------------------------------------- */

/* x of 2 x 4 and "which way", through the program of data/v1.*. */
static void run_v1(keel_program *program, bool yes) {
  const float x[] = {1, 2, 3, 4, -1, -2, -3, 0.5f};
  const uint8_t way = yes;
  keel_tensor *in[2], *out[7];
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_tensor_create(context, KD_F32, DIMS(2, 4), x, &in[0]));
  expect_ok(keel_tensor_create(context, KD_BOOL, 0, NULL, &way, &in[1]));
  expect_ok(keel_plan_run(plan, in, 2, out, 7));
  /* Min with {1.5, -2.5, inf, 1e-3}, Clip to at most 6, Gemm with half of w[i] =
   * (7i) % 5, then x^T y, or Relu of y */
  const float most[] = {1.5f, -2.5f, INFINITY, 1e-3f};
  float c[8], y[12] = {0}, want[24] = {0}, got[24];
  for (int i = 0; i < 8; i++)
    c[i] = fminf(fminf(x[i], most[i % 4]), 6);
  for (int i = 0; i < 12; i++)
    for (int k = 0; k < 4; k++)
      y[i] += 0.5f * c[i / 6 * 4 + k] * (float)((k * 6 + i % 6) * 7 % 5);
  for (int i = 0; i < 24 && yes; i++)
    want[i] = c[i / 6] * y[i % 6] + c[4 + i / 6] * y[6 + i % 6];
  for (int i = 0; i < 12 && !yes; i++)
    want[i] = fmaxf(y[i], 0);
  size_t count = yes ? 24 : 12;
  expect_ok(keel_tensor_read(out[0], got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    assert_true(fabsf(got[i] - want[i]) <= 1e-4f);
  const int64_t longs[] = {0, -1, INT64_MAX, INT64_MIN};
  assert_memory_equal(keel_tensor_data(out[2]), longs, sizeof longs);
  assert_memory_equal(keel_tensor_data(out[3]), "\1\0\1", 3);
  assert_int_equal(keel_tensor_elements(out[4]), 0);
  const uint16_t half[] = {0x4100, 0x4100, 0x4100, 0x4100, 0x4100, 0x4100};
  assert_memory_equal(keel_tensor_data(out[5]), half, sizeof half);
  const float complex[] = {1, 2, 3, 4};
  assert_memory_equal(keel_tensor_data(out[6]), complex, sizeof complex);
  release_all(out, 7);
  release_all(in, 2);
  keel_plan_release(plan);
}

static void check_v1(const char *from) {
  keel_port port;
  keel_program *program = load_program(context, from);
  assert_int_equal(keel_program_op_count(program), 8);
  expect_ok(keel_program_input(program, 1, &port));
  assert_string_equal(port.name, "which way");
  assert_int_equal(port.dtype, KD_BOOL);
  assert_int_equal(port.rank, 0);
  expect_ok(keel_program_input(program, 0, &port));
  assert_int_equal(port.rank, 2);
  assert_int_equal(port.dims[0], -1);
  assert_int_equal(port.dims[1], 4);
  expect_ok(keel_program_output(program, 0, &port));
  assert_int_equal(port.rank, KEEL_RANK_UNKNOWN);
  expect_ok(keel_program_output(program, 1, &port));
  assert_int_equal(port.dims[1], 2);
  run_v1(program, true);
  run_v1(program, false);
  keel_program_release(program);
}

TEST_THAT(version_1_is_read_for_ever) {
  check_v1(TEST_DATA "/v1.mlir");
  check_v1(TEST_DATA "/v1.keel");
}

/* ---- names of dimensions --------------------------------------------------------- */

static void check_v2(const char *from) {
  static const char *const names[2][3] = {{"batch", NULL, "the \"length\""},
                                          {"batch", "the \"length\""}};
  keel_port port;
  keel_program *program = load_program(context, from);
  for (uint32_t i = 0; i < 2; i++) {
    expect_ok(keel_program_input(program, i, &port));
    assert_non_null(port.symbols);
    for (uint32_t k = 0; k < port.rank; k++) {
      assert_int_equal(port.dims[k], names[i][k] ? -1 : 3);
      if (names[i][k])
        assert_string_equal(port.symbols[k], names[i][k]);
      else
        assert_null(port.symbols[k]);
    }
  }
  expect_ok(keel_program_input(program, 2, &port));
  assert_null(port.symbols);
  expect_ok(keel_program_output(program, 0, &port));
  assert_string_equal(port.symbols[0], "batch");
  assert_null(port.symbols[2]);
  keel_program_release(program);
}

TEST_THAT(version_2_is_read_for_ever) {
  check_v2(TEST_DATA "/v2.mlir");
  check_v2(TEST_DATA "/v2.keel");
  keel_program *program = load_program(context, TEST_DATA "/v2.keel");
  expect_ok(keel_program_save(program, path, KEEL_SAVE_TEXT));
  expect_ok(keel_program_save(program, second, 0));
  keel_program_release(program);
  check_v2(path);
  check_v2(second);
}

TEST_THAT(sizes_of_one_name_that_differ_are_told) {
  const int64_t x[] = {2, 3, 5}, mask[] = {2, 4};
  keel_tensor *in[3], *y = NULL;
  keel_program *program = load_program(context, TEST_DATA "/v2.mlir");
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_tensor_create(context, KD_F32, 3, x, NULL, &in[0]));
  expect_ok(keel_tensor_create(context, KD_F32, 2, mask, NULL, &in[1]));
  expect_ok(keel_tensor_create(context, KD_F32, 0, NULL, NULL, &in[2]));
  for (int i = 0; i < 4; i++) { /* a version of the plan fails, too */
    assert_int_equal(keel_plan_run(plan, in, 3, &y, 1), KD_INVALID_ARGUMENT);
    expect_message("Add");
    expect_message(
        "one size \"the \"length\"\", which is 5 in input \"x\" and"
        " 4 in input \"mask\"");
  }
  keel_tensor_release(in[1]); /* of another shape than declared */
  expect_ok(keel_tensor_create(context, KD_F32, 1, &mask[1], NULL, &in[1]));
  expect_fails(keel_plan_run(plan, in, 3, &y, 1), KD_INVALID_ARGUMENT,
               "the program declares f32[batch,the \"length\"]");
  release_all(in, 3);
  RELEASE(plan, program);
}

TEST_THAT(names_of_dimensions_are_checked) {
  static const struct {
    const char *symbols, *says;
  } rows[] = {{"[[\"a\"]]", "list of 3 lists"},
              {"[[], [\"a\"], []]", "a list of 2 names"},
              {"[[], [\"a\", 3], []]", "is a string"},
              {"[[], 3, []]", "a list of 2 names"},
              {"5", "list of 3 lists"}};
  size_t size = 0;
  char *text = read_bytes(TEST_DATA "/v2.mlir", &size);
  char *whole = calloc(1, size + 400);
  assert_non_null(whole);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    keel_program *program = NULL;
    const char *from = memmem(text, size, "input_symbols", 13);
    const char *to = memmem(text, size, ", outputs", 9);
    assert_true(from && to && from < to);
    int made = snprintf(whole, size + 400, "%.*sinput_symbols = %s%.*s",
                        (int)(from - text), text, rows[i].symbols,
                        (int)(text + size - to), to);
    write_bytes(path, whole, (size_t)made);
    expect_fails(keel_program_load(context, path, &program), KD_DATA_LOSS,
                 rows[i].says);
  }
  free(whole);
  free(text);
}

TEST_THAT(forms_go_into_each_other) {
  char *texts[2], *images[2];
  size_t sizes[2], image_sizes[2];
  keel_program *program = load_program(context, TEST_DATA "/v1.mlir");
  for (int i = 0; i < 2; i++) {
    expect_ok(keel_program_save(program, path, KEEL_SAVE_TEXT));
    texts[i] = read_bytes(path, &sizes[i]);
    check_v1(path);
    keel_program_release(program);
    program = load_program(context, path);
    expect_ok(keel_program_save(program, second, 0));
    images[i] = read_bytes(second, &image_sizes[i]);
    check_v1(second);
    keel_program_release(program);
    program = load_program(context, second);
  }
  assert_string_equal(texts[0], texts[1]);
  assert_int_equal(image_sizes[0], image_sizes[1]);
  assert_memory_equal(images[0], images[1], image_sizes[0]);
  for (int i = 0; i < 2; i++) {
    free(texts[i]);
    free(images[i]);
  }
  keel_program_release(program);
}

/* As those that passes leave behind. */
TEST_THAT(constants_that_nobody_reads_stay_out) {
  enum { MANY = 4096 };
  static const float data[MANY];
  struct stat facts;
  keel_builder *builder = create_builder(context, "less");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(2));
  constant_of(builder, floats(context, MANY, data));
  keel_program *program =
      program_giving(builder, op(builder, "Relu", x, KEEL_ABSENT));
  expect_ok(keel_program_save(program, path, 0));
  keel_program_release(program);
  assert_int_equal(stat(path, &facts), 0);
  assert_true(facts.st_size < MANY);
  program = load_program(context, path);
  keel_program_release(program);
}

/* The file is mapped for as long as anything of it is used. */
TEST_THAT(a_file_stays_mapped_while_it_is_used) {
  float numbers[1000], got[1000];
  for (int i = 0; i < 1000; i++)
    numbers[i] = (float)i;
  keel_builder *builder = create_builder(context, "w");
  keel_builder_output(builder, "w",
                      constant_of(builder, floats(context, 1000, numbers)));
  keel_program *program = finish_program(builder);
  expect_ok(keel_program_save(program, path, 0));
  keel_program_release(program);
  program = load_program(context, path);
  unlink(path);
  keel_plan *plan = create_plan(program, NULL);
  keel_program_release(program);
  keel_tensor *out = output_of(plan, NULL, 0);
  keel_plan_release(plan);
  assert_int_equal((uintptr_t)keel_tensor_data(out) % IMAGE_ALIGN, 0);
  expect_ok(keel_tensor_read(out, got, sizeof got));
  assert_memory_equal(got, numbers, sizeof numbers);
  keel_tensor_release(out);
}

/* ---- numbers ----------------------------------------------------------------------------- */

TEST_THAT(numbers_keep_their_bits) {
  for (uint32_t bits = 0; bits < 65536; bits++)
    for (int kind = 0; kind < 2; kind++) {
      kd_dtype dtype = kind ? KD_BF16 : KD_F16;
      uint16_t from = (uint16_t)bits, to = 0;
      uint64_t same = 0;
      double number = 0;
      assert_true(keel_float_decode(dtype, &from, &number, &same));
      assert_int_equal(same, bits);
      assert_true(keel_float_encode(dtype, number, &to));
      if (!isnan(number)) assert_int_equal(to, from);
      if (isnan(number)) continue;
      /* half way to the next number it goes to the even one; a little beyond or
       * before, to the nearer one */
      uint16_t after = (uint16_t)(bits + 1);
      double next = 0;
      keel_float_decode(dtype, &after, &next, &same);
      if (!isfinite(next) || !isfinite(number)) continue;
      double middle = number + (next - number) / 2;
      assert_true(keel_float_encode(dtype, middle, &to));
      assert_int_equal(to, bits & 1 ? after : from);
      assert_true(keel_float_encode(dtype, nextafter(middle, next), &to));
      assert_int_equal(to, after);
      assert_true(keel_float_encode(dtype, nextafter(middle, number), &to));
      assert_int_equal(to, from);
    }
}

/* ---- what text is refused, and how -------------------------------------------------------- */

#define BEGIN      "\"keel.program\"() ({\n^bb0(%0: tensor<2x3xf32>):\n"
#define END(FACTS) "\n}) {" FACTS "} : () -> ()\n"
#define RELU       "%1 = \"onnx.Relu\"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
#define RETURN     "\"keel.return\"(%1) : (tensor<2x3xf32>) -> ()"
#define CONSTANT(VALUE)                            \
  BEGIN "%1 = \"keel.constant\"() {value = " VALUE \
        "} : () -> !keel.value\n"                  \
        "\"keel.return\"(%1) : (!keel.value) -> ()" END("")

static const struct {
  const char *text;
  keel_status status;
  const char *says;
} refused[] = {
    {BEGIN RELU RETURN END("version = 2 : i64"), KD_INCOMPATIBLE,
     "version 2 of Keel's text"},
    {BEGIN RELU RETURN END("ops = {\"onnx.Relu\" = 99 : i64}"), KD_INCOMPATIBLE,
     "since opset 99"},
    {BEGIN RELU RETURN END("device = \"tpu:0\""), KD_NOT_FOUND, "tpu:0"},
    {BEGIN RELU RETURN END("inputs = []"), KD_DATA_LOSS, "1 items"},
    {BEGIN RELU RETURN END("inputs = [3]"), KD_DATA_LOSS, "lists of"},
    {BEGIN RELU RETURN END("outputs = [\"a\"], outputs = [\"a\"]"),
     KD_DATA_LOSS, ":5:29: attribute \"outputs\" is there twice"},
    {BEGIN
     "%1 = \"onnx.Rely\"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n" RETURN
         END(""),
     KD_UNIMPLEMENTED, "did you mean Relu"},
    {BEGIN
     "%1 = \"onnx.Relu\"(%7) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n" RETURN
         END(""),
     KD_DATA_LOSS, ":3:20: %7 is not defined before this"},
    {BEGIN "%1 = \"keel.Region\"(%0) {ops = [\"Relu\"]} : (tensor<2x3xf32>) ->"
           " tensor<2x3xf32>\n" RETURN END(""),
     KD_UNIMPLEMENTED, "before the pass \"regions\""},
    {BEGIN RELU RELU RETURN END(""), KD_DATA_LOSS, "%1 is defined twice"},
    {BEGIN
     "%1 = \"onnx.Relu\"(%0) : (tensor<2x3xf32>) -> tensor<2x4xf32>\n" RETURN
         END(""),
     KD_DATA_LOSS, "this gives f32[2,3]"},
    {BEGIN "%1 = \"onnx.Relu\"(%0) {axis = 1 : i64} : (tensor<2x3xf32>) ->"
           " tensor<2x3xf32>\n" RETURN END(""),
     KD_INVALID_ARGUMENT, ":3:6: Relu has no attribute \"axis\""},
    {BEGIN "%1 = \"onnx.Relu\"(%0) : () -> tensor<2x3xf32>\n" RETURN END(""),
     KD_DATA_LOSS, "1 arguments have 0 types"},
    {BEGIN "%1, %2 = \"onnx.Relu\"(%0) : (tensor<2x3xf32>) -> "
           "tensor<2x3xf32>\n" RETURN END(""),
     KD_DATA_LOSS, "more results than types"},
    {BEGIN "%1 = \"onnx.Relu\"(%0, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) ->"
           " tensor<2x3xf32>\n" RETURN END(""),
     KD_INVALID_ARGUMENT, "takes 1"},
    {BEGIN RELU "\"keel.return\"() : () -> ()" END(""), KD_DATA_LOSS,
     "has no output"},
    {BEGIN RELU RETURN END("") "\"more\"", KD_DATA_LOSS, "one program"},
    {BEGIN RELU, KD_DATA_LOSS, "should come here, and the text ends"},
    {BEGIN "%1 = \"onnx.Relu", KD_DATA_LOSS, "a string does not end"},
    {BEGIN "%1 = \"onnx.If\"(%0) ({\n\"keel.return\"(%0) : (tensor<2x3xf32>) ->"
           " ()\n}) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n" RETURN END(""),
     KD_DATA_LOSS, "regions get values of others as last arguments"},
    {BEGIN
     "%1 = \"onnx.If\"(%0) ({\n^bb0(%5: tensor<2x3xf32>):\n"
     "\"keel.return\"(%5) : (tensor<2x3xf32>) -> ()\n}) : (tensor<2x3xf32>) ->"
     " tensor<2x3xf32>\n" RETURN END(""),
     KD_DATA_LOSS, "keel.graphs"},
    {BEGIN
     "%1 = \"onnx.If\"() ({\n^bb0(%5: tensor<2x3xf32>):\n"
     "\"keel.return\"(%5) : (tensor<2x3xf32>) -> ()\n}, {\n"
     "^bb0(%5: tensor<2x3xf32>):\n\"keel.return\"(%5) : (tensor<2x3xf32>) -> ()"
     "}) {keel.graphs = [{attribute = \"then_branch\", captures = 1 : i64},"
     " {attribute = \"else_branch\", captures = 1 : i64}]} : () ->"
     " tensor<2x3xf32>\n" RETURN END(""),
     KD_DATA_LOSS, "fewer than its graphs"},
    {CONSTANT("dense_resource<keel_0> : tensor<2xf32>"), KD_DATA_LOSS,
     "no resource \"keel_0\""},
    {CONSTANT("dense_resource<__elided__> : tensor<99xf32>"), KD_DATA_LOSS,
     "left out of this text"},
    {CONSTANT(
         "dense_resource<a> : tensor<2xf32>") "{-# dialect_resources: { "
                                              "builtin: { a: "
                                              "\"0x40000000000000\" } } #-}",
     KD_DATA_LOSS, "has 14 hex digits"},
    {CONSTANT(
         "dense_resource<a> : tensor<1xf32>") "{-# dialect_resources: { "
                                              "builtin: { a: "
                                              "\"0x4000000000G00000\" } } #-}",
     KD_DATA_LOSS, "not hex data"},
    {CONSTANT("dense<[1.0, 2.0]> : tensor<3xf32>"), KD_DATA_LOSS,
     "a list has 2 items"},
    {CONSTANT("dense<[[1.0], [2.0, 3.0]]> : tensor<2x1xf32>"), KD_DATA_LOSS,
     "more elements than"},
    {CONSTANT("dense<300> : tensor<2xui8>"), KD_DATA_LOSS, "type's range"},
    {CONSTANT("dense<-1> : tensor<2xui64>"), KD_DATA_LOSS, "type's range"},
    {CONSTANT("dense<1.5> : tensor<2xi64>"), KD_DATA_LOSS, "not an integer"},
    {CONSTANT("dense<1> : tensor<2xf32>"), KD_DATA_LOSS, "has no point"},
    {CONSTANT("dense<\"0x00\"> : tensor<2xf32>"), KD_DATA_LOSS, "hex digits"},
    {CONSTANT("dense<0.0> : tensor<99999x99999xf32>"), KD_DATA_LOSS,
     "more than the text"},
    {CONSTANT("dense<0.0> : tensor<?xf32>"), KD_DATA_LOSS, "must be known"},
    {CONSTANT("dense<0.0> : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>"),
     KD_DATA_LOSS, "more than 16 dimensions"},
    {CONSTANT("dense<0.0> : tensor<99999999999999999999xf32>"), KD_DATA_LOSS,
     "dimension is too large"},
    {CONSTANT("dense<0.0> : tensor<2xf31>"), KD_DATA_LOSS,
     "\"f31\" is not an element type"},
    {CONSTANT("3 : i64"), KD_DATA_LOSS, "dense data"},
};

TEST_THAT(text_is_refused_with_its_place) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    keel_program *program = NULL;
    write_text(path, refused[i].text);
    keel_status status = keel_program_load(context, path, &program);
    if (status != refused[i].status)
      fail_msg("case %zu: %d %s", i, (int)status, keel_message());
    assert_null(program);
    expect_message(refused[i].says);
    expect_message(path);
  }
}

/* The plainest text that is one: no module, no facts. */
TEST_THAT(text_may_be_short) {
  static const char text[] = "// a comment\n" BEGIN RELU RETURN END("");
  keel_port port;
  write_text(path, text);
  keel_program *program = load_program(context, path);
  expect_ok(keel_program_input(program, 0, &port));
  assert_string_equal(port.name, "input0");
  assert_int_equal(port.dims[1], 3);
  keel_program_release(program);
}

/* ---- damaged images --------------------------------------------------------------------------- */

static void seal(char *data) {
  image_head head;
  memcpy(&head, data, sizeof head);
  head.check = keel_hash(KEEL_HASH_SEED, data + head.head_size,
                         head.data - head.head_size);
  memcpy(data, &head, sizeof head);
}

static keel_status load_bytes(const char *data, size_t size) {
  keel_program *program = NULL;
  write_bytes(path, data, size);
  keel_status status = keel_program_load(context, path, &program);
  keel_program_release(program);
  return status;
}

TEST_THAT(images_are_refused) {
  size_t size = 0;
  char *data = read_bytes(TEST_DATA "/v1.keel", &size), *copy = malloc(size);
  image_head *head = (image_head *)(void *)copy;
  for (size_t cut = 8; cut < size; cut += cut < 400 ? 1 : 37) {
    expect_fails(load_bytes(data, cut), KD_DATA_LOSS, "is damaged");
  }
  memcpy(copy, data, size);
  head->needs = head->version = IMAGE_VERSION + 1;
  expect_fails(load_bytes(copy, size), KD_INCOMPATIBLE, "must know version 4");
  memcpy(copy, data, size);
  copy[head->head_size + 3] ^= 1;
  expect_fails(load_bytes(copy, size), KD_DATA_LOSS, "its checksum is wrong");
  memcpy(copy, data, size);
  head->parts[IMAGE_NODES].count += 1000000;
  expect_fails(load_bytes(copy, size), KD_DATA_LOSS,
               "a stream reaches beyond the file");
  /* an op that is not there, a constant, a value, a name: each with a right sum */
  static const struct {
    image_stream stream;
    size_t field;
    const char *says;
  } fields[] = {
      {IMAGE_NODES, offsetof(image_node, op), "an op is missing"},
      {IMAGE_NODES, offsetof(image_node, name), "a name is missing"},
      {IMAGE_NODES, offsetof(image_node, attr_count), "more attributes"},
      {IMAGE_NODES, offsetof(image_node, input_count), "no values"},
      {IMAGE_VALUES, offsetof(image_value, constant), "constant is missing"},
      {IMAGE_FUNCTIONS, offsetof(image_function, node_count), "more nodes"},
      {IMAGE_FUNCTIONS, offsetof(image_function, value_count), "more values"},
      {IMAGE_FUNCTIONS, offsetof(image_function, input_count), "more ports"},
      {IMAGE_PORTS, offsetof(image_port, rank), "no dimensions"},
      {IMAGE_TYPES, offsetof(image_type, rank), "no dimensions"},
      {IMAGE_TYPES, offsetof(image_type, dtype), "77"},
      {IMAGE_TENSORS, offsetof(image_tensor, kind), "of an unknown kind"},
      {IMAGE_TENSORS, offsetof(image_tensor, type), "reaches beyond the file"},
      {IMAGE_TENSORS, offsetof(image_tensor, at), "reaches beyond the file"},
      {IMAGE_ATTRS, offsetof(image_attr, kind), "of an unknown kind"},
      {IMAGE_WORDS, 0, "an input has no value"},
  };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const uint32_t wrong = 7777777;
    memcpy(copy, data, size);
    memcpy(copy + head->parts[fields[i].stream].offset + fields[i].field,
           &wrong, sizeof wrong);
    seal(copy);
    assert_int_not_equal(load_bytes(copy, size), KD_OK);
    expect_message(fields[i].says);
  }
  /* each value that a node or a function names, also those in nested functions */
  uint32_t words = 0;
  memcpy(copy, data, size);
  words = head->parts[IMAGE_WORDS].count;
  for (uint32_t i = 0; i < words; i++) {
    const uint32_t wrong = 7777777;
    memcpy(copy, data, size);
    memcpy(copy + head->parts[IMAGE_WORDS].offset + i * sizeof wrong, &wrong,
           sizeof wrong);
    seal(copy);
    assert_int_not_equal(load_bytes(copy, size), KD_OK);
  }
  assert_true(words > 20);
  free(copy);
  free(data);
}

/* ---- compiled programs, and dumps ---------------------------------------------------------------- */

TEST_THAT(a_program_names_its_device) {
  keel_program *made = NULL;
  keel_program *program = load_program(context, TEST_DATA "/v1.mlir");
  expect_ok(keel_program_compile(program, NULL, &made));
  expect_ok(keel_program_save(made, path, 0));
  expect_ok(keel_program_save(made, second, KEEL_SAVE_TEXT));
  RELEASE(made, program);
  check_v1(path);
  check_v1(second);
  keel_context *other = open_with(MINIMAL_PLUGIN, NULL, KEEL_NO_WORKERS);
  for (int i = 0; i < 2; i++) {
    expect_fails(keel_program_load(other, i ? second : path, &program),
                 KD_NOT_FOUND, "there is no device \"cpu:0\"");
    expect_message("compile the model again");
  }
  keel_close(other);
}

typedef struct dumps {
  int count;
  char passes[400];
} dumps;

/* Each is text that can be read back, and means the same. */
static void read_dump(void *to, const char *pass, const char *text) {
  dumps *all = to;
  size_t length = strlen(all->passes);
  snprintf(all->passes + length, sizeof all->passes - length, "%s ", pass);
  all->count++;
  write_text(path, text);
  keel_program *program = NULL;
  if (keel_program_load(context, path, &program) != KD_OK)
    fail_msg("after %s: %s\n%s", pass, keel_message(), text);
  keel_program_release(program);
}

/* All, in the order in which they are listed, but for what runs only when it is asked for, and the
 * first "regions", of open sizes. */
static void expect_all_passes(const char *seen) {
  char listed[400] = "";
  const char *name = NULL;
  int regions = 0;
  for (uint32_t i = 0; (name = keel_pass_name(i)); i++) {
    size_t length = strlen(listed);
    if (strcmp(name, "cost") != 0 &&
        (strcmp(name, "regions") != 0 || regions++ > 0))
      snprintf(listed + length, sizeof listed - length, "%s ", name);
  }
  assert_string_equal(seen, listed);
  assert_memory_equal(seen, "place sort prune types ", 23);
  assert_non_null(strstr(seen, " patterns attention "));
  assert_non_null(strstr(seen, " prune layout regions transfer parts "));
}

TEST_THAT(passes_can_be_watched) {
  dumps all = {.count = 0};
  static const char text[] = BEGIN
      "%4 = \"keel.constant\"() {value = dense<1.0> : tensor<f32>} : () ->"
      " tensor<f32>\n"
      "%2 = \"onnx.Add\"(%0, %4) : (tensor<2x3xf32>, tensor<f32>) ->"
      " tensor<2x3xf32>\n"
      "%1 = \"onnx.Relu\"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n" RETURN
          END("");
  write_text(second, text);
  keel_program *program = load_program(context, second);
  keel_plan_params params = {.struct_size = sizeof params,
                             .on_pass = read_dump,
                             .on_pass_context = &all};
  keel_plan *plan = create_plan(program, &params);
  keel_plan_release(plan);
  expect_all_passes(all.passes);
  all.count = 0;
  params.on_pass_name = "prune";
  plan = create_plan(program, &params);
  keel_plan_release(plan);
  assert_int_equal(all.count, 2);
  params.on_pass_name = "prone";
  expect_fails(keel_plan_create(program, &params, &plan), KD_NOT_FOUND,
               "there is no pass \"prone\"; there are place, sort, prune");
  keel_program_release(program);
}

TEST_THAT(saving_says_why_not) {
  keel_program *program = load_program(context, TEST_DATA "/v1.mlir");
  expect_fails(keel_program_save(program, "/nowhere/at/all", 0), KD_UNAVAILABLE,
               "/nowhere/at/all: can't be written");
  expect_fails(keel_program_save(program, path, 6), KD_INVALID_ARGUMENT,
               "no flags 0x6");
  keel_program_release(program);
}

/* ---- in memory -------------------------------------------------------------------------- */

typedef struct bytes {
  char *data;
  uint64_t size;
  uint64_t most; /* bytes that are taken */
} bytes;

static keel_status take_piece(void *to, const void *data, uint64_t size) {
  bytes *all = to;
  if (all->size + size > all->most) return KD_CANCELLED;
  all->data = realloc(all->data, all->size + size);
  assert_non_null(all->data);
  memcpy(all->data + all->size, data, size);
  all->size += size;
  return KD_OK;
}

/* Loads it from memory that is gone when it runs. */
static keel_program *load_gone(bytes *all) {
  keel_program *program = NULL;
  keel_status status = keel_program_load_memory(context, "a model", all->data,
                                                all->size, &program);
  expect_ok(status);
  memset(all->data, 0x5a, all->size);
  free(all->data);
  *all = (bytes){.most = UINT64_MAX};
  return program;
}

TEST_THAT(programs_in_memory_are_those_of_files) {
  static const char *const files[] = {TEST_DATA "/v1.mlir",
                                      TEST_DATA "/v1.keel"};
  for (uint32_t i = 0; i < 2; i++)
    for (uint32_t flags = 0; flags <= KEEL_SAVE_TEXT; flags++) {
      bytes all = {.most = UINT64_MAX};
      size_t size = 0;
      all.data = read_bytes(files[i], &size);
      all.size = size;
      keel_program *program = load_gone(&all);
      run_v1(program, true);
      run_v1(program, false);
      expect_ok(keel_program_save(program, path, flags));
      expect_ok(keel_program_write(program, flags, take_piece, &all));
      keel_program_release(program);
      char *saved = read_bytes(path, &size);
      assert_int_equal(all.size, size);
      assert_memory_equal(all.data, saved, size);
      free(saved);
      program = load_gone(&all);
      run_v1(program, true);
      keel_program_release(program);
    }
}

/* Of more than is copied at once: a constant of 3 MiB and a little. */
TEST_THAT(large_programs_in_memory_are_whole) {
  enum { COUNT = 800000 };
  static float numbers[COUNT], got[COUNT];
  const int64_t count = COUNT;
  bytes all = {.most = UINT64_MAX};
  keel_tensor *x = NULL, *y = NULL;
  for (int i = 0; i < COUNT; i++)
    numbers[i] = (float)i;
  keel_builder *builder = create_builder(context, "large");
  keel_value a = keel_builder_input(builder, "x", KD_F32, 1, &count);
  keel_value b = constant_of(builder, floats(context, COUNT, numbers));
  keel_program *program = program_giving(builder, op(builder, "Add", a, b));
  expect_ok(keel_program_write(program, 0, take_piece, &all));
  keel_program_release(program);
  program = load_gone(&all);
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_tensor_create(context, KD_F32, 1, &count, NULL, &x));
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  expect_ok(keel_tensor_read(y, got, sizeof got));
  assert_memory_equal(got, numbers, sizeof got);
  RELEASE(x, y, plan, program);
}

TEST_THAT(memory_that_is_no_program_is_refused) {
  keel_program *program = NULL;
  size_t size = 0;
  char *data = read_bytes(TEST_DATA "/v1.keel", &size);
  for (size_t cut = 1; cut < size; cut += cut < 300 ? 1 : size / 50) {
    assert_int_not_equal(
        keel_program_load_memory(context, "half", data, cut, &program), KD_OK);
    expect_message("half: ");
    assert_null(program);
  }
  free(data);
  assert_int_not_equal(
      keel_program_load_memory(context, "nothing", NULL, 0, &program), KD_OK);
  expect_message("nothing: ");
}

TEST_THAT(writing_ends_where_it_is_not_taken) {
  keel_program *program = load_program(context, TEST_DATA "/v1.mlir");
  for (uint32_t flags = 0; flags <= KEEL_SAVE_TEXT; flags++) {
    bytes all = {.most = 1};
    expect_fails(keel_program_write(program, flags, take_piece, &all),
                 KD_CANCELLED, "refused the data");
    assert_int_equal(all.size, 0);
  }
  expect_fails(keel_program_write(program, 6, take_piece, NULL),
               KD_INVALID_ARGUMENT, "no flags 0x6");
  keel_program_release(program);
}

static keel_status load_tensor(const uint8_t *bytes, size_t size,
                               keel_tensor **out_tensor) {
  write_bytes(path, bytes, size);
  return keel_value_load(context, path, KEEL_FILE_TENSOR, out_tensor);
}

/* Of ONNX's TensorProto: dims 2 and 2, f32, then raw_data behind a tag, 16 bytes. */
TEST_THAT(bytes_of_tensors_are_found_by_one_number) {
  const uint8_t head[] = {0x08, 2, 0x08, 2, 0x10, 1};
  const uint8_t tags[][6] = {{0x4a},
                             {0xca, 0x00},
                             {0xca, 0x80, 0x80, 0x80, 0x00},
                             {0xca, 0x80, 0x80, 0x80, 0x10},
                             {0xca, 0x80, 0x80, 0x80, 0x80, 0x01}};
  const size_t sizes[] = {1, 2, 5, 5, 6}, valid = 3;
  const float numbers[] = {1, 2, 3, 4};
  for (size_t i = 0; i < 5; i++) {
    uint8_t bytes[40];
    size_t size = sizeof head;
    keel_tensor *tensor = NULL;
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + size, tags[i], sizes[i]);
    size += sizes[i];
    bytes[size++] = sizeof numbers;
    memcpy(bytes + size, numbers, sizeof numbers);
    size += sizeof numbers;
    keel_status status = load_tensor(bytes, size, &tensor);
    if (status == KD_UNIMPLEMENTED) break; /* built without ONNX */
    assert_int_equal(status, i < valid ? KD_OK : KD_DATA_LOSS);
    if (tensor)
      assert_memory_equal(keel_tensor_data(tensor), numbers, sizeof numbers);
    keel_tensor_release(tensor);
    assert_int_equal(load_tensor(bytes, size - 1, &tensor), KD_DATA_LOSS);
  }
}

RUN_TESTS(begin, end)
